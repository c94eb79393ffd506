"""A full server grants no units, and takes those that come back: plain semaphores."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from redisson_py.testing import EmbeddedServer
from tests.lua.test_out_of_memory import fill
from tests.support.scripts.calls import TOMBSTONE, A, B, Scripts, everything
from tests.support.scripts.permits import SemaphoreScripts


@pytest_asyncio.fixture
async def redis(own_server: EmbeddedServer) -> AsyncIterator[Redis]:
    """A client of a server that evicts nothing."""
    async with Redis.from_url(own_server.url) as redis:
        await redis.config_set("maxmemory-policy", "noeviction")
        yield redis


@pytest_asyncio.fixture
async def semaphore(redis: Redis) -> SemaphoreScripts:
    """A semaphore of five units."""
    semaphore = SemaphoreScripts(await Scripts.on(redis))
    await semaphore.start(5)
    return semaphore


@pytest.mark.parametrize("others", [0, 1])
async def test_an_acquire_is_refused_and_takes_nothing(
    semaphore: SemaphoreScripts, redis: Redis, others: int
) -> None:
    for number in range(others):
        await semaphore.acquire(f"client-c:{number}")
    before = await everything(redis)
    await fill(redis)
    with pytest.raises(ResponseError, match=r"OOM|maxmemory"):
        await semaphore.acquire(A)
    assert await everything(redis) == before


@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize("tombstone_ms", [0, TOMBSTONE])
async def test_the_last_release_gives_all_back(
    semaphore: SemaphoreScripts, redis: Redis, others: int, tombstone_ms: int
) -> None:
    for number in range(others):
        await semaphore.acquire(f"client-c:{number}")
    await semaphore.acquire(A, 2)
    await fill(redis)
    assert await semaphore.release(A, tombstone_ms=tombstone_ms) == 1
    assert await semaphore.value() == 5 - others
    assert A not in await semaphore.held()
    assert await redis.exists(semaphore.tombstone(A)) == (tombstone_ms > 0)
    assert await semaphore.release(B) is None
