"""A full server lets nobody in, and gives back and renews what is held: read-write locks."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from redisson_py.testing import EmbeddedServer
from tests.lua.test_out_of_memory import fill
from tests.support.scripts.calls import LEASE, A, B, Scripts, everything
from tests.support.scripts.read_write import LONG, ReadWriteScripts


@pytest_asyncio.fixture
async def redis(own_server: EmbeddedServer) -> AsyncIterator[Redis]:
    """A client of a server that evicts nothing."""
    async with Redis.from_url(own_server.url) as redis:
        await redis.config_set("maxmemory-policy", "noeviction")
        yield redis


@pytest.fixture
def rw(scripts: Scripts) -> ReadWriteScripts:
    """One read-write lock."""
    return ReadWriteScripts(scripts)


async def test_nobody_is_let_in(rw: ReadWriteScripts, redis: Redis) -> None:
    await rw.read.acquire(A)
    before = await everything(redis)
    await fill(redis)
    for refused in (rw.read.acquire(B), rw.read.acquire(A, 2)):
        with pytest.raises(ResponseError, match=r"OOM|maxmemory"):
            await refused
    assert await everything(redis) == before
    assert (await rw.write.acquire(B) or 0) > 0
    await rw.read.release(A)
    for refused in (rw.read.acquire(B), rw.write.acquire(B)):
        with pytest.raises(ResponseError, match=r"OOM|maxmemory"):
            await refused
    assert await everything(redis) == {}


async def test_readers_leave_and_stay(rw: ReadWriteScripts, redis: Redis) -> None:
    await rw.read.acquire(A)
    await rw.read.acquire(A, 2)
    await rw.read.acquire(B)
    await fill(redis)
    assert await rw.read.renew(A, LONG) == 1
    assert await rw.hold_left(A) > LEASE
    assert await rw.read.set_lease(A, LEASE) == 1
    assert await rw.hold_left(A) <= LEASE
    assert await rw.read.release(A, 1) == 0
    assert await rw.read.undo(A) == 0
    assert await rw.read.release(B) == 1
    assert list(await everything(redis)) == [rw.read.tombstone(A)]


async def test_a_writer_goes_on_reading_and_leaves(rw: ReadWriteScripts, redis: Redis) -> None:
    await rw.write.acquire(A)
    await rw.read.acquire(A)
    await fill(redis)
    assert await rw.write.renew(A, LONG) == 1
    assert await rw.write.set_lease(A, LEASE) == 1
    assert await rw.left() <= LEASE
    assert await rw.write.undo(A) == 1
    assert await rw.fields() == {"mode": "read", A: "1"}
    assert await rw.read.release(A) == 1
    assert list(await everything(redis)) == [rw.write.tombstone(A)]


@pytest.mark.parametrize("side", ["read", "write"])
async def test_what_is_held_can_be_freed_by_force(
    rw: ReadWriteScripts, redis: Redis, side: str
) -> None:
    half = rw.read if side == "read" else rw.write
    await half.acquire(A)
    await fill(redis)
    assert await half.force_release() == 1
    assert await redis.exists(rw.key) == 0
