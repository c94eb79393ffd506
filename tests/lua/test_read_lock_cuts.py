"""read_lock.renew where somebody else has brought the end of the hash nearer."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from tests.support.scripts.calls import LEASE, A, B, Scripts
from tests.support.scripts.read_write import LONG, ReadWriteScripts


@pytest.fixture
def rw(scripts: Scripts) -> ReadWriteScripts:
    """One read-write lock."""
    return ReadWriteScripts(scripts)


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
    assert LEASE - 5000 < await rw.left() <= LEASE
    for key in (rw.key, rw.hold_key(A)):
        await redis.persist(key)
    assert await rw.read.renew(A, 0) == 1
    assert (await rw.left(), await rw.hold_left(A)) == (-1, -1)
    await redis.delete(rw.key, rw.hold_key(A))
