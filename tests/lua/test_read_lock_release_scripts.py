"""read_lock.release and read_write_lock.inspect, each by itself."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from tests.support.scripts.calls import LEASE, A, B, C, Scripts, ask, everything
from tests.support.scripts.read_write import LONG, ReadWriteScripts


@pytest.fixture
def rw(scripts: Scripts) -> ReadWriteScripts:
    """One read-write lock."""
    return ReadWriteScripts(scripts)


class TestRelease:
    async def test_the_last_reader_frees_the_lock(self, rw: ReadWriteScripts, redis: Redis) -> None:
        await rw.read.acquire(A)
        await rw.read.acquire(B)
        assert await rw.read.release(A) == 0
        assert await rw.fields() == {"mode": "read", B: "1"}
        assert await rw.hold_keys() == [rw.hold_key(B)]
        assert await rw.read.release(B) == 1  # nobody listens
        assert await everything(redis) == {}

    @pytest.mark.parametrize(("first", "second", "rest"), [(LONG, LEASE, 5000), (1000, LONG, 5000)])
    async def test_a_release_of_part_leaves_the_lease_the_rest_needs(
        self, rw: ReadWriteScripts, first: int, second: int, rest: int
    ) -> None:
        await rw.read.acquire(A, 1, lease_ms=first)
        await rw.read.acquire(A, 2, lease_ms=second)
        assert await rw.read.release(A, 1, lease_ms=rest) == 0
        for left in (await rw.left(), await rw.hold_left(A, 1)):
            assert 1000 < left <= rest

    async def test_a_release_of_part_may_lengthen_what_all_readers_have(
        self, rw: ReadWriteScripts
    ) -> None:
        await rw.read.acquire(B, lease_ms=LEASE)
        await rw.read.acquire(A, 1, lease_ms=10_000)
        await rw.read.acquire(A, 2, lease_ms=10_000)
        assert await rw.read.release(A, 1, lease_ms=LONG) == 0
        assert await rw.left() > LEASE

    async def test_a_reader_that_leaves_early_shortens_the_lease_to_the_longest_left(
        self, rw: ReadWriteScripts
    ) -> None:
        await rw.read.acquire(A, lease_ms=LONG)
        await rw.read.acquire(B, lease_ms=LEASE)
        await rw.read.acquire(C, lease_ms=10_000)
        assert await rw.read.release(A) == 0
        assert 10_000 < await rw.left() <= LEASE
        assert await rw.read.release(B) == 0
        assert 0 < await rw.left() <= 10_000

    @pytest.mark.parametrize("readers", [15, 16, 17, 200])
    async def test_among_many_the_one_with_the_longest_lease_counts(
        self, rw: ReadWriteScripts, readers: int
    ) -> None:
        # Above so many that only a few are asked at first.
        for number in range(readers):
            await rw.read.acquire(f"client:{number}", lease_ms=10_000 + number)
        await rw.read.acquire(B, lease_ms=LEASE)
        await rw.read.acquire(A, lease_ms=LONG)
        assert await rw.read.release(A) == 0
        assert 10_000 + readers < await rw.left() <= LEASE
        await rw.end_holds(B)
        for number in range(readers - 1):
            await rw.end_holds(f"client:{number}")
        await rw.read.acquire(A, lease_ms=LONG)
        assert await rw.read.release(A) == 0
        assert 0 < await rw.left() <= 10_000 + readers

    async def test_a_reader_that_stays_keeps_its_longer_lease(self, rw: ReadWriteScripts) -> None:
        await rw.read.acquire(A, lease_ms=10_000)
        await rw.read.acquire(B, lease_ms=LONG)
        assert await rw.read.release(A) == 0
        assert await rw.left() > LEASE

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
        assert LEASE - 5000 < await rw.left() <= LEASE

    async def test_dead_readers_do_not_keep_the_lock(
        self, rw: ReadWriteScripts, redis: Redis
    ) -> None:
        for owner in (A, B, C):
            await rw.read.acquire(owner)
        await rw.end_holds(A)
        await rw.end_holds(B)
        assert await rw.read.release(C) == 1
        assert await everything(redis) == {}

    async def test_a_dead_reader_may_still_leave(self, rw: ReadWriteScripts) -> None:
        await rw.read.acquire(A)
        await rw.read.acquire(B)
        await rw.end_holds(A)
        assert await rw.read.release(A) == 0
        assert await rw.fields() == {"mode": "read", B: "1"}
        assert await rw.read.release(B) == 1

    async def test_an_impossible_count_of_another_reader_does_not_stop_the_server(
        self, rw: ReadWriteScripts, redis: Redis
    ) -> None:
        await rw.read.acquire(A)
        await ask(redis, "HSET", rw.key, B, 2**52, C, "x")
        assert await rw.read.release(A) == 1
        assert await everything(redis) == {}

    async def test_the_writer_that_stops_reading_goes_on_writing(
        self, rw: ReadWriteScripts
    ) -> None:
        await rw.write.acquire(A, lease_ms=LONG)
        await rw.read.acquire(A, 1)
        await rw.read.acquire(A, 2)
        assert await rw.read.release(A, 1, lease_ms=10_000) == 0
        assert await rw.left() > LEASE
        assert await rw.read.release(A) == 0
        assert await rw.fields() == {"mode": "write", A + ":write": "1"}
        assert await rw.left() > LEASE
        assert await rw.read.acquire(B) is not None

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
        left, mode, count, *rest = await rw.inspect()
        assert count == len(rest)
        assert LEASE < left <= LONG
        assert mode == b"read"
        found = {rest[i]: (rest[i + 1], rest[i + 2]) for i in range(0, len(rest), 3)}
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
        left, mode, count, *rest = await rw.inspect()
        assert count == len(rest)
        assert LEASE < left <= LONG
        assert mode == b"write"
        assert rest[:5] == [f"{A}:write".encode(), 1, -2, A.encode(), 1]
        assert LEASE - 5000 < rest[5] <= LEASE

    async def test_a_key_of_another_type_is_an_error(
        self, rw: ReadWriteScripts, redis: Redis
    ) -> None:
        await redis.set(rw.key, "mine", px=LEASE)
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            await rw.inspect()
