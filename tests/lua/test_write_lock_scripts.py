"""write_lock.*: acquire, release, set_lease and force_release; lock.renew for its mark."""

from __future__ import annotations

import itertools

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from redisson_py._scripts.source import Arg
from tests.support.scripts.calls import BAD_MS, LEASE, TOMBSTONE, A, B, Scripts, ask, everything
from tests.support.scripts.read_write import BAD_NUMBERS, LONG, ReadWriteScripts


@pytest.fixture
def rw(scripts: Scripts) -> ReadWriteScripts:
    """One read-write lock."""
    return ReadWriteScripts(scripts)


WRITTEN = {"mode": "write", A + ":write": "1"}


class TestAcquire:
    async def test_a_free_lock_is_granted_with_its_lease(
        self, rw: ReadWriteScripts, redis: Redis
    ) -> None:
        assert await rw.write.acquire(A) is None
        assert await rw.fields() == WRITTEN
        assert LEASE - 5000 < await rw.left() <= LEASE
        assert len(await everything(redis)) == 1

    @pytest.mark.parametrize("reader", [False, True])
    async def test_one_writer_keeps_others_out(
        self, rw: ReadWriteScripts, redis: Redis, reader: bool
    ) -> None:
        await (rw.read if reader else rw.write).acquire(A)
        before = await everything(redis)
        reply = await rw.write.acquire(B)
        assert reply is not None
        assert LEASE - 5000 < reply <= LEASE
        assert await everything(redis) == before

    async def test_a_reader_that_asks_to_write_is_refused(
        self, rw: ReadWriteScripts, redis: Redis
    ) -> None:
        await rw.read.acquire(A)
        before = await everything(redis)
        reply = await rw.write.acquire(A)
        assert reply is not None
        assert reply > 0
        assert await everything(redis) == before

    async def test_a_lock_without_lease_is_busy_for_ever(
        self, rw: ReadWriteScripts, redis: Redis
    ) -> None:
        await rw.read.acquire(A)
        await redis.persist(rw.key)
        assert await rw.write.acquire(B) == -1
        await redis.pexpire(rw.key, LEASE)

    @pytest.mark.parametrize("holds", [1, 2, 3])
    async def test_run_twice_is_run_once(self, rw: ReadWriteScripts, holds: int) -> None:
        for count in range(1, holds + 1):
            await rw.write.acquire(A, count)
        assert await rw.write.acquire(A, holds) is None
        assert await rw.fields() == {"mode": "write", A + ":write": str(holds)}

    @pytest.mark.parametrize("first", [LEASE, LONG])
    async def test_re_entry_keeps_the_longer_lease(self, rw: ReadWriteScripts, first: int) -> None:
        await rw.write.acquire(A, lease_ms=first)
        await rw.write.acquire(A, 2, lease_ms=LONG + LEASE - first)
        assert LEASE < await rw.left() <= LONG

    async def test_re_entry_gives_a_lock_without_lease_one(
        self, rw: ReadWriteScripts, redis: Redis
    ) -> None:
        await rw.write.acquire(A)
        await redis.persist(rw.key)
        await rw.write.acquire(A, 2)
        assert LEASE - 5000 < await rw.left() <= LEASE

    async def test_a_late_repetition_does_not_count_down(self, rw: ReadWriteScripts) -> None:
        await rw.write.acquire(A)
        await rw.write.acquire(A, 2)
        assert await rw.write.acquire(A, 1) is None
        assert await rw.fields() == {"mode": "write", A + ":write": "2"}

    @pytest.mark.parametrize("held_by", ["nobody", "a reader", "a writer"])
    async def test_re_entry_into_a_hold_that_is_gone_is_lost_and_makes_nothing(
        self, rw: ReadWriteScripts, redis: Redis, held_by: str
    ) -> None:
        if held_by != "nobody":
            await (rw.read if held_by == "a reader" else rw.write).acquire(B)
        before = await everything(redis)
        assert await rw.write.acquire(A, 2) == -2
        assert await everything(redis) == before

    async def test_an_owner_with_a_tombstone_is_refused_and_makes_nothing(
        self, rw: ReadWriteScripts, redis: Redis
    ) -> None:
        await rw.write.undo(A)
        before = await everything(redis)
        assert await rw.write.acquire(A) == -3
        assert await everything(redis) == before
        assert await rw.write.acquire(B) is None
        assert (await rw.write.acquire(A) or 0) > 0

    @pytest.mark.parametrize(
        "order",
        sorted(set(itertools.permutations(["acquire", "acquire", "undo", "undo", "other"]))),
    )
    async def test_an_undone_acquire_never_touches_another_owner(
        self, rw: ReadWriteScripts, order: tuple[str, ...]
    ) -> None:
        granted = False
        for step in order:
            if step == "other":
                granted = await rw.write.acquire(B) is None
            else:
                await (rw.write.acquire(A) if step == "acquire" else rw.write.undo(A))
        assert await rw.fields() == ({"mode": "write", B + ":write": "1"} if granted else {})

    @pytest.mark.parametrize("holds", [1, 2])
    async def test_a_key_of_another_type_is_an_error_and_stays(
        self, rw: ReadWriteScripts, redis: Redis, holds: int
    ) -> None:
        await redis.set(rw.key, "mine", px=LEASE)
        before = await everything(redis)
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            await rw.write.acquire(A, holds)
        assert await everything(redis) == before

    @pytest.mark.parametrize("count", ["x", "", "1.5", "inf", "nan"])
    @pytest.mark.parametrize("holds", [1, 2])
    async def test_a_corrupted_hold_count_is_an_error_and_never_a_grant(
        self, rw: ReadWriteScripts, redis: Redis, count: str, holds: int
    ) -> None:
        await ask(redis, "HSET", rw.key, "mode", "write", A + ":write", count)
        await redis.pexpire(rw.key, LEASE)
        before = await everything(redis)
        with pytest.raises(ResponseError, match="number"):
            await rw.write.acquire(A, holds)
        assert await everything(redis) == before

    @pytest.mark.parametrize("holds", [1, 2])
    async def test_a_bad_lease_is_refused_before_anything_is_written(
        self, rw: ReadWriteScripts, redis: Redis, holds: int
    ) -> None:
        for count in range(1, holds):
            await rw.write.acquire(A, count)
        before = await everything(redis)
        for lease_ms in BAD_MS:
            with pytest.raises(ResponseError, match=r"must be|not a number"):
                await rw.write.acquire(A, holds, lease_ms=lease_ms)
        assert await everything(redis) == before


class TestRelease:
    async def test_the_last_release_frees_the_lock(
        self, rw: ReadWriteScripts, redis: Redis
    ) -> None:
        await rw.write.acquire(A)
        assert await rw.write.release(A) == 1  # nobody listens
        assert await everything(redis) == {}
        assert await rw.write.release(A) is None

    async def test_a_release_of_part_falls_to_the_stated_count(self, rw: ReadWriteScripts) -> None:
        for holds in (1, 2, 3):
            await rw.write.acquire(A, holds, lease_ms=LONG)
        assert [await rw.write.release(A, 1), await rw.write.release(A, 1)] == [0, 0]
        assert await rw.fields() == WRITTEN
        assert LEASE - 5000 < await rw.left() <= LEASE
        assert await rw.write.release(A, 5) == 0
        assert await rw.fields() == WRITTEN

    async def test_a_release_of_part_leaves_its_own_reads_their_lease(
        self, rw: ReadWriteScripts
    ) -> None:
        await rw.write.acquire(A)
        await rw.write.acquire(A, 2)
        await rw.read.acquire(A, lease_ms=LONG)
        assert await rw.write.release(A, 1, lease_ms=LEASE) == 0
        assert await rw.left() > LEASE

    @pytest.mark.parametrize("lease_ms", [LEASE, LONG])
    async def test_a_writer_that_keeps_reading_keeps_the_lock_for_its_read_lease(
        self, rw: ReadWriteScripts, lease_ms: int
    ) -> None:
        await rw.write.acquire(A, lease_ms=LONG + LEASE - lease_ms)
        await rw.read.acquire(A, lease_ms=lease_ms)
        assert await rw.write.release(A) == 1
        assert await rw.fields() == {"mode": "read", A: "1"}
        assert lease_ms / 2 < await rw.left() <= lease_ms
        assert await rw.read.acquire(B) is None
        assert await rw.write.release(A) is None

    async def test_own_reads_that_have_ended_do_not_keep_the_lock(
        self, rw: ReadWriteScripts, redis: Redis
    ) -> None:
        await rw.write.acquire(A)
        await rw.read.acquire(A)
        await rw.end_holds(A)
        assert await rw.write.release(A) == 1
        assert await everything(redis) == {}

    @pytest.mark.parametrize("holds", [0, 1])
    async def test_a_stranger_releases_nothing(
        self, rw: ReadWriteScripts, redis: Redis, holds: int
    ) -> None:
        await rw.write.acquire(A)
        before = await everything(redis)
        assert await rw.write.release(B, holds) is None
        assert await everything(redis) == before

    @pytest.mark.parametrize("held", [False, True])
    async def test_a_tombstone_is_left_whether_or_not_anything_was_held(
        self, rw: ReadWriteScripts, redis: Redis, held: bool
    ) -> None:
        if held:
            await rw.write.acquire(A)
        assert await rw.write.undo(A) == (1 if held else None)
        assert await redis.get(rw.write.tombstone(A)) == b"1"
        assert TOMBSTONE - 5000 < await redis.pttl(rw.write.tombstone(A)) <= TOMBSTONE

    async def test_a_key_of_another_type_is_an_error_and_nothing_is_written(
        self, rw: ReadWriteScripts, redis: Redis
    ) -> None:
        await redis.set(rw.key, "mine", px=LEASE)
        before = await everything(redis)
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            await rw.write.undo(A)
        assert await everything(redis) == before

    @pytest.mark.parametrize("count", ["x", "", "2.5", "inf"])
    async def test_a_corrupted_count_cannot_fall_in_part_but_can_be_let_go(
        self, rw: ReadWriteScripts, redis: Redis, count: str
    ) -> None:
        await ask(redis, "HSET", rw.key, "mode", "write", A + ":write", count)
        await redis.pexpire(rw.key, LEASE)
        before = await everything(redis)
        with pytest.raises(ResponseError, match="number"):
            await rw.write.release(A, 1, tombstone_ms=TOMBSTONE)
        assert await everything(redis) == before
        assert await rw.write.release(A) == 1
        assert await everything(redis) == {}

    @pytest.mark.parametrize("which", ["holds", "lease_ms", "tombstone_ms"])
    async def test_a_bad_number_is_refused_before_anything_is_written(
        self, rw: ReadWriteScripts, redis: Redis, which: str
    ) -> None:
        await rw.write.acquire(A)
        await rw.write.acquire(A, 2)
        before = await everything(redis)
        for bad in BAD_NUMBERS:
            numbers: dict[str, Arg] = {"tombstone_ms": TOMBSTONE, which: bad}
            with pytest.raises(ResponseError, match=r"must be|not a number"):
                await rw.write.release(A, **numbers)
        assert await everything(redis) == before


class TestLeases:
    async def test_the_writer_is_renewed_until_it_releases(self, rw: ReadWriteScripts) -> None:
        await rw.write.acquire(A)
        assert await rw.write.renew(A, LONG) == 1
        assert await rw.left() > LEASE
        assert await rw.write.renew(A, LEASE) == 1
        assert await rw.left() > LEASE
        await rw.read.acquire(A)
        await rw.write.release(A)
        assert await rw.write.renew(A, 2 * LONG) == 0
        assert await rw.left() <= LEASE

    async def test_its_lease_can_be_set_shorter_and_longer(self, rw: ReadWriteScripts) -> None:
        await rw.write.acquire(A)
        assert await rw.write.set_lease(A, LONG) == 1
        assert await rw.left() > LEASE
        assert [await rw.write.set_lease(A), await rw.write.set_lease(A)] == [1, 1]
        assert LEASE - 5000 < await rw.left() <= LEASE

    async def test_a_shorter_lease_does_not_end_its_reads(self, rw: ReadWriteScripts) -> None:
        await rw.write.acquire(A)
        await rw.read.acquire(A, lease_ms=LONG)
        assert await rw.write.set_lease(A, 1000) == 1
        assert await rw.left() > LEASE

    async def test_a_stranger_sets_nothing(self, rw: ReadWriteScripts, redis: Redis) -> None:
        assert await rw.write.set_lease(A) == 0
        assert await everything(redis) == {}
        await rw.read.acquire(A)
        assert await rw.write.set_lease(A, LONG) == 0
        assert await rw.left() <= LEASE

    async def test_a_bad_lease_is_refused(self, rw: ReadWriteScripts) -> None:
        await rw.write.acquire(A)
        for lease_ms in BAD_MS:
            with pytest.raises(ResponseError, match=r"must be|not a number"):
                await rw.write.set_lease(A, lease_ms)
        assert LEASE - 5000 < await rw.left() <= LEASE


class TestForceRelease:
    async def test_it_frees_the_writer_and_its_reads(
        self, rw: ReadWriteScripts, redis: Redis
    ) -> None:
        await rw.write.acquire(A)
        await rw.read.acquire(A)
        assert await rw.write.force_release() == 1
        assert await redis.exists(rw.key) == 0
        assert TOMBSTONE - 5000 < await redis.pttl(rw.write.receipt()) <= TOMBSTONE

    @pytest.mark.parametrize("read", [False, True])
    async def test_readers_and_a_free_lock_are_left_alone(
        self, rw: ReadWriteScripts, read: bool
    ) -> None:
        if read:
            await rw.read.acquire(A)
        before = await rw.fields()
        assert await rw.write.force_release() == 0
        assert await rw.fields() == before

    async def test_a_repetition_answers_the_same_and_spares_the_next_holder(
        self, rw: ReadWriteScripts
    ) -> None:
        await rw.write.acquire(B)
        assert await rw.write.force_release() == 1
        await rw.write.acquire(A)
        assert await rw.write.force_release() == 1
        assert await rw.fields() == WRITTEN
        assert await rw.write.force_release("r2") == 1
