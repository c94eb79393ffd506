"""read_lock.*: acquire, release, renew, set_lease and force_release, each by itself."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from tests.support.scripts.calls import LEASE, TOMBSTONE, A, B, C, Scripts, ask, everything
from tests.support.scripts.read_write import LONG, ReadWriteScripts


@pytest.fixture
def rw(scripts: Scripts) -> ReadWriteScripts:
    """One read-write lock."""
    return ReadWriteScripts(scripts)


class TestAcquire:
    async def test_the_first_reader_makes_the_lock(self, rw: ReadWriteScripts) -> None:
        assert await rw.read.acquire(A) is None
        assert await rw.fields() == {"mode": "read", A: "1"}
        assert await rw.hold_keys() == [rw.hold_key(A, 1)]
        assert LEASE - 5000 < await rw.hold_left(A) <= LEASE
        assert LEASE - 5000 < await rw.left() <= LEASE

    async def test_any_number_of_readers_share_it(self, rw: ReadWriteScripts) -> None:
        for owner in (A, B, C):
            assert await rw.read.acquire(owner) is None
        assert await rw.fields() == {"mode": "read", A: "1", B: "1", C: "1"}

    async def test_it_lives_as_long_as_the_longest_lease(self, rw: ReadWriteScripts) -> None:
        await rw.read.acquire(A, lease_ms=LONG)
        await rw.read.acquire(B, lease_ms=10_000)
        assert await rw.left() > LEASE
        assert 0 < await rw.hold_left(B) <= 10_000
        await rw.read.acquire(C, lease_ms=2 * LONG)
        assert await rw.left() > LONG

    async def test_the_writer_may_read(self, rw: ReadWriteScripts) -> None:
        await rw.write.acquire(A, lease_ms=LEASE)
        assert await rw.read.acquire(A, lease_ms=LONG) is None
        assert await rw.fields() == {"mode": "write", A + ":write": "1", A: "1"}
        assert await rw.hold_left(A) > LEASE
        assert await rw.left() > LEASE

    async def test_a_plain_lock_of_that_name_keeps_readers_out(
        self, rw: ReadWriteScripts, redis: Redis
    ) -> None:
        await ask(redis, "HSET", rw.key, C, 1)
        await redis.pexpire(rw.key, LEASE)
        before = await everything(redis)
        for side in (rw.read, rw.write):
            reply = await side.acquire(A)
            assert reply is not None
            assert reply > 0
        assert await everything(redis) == before

    async def test_each_hold_has_a_lease_of_its_own(self, rw: ReadWriteScripts) -> None:
        await rw.read.acquire(A, 1, lease_ms=LEASE)
        assert await rw.read.acquire(A, 2, lease_ms=5000) is None
        assert await rw.read.acquire(A, 3, lease_ms=LONG) is None
        assert await rw.fields() == {"mode": "read", A: "3"}
        assert 5000 < await rw.hold_left(A, 1) <= LEASE
        assert 0 < await rw.hold_left(A, 2) <= 5000
        assert await rw.hold_left(A, 3) > LEASE

    async def test_a_repetition_that_comes_late_neither_counts_down_nor_shortens(
        self, rw: ReadWriteScripts
    ) -> None:
        await rw.read.acquire(A, 1, lease_ms=LEASE)
        await rw.read.acquire(A, 2, lease_ms=LEASE)
        await rw.read.set_lease(A, LONG)
        assert await rw.read.acquire(A, 1, lease_ms=LEASE) is None
        assert await rw.fields() == {"mode": "read", A: "2"}
        assert await rw.hold_left(A, 1) > LEASE
        assert await rw.left() > LEASE

    async def test_re_entry_after_all_own_leases_ended_is_lost_not_a_phantom(
        self, rw: ReadWriteScripts, redis: Redis
    ) -> None:
        # Redisson counts on: a hold 2 without a hold 1 (parity.md, weakness 15).
        await rw.read.acquire(A)
        await rw.read.acquire(B)
        await rw.end_holds(A)
        before = await everything(redis)
        assert await rw.read.acquire(A, 2) == -2
        assert await everything(redis) == before

    async def test_re_entry_while_one_own_lease_lives_is_granted(
        self, rw: ReadWriteScripts
    ) -> None:
        await rw.read.acquire(A, 1)
        await rw.read.acquire(A, 2)
        await rw.end_holds(A, 2)
        assert await rw.read.acquire(A, 3) is None
        assert await rw.fields() == {"mode": "read", A: "3"}

    async def test_a_tombstone_is_for_one_side(self, rw: ReadWriteScripts) -> None:
        await rw.read.undo(A)
        assert await rw.write.acquire(A) is None
        await rw.write.undo(A)
        assert await rw.read.acquire(A) == -3


class TestRenew:
    async def test_the_reader_and_the_lock_live_on(self, rw: ReadWriteScripts) -> None:
        await rw.read.acquire(A)
        await rw.read.acquire(A, 2)
        assert [await rw.read.renew(A, LONG), await rw.read.renew(A, LONG)] == [1, 1]
        for left in (await rw.left(), await rw.hold_left(A, 1), await rw.hold_left(A, 2)):
            assert LEASE < left <= LONG

    async def test_a_renewal_never_shortens_what_a_co_holder_relies_on(
        self, rw: ReadWriteScripts
    ) -> None:
        # Redisson's watchdog sets the lock to its own lease (parity.md, weakness 3).
        await rw.read.acquire(A, lease_ms=LONG)
        await rw.read.acquire(B, lease_ms=LEASE)
        assert await rw.read.renew(B, LEASE) == 1
        assert await rw.left() > LEASE
        assert await rw.hold_left(A) > LEASE

    async def test_it_keeps_no_other_reader_alive(self, rw: ReadWriteScripts) -> None:
        await rw.read.acquire(A, lease_ms=LEASE)
        await rw.read.acquire(B, lease_ms=LEASE)
        assert await rw.read.renew(B, LONG) == 1
        assert await rw.hold_left(A) <= LEASE

    async def test_the_writer_that_reads_is_renewed_on_both_sides(
        self, rw: ReadWriteScripts
    ) -> None:
        await rw.write.acquire(A)
        await rw.read.acquire(A)
        assert [await rw.write.renew(A, LONG), await rw.read.renew(A, LONG)] == [1, 1]
        assert await rw.hold_left(A) > LEASE
        assert await rw.left() > LEASE

    async def test_what_is_without_lease_gets_one(self, rw: ReadWriteScripts, redis: Redis) -> None:
        await rw.read.acquire(A)
        await redis.persist(rw.key)
        await redis.persist(rw.hold_key(A))
        assert await rw.read.renew(A) == 1
        assert LEASE - 5000 < await rw.left() <= LEASE
        assert LEASE - 5000 < await rw.hold_left(A) <= LEASE

    @pytest.mark.parametrize("gone", ["the field", "its leases", "everything"])
    async def test_a_reader_that_is_gone_is_not_renewed_and_nothing_is_made(
        self, rw: ReadWriteScripts, redis: Redis, gone: str
    ) -> None:
        await rw.read.acquire(B)
        await rw.read.acquire(A)
        if gone == "its leases":
            await rw.end_holds(A)
        else:
            await rw.read.release(A)
        if gone == "everything":
            await rw.read.release(B)
        before = await everything(redis)
        assert await rw.read.renew(A, LONG) == 0
        assert await everything(redis) == before
        assert await rw.left() <= LEASE

    async def test_a_hold_that_ended_is_not_brought_back(self, rw: ReadWriteScripts) -> None:
        await rw.read.acquire(A, 1)
        await rw.read.acquire(A, 2)
        await rw.end_holds(A, 2)
        assert await rw.read.renew(A) == 1
        assert await rw.hold_keys() == [rw.hold_key(A, 1)]

    async def test_a_batch_answers_for_each_by_itself(
        self, rw: ReadWriteScripts, redis: Redis
    ) -> None:
        tagged = ReadWriteScripts(rw.scripts, key=b"{t}rw")
        await rw.read.acquire(A)
        await rw.read.acquire(B)
        await tagged.read.acquire(C)
        await redis.set(b"string", "mine", px=LEASE)
        await ask(redis, "HSET", b"odd", A, "many")
        await redis.pexpire(b"odd", LEASE)
        keys = [rw.key, b"string", tagged.key, b"gone", rw.key, b"odd", rw.key]
        replies = await rw.scripts.run_batch(
            "read_lock.renew", keys, [A, A, C, A, B, A, C], lease_ms=LONG
        )
        assert replies == [1, 0, 1, 0, 1, 0, 0]
        assert await rw.hold_left(A) > LEASE
        assert await rw.hold_left(B) > LEASE
        assert await tagged.hold_left(C) > LEASE
        assert await redis.pttl(b"string") <= LEASE
        assert await redis.pttl(b"odd") <= LEASE


class TestSetLease:
    async def test_the_only_reader_may_shorten_and_lengthen(self, rw: ReadWriteScripts) -> None:
        await rw.read.acquire(A, 1)
        await rw.read.acquire(A, 2)
        assert await rw.read.set_lease(A, LONG) == 1
        assert LEASE < await rw.left() <= LONG
        assert [await rw.read.set_lease(A), await rw.read.set_lease(A)] == [1, 1]
        for left in (await rw.left(), await rw.hold_left(A, 1), await rw.hold_left(A, 2)):
            assert LEASE - 5000 < left <= LEASE

    async def test_others_keep_what_they_have(self, rw: ReadWriteScripts) -> None:
        await rw.read.acquire(A, lease_ms=LONG)
        await rw.read.acquire(B, lease_ms=LONG)
        assert await rw.read.set_lease(A, LEASE) == 1
        assert await rw.hold_left(A) <= LEASE
        assert await rw.hold_left(B) > LEASE
        assert await rw.left() > LEASE

    async def test_a_writer_that_also_reads_loses_nothing(self, rw: ReadWriteScripts) -> None:
        await rw.write.acquire(A, lease_ms=LONG)
        await rw.read.acquire(A, lease_ms=LONG)
        assert await rw.read.set_lease(A, LEASE) == 1
        assert await rw.hold_left(A) <= LEASE
        assert await rw.left() > LEASE
        assert await rw.read.set_lease(A, 2 * LONG) == 1
        assert await rw.left() > LONG

    async def test_an_expired_reader_cannot_set_its_lease(self, rw: ReadWriteScripts) -> None:
        await rw.read.acquire(A)
        await rw.end_holds(A)
        assert await rw.read.set_lease(A, LONG) == 0
        assert await rw.left() <= LEASE
        assert await rw.hold_keys() == []


class TestForceRelease:
    async def test_it_frees_all_readers(self, rw: ReadWriteScripts, redis: Redis) -> None:
        await rw.read.acquire(A)
        await rw.read.acquire(B)
        assert await rw.read.force_release() == 1
        assert await redis.exists(rw.key) == 0
        assert TOMBSTONE - 5000 < await redis.pttl(rw.read.receipt()) <= TOMBSTONE

    @pytest.mark.parametrize("written", [False, True])
    async def test_a_writer_and_a_free_lock_are_left_alone(
        self, rw: ReadWriteScripts, written: bool
    ) -> None:
        if written:
            await rw.write.acquire(A)
            await rw.read.acquire(A)
        before = await rw.fields()
        assert await rw.read.force_release() == 0
        assert await rw.fields() == before
