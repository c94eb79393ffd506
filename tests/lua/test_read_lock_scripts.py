"""read_lock.*: acquire, release, renew, set_lease and force_release, each by itself."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from tests.support.scripts.calls import LEASE, A, B, C, ask, everything
from tests.support.scripts.read_write import LONG, ReadWriteScripts


class TestAcquire:
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

    async def test_a_tombstone_is_for_one_side(self, rw: ReadWriteScripts) -> None:
        await rw.read.undo(A)
        assert await rw.write.acquire(A) is None
        await rw.write.undo(A)
        assert await rw.read.acquire(A) == -3


class TestRenew:
    async def test_what_is_without_lease_gets_one(self, rw: ReadWriteScripts, redis: Redis) -> None:
        await rw.read.acquire(A)
        await redis.persist(rw.key)
        await redis.persist(rw.hold_key(A))
        assert await rw.read.renew(A) == 1
        assert LEASE - 20_000 < await rw.left() <= LEASE
        assert LEASE - 20_000 < await rw.hold_left(A) <= LEASE

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


class TestRelease:
    async def test_a_lock_cut_short_by_redissons_watchdog_is_mended_by_the_next_exit(
        self, rw: ReadWriteScripts, redis: Redis
    ) -> None:
        await rw.read.acquire(A, lease_ms=LONG)
        await rw.read.acquire(B, lease_ms=LEASE)
        await redis.pexpire(rw.key, 10_000)
        assert await rw.read.release(B) == 0
        assert await rw.left() > LEASE

    async def test_a_lock_without_lease_gets_one_from_the_next_exit(
        self, rw: ReadWriteScripts, redis: Redis
    ) -> None:
        await rw.read.acquire(A)
        await rw.read.acquire(B)
        await redis.persist(rw.key)
        assert await rw.read.release(B) == 0
        assert LEASE - 20_000 < await rw.left() <= LEASE

    async def test_an_impossible_count_of_another_reader_does_not_stop_the_server(
        self, rw: ReadWriteScripts, redis: Redis
    ) -> None:
        await rw.read.acquire(A)
        await ask(redis, "HSET", rw.key, B, 2**52, C, "x")
        assert await rw.read.release(A) == 1
        assert await everything(redis) == {}

    async def test_a_hold_on_one_side_is_none_on_the_other(self, rw: ReadWriteScripts) -> None:
        await rw.read.acquire(A)
        assert await rw.write.release(A) is None
        assert await rw.fields() == {"mode": "read", A: "1"}
        await rw.read.release(A)
        await rw.write.acquire(A)
        assert await rw.read.release(A) is None
        assert await rw.fields() == {"mode": "write", A + ":write": "1"}


class TestInspect:
    async def test_a_free_lock(self, rw: ReadWriteScripts) -> None:
        assert await rw.inspect() == [-2, b"", 0]

    async def test_readers_each_with_what_is_left_of_their_lease(
        self, rw: ReadWriteScripts, redis: Redis
    ) -> None:
        await rw.read.acquire(A, lease_ms=LONG)
        await rw.read.acquire(B, lease_ms=10_000)
        await rw.read.acquire(B, 2, lease_ms=LEASE)
        await rw.read.acquire(C)
        await rw.end_holds(C)
        before = await everything(redis)
        left, mode, count, *others = await rw.inspect()
        assert count == len(others)
        assert LEASE < left <= LONG
        assert mode == b"read"
        found = {others[i]: (others[i + 1], others[i + 2]) for i in range(0, len(others), 3)}
        assert {owner: count for owner, (count, _) in found.items()} == {
            A.encode(): 1,
            B.encode(): 2,
            C.encode(): 1,
        }
        assert LEASE < found[A.encode()][1] <= LONG
        assert 1000 < found[B.encode()][1] <= LEASE
        assert found[C.encode()][1] == -2
        assert await everything(redis) == before

    async def test_a_writer_that_also_reads(self, rw: ReadWriteScripts) -> None:
        await rw.write.acquire(A, lease_ms=LONG)
        await rw.read.acquire(A, lease_ms=LEASE)
        left, mode, count, *others = await rw.inspect()
        assert count == len(others)
        assert LEASE < left <= LONG
        assert mode == b"write"
        assert others[:5] == [f"{A}:write".encode(), 1, -2, A.encode(), 1]
        assert LEASE - 20_000 < others[5] <= LEASE


@pytest.mark.parametrize("lease_ms", [0, LEASE])
async def test_a_lock_that_was_cut_off_lives_as_long_as_this_reader_again(
    rw: ReadWriteScripts, redis: Redis, lease_ms: int
) -> None:
    await rw.read.acquire(A, lease_ms=LONG)
    await redis.pexpire(rw.key, 10_000)
    before = await rw.hold_left(A)
    assert await rw.read.renew(A, lease_ms) == 1
    assert LEASE < await rw.left() <= before
    assert await rw.hold_left(A) <= before


async def test_with_no_lease_nothing_else_is_changed(rw: ReadWriteScripts, redis: Redis) -> None:
    await rw.read.acquire(A, lease_ms=LEASE)
    assert [await rw.read.renew(A, 0), await rw.read.renew(B, 0)] == [1, 0]
    assert LEASE - 20_000 < await rw.left() <= LEASE
    for key in (rw.key, rw.hold_key(A)):
        await redis.persist(key)
    assert await rw.read.renew(A, 0) == 1
    assert (await rw.left(), await rw.hold_left(A)) == (-1, -1)
    await redis.delete(rw.key, rw.hold_key(A))
