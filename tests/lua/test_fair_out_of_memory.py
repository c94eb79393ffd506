"""A full server queues nobody, and lets go of holds and places."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from redisson_py.testing import EmbeddedServer
from tests.lua.test_golden_vectors import listening
from tests.lua.test_out_of_memory import fill
from tests.support.scripts.calls import A, B, C, Scripts, everything
from tests.support.scripts.fair import FairScripts

FULL = r"OOM|maxmemory"


@pytest_asyncio.fixture
async def redis(own_server: EmbeddedServer) -> AsyncIterator[Redis]:
    """A client of a server that evicts nothing."""
    async with Redis.from_url(own_server.url) as redis:
        await redis.config_set("maxmemory-policy", "noeviction")
        yield redis


@pytest_asyncio.fixture
async def fair(redis: Redis) -> FairScripts:
    """One fair lock."""
    return FairScripts(await Scripts.on(redis))


async def test_an_acquire_is_refused_and_neither_holds_nor_queues(
    fair: FairScripts, redis: Redis
) -> None:
    await fill(redis)
    with pytest.raises(ResponseError, match=FULL):
        await fair.acquire(A)
    assert await everything(redis) == {}
    await redis.config_set("maxmemory", 0)
    await fair.acquire(A)
    before = await everything(redis)
    await fill(redis)
    with pytest.raises(ResponseError, match=FULL):
        await fair.acquire(B)
    assert (await fair.try_once(B) or 0) > 0
    assert await everything(redis) == before


async def test_a_release_tells_the_head_and_a_waiter_leaves(
    fair: FairScripts, redis: Redis
) -> None:
    await fair.acquire(A)
    await fair.acquire(B)
    await fair.acquire(C)
    await fill(redis)
    async with listening(redis, fair.channel_of(B)) as head:
        assert await fair.release(A) == 2
        assert await head.heard() == [b"0"]
    async with listening(redis, fair.channel_of(C)) as second:
        assert await fair.leave(B) is None
        assert await second.heard() == [b"0"]
    assert await fair.queued() == [C]
    assert (await fair.moments()).keys() == (await fair.alive()).keys() == {C}


async def test_the_head_is_refused_the_lock_and_keeps_its_place(
    fair: FairScripts, redis: Redis
) -> None:
    await fair.acquire(A)
    await fair.acquire(B)
    await fair.release(A)
    before = await everything(redis)
    await fill(redis)
    with pytest.raises(ResponseError, match=FULL):
        await fair.acquire(B)
    assert await everything(redis) == before
    await redis.config_set("maxmemory", 0)
    assert await fair.acquire(B) is None


async def test_a_forced_release_frees_it_and_tells_the_first_alive(
    fair: FairScripts, redis: Redis
) -> None:
    await fair.acquire(A)
    await fair.acquire(B)
    await fair.acquire(C)
    await fair.die(B)
    await fill(redis)
    async with listening(redis, fair.channel_of(C)) as head:
        assert await fair.force_release() == 1
        assert await head.heard() == [b"0"]
    assert await fair.queued() == [C]
