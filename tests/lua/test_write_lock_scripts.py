"""write_lock.*: acquire, release, set_lease and force_release; lock.renew for its mark."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from tests.support.scripts.calls import LEASE, TOMBSTONE, A, B, Scripts, everything
from tests.support.scripts.read_write import LONG, ReadWriteScripts


@pytest.fixture
def rw(scripts: Scripts) -> ReadWriteScripts:
    """One read-write lock."""
    return ReadWriteScripts(scripts)


WRITTEN = {"mode": "write", A + ":write": "1"}


class TestAcquire:
    async def test_a_reader_that_asks_to_write_is_refused(
        self, rw: ReadWriteScripts, redis: Redis
    ) -> None:
        await rw.read.acquire(A)
        before = await everything(redis)
        reply = await rw.write.acquire(A)
        assert reply is not None
        assert reply > 0
        assert await everything(redis) == before


class TestRelease:
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

    async def test_a_shorter_lease_does_not_end_its_reads(self, rw: ReadWriteScripts) -> None:
        await rw.write.acquire(A)
        await rw.read.acquire(A, lease_ms=LONG)
        assert await rw.write.set_lease(A, 1000) == 1
        assert await rw.left() > LEASE


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
