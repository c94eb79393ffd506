"""The queue of a semaphore on a full server: what is held is given back, and the next is called."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from tests.lua.test_client_queue_full import unless_full
from tests.lua.test_golden_vectors import listening
from tests.lua.test_out_of_memory import fill
from tests.lua.test_out_of_memory import full_server as full_server
from tests.lua.test_out_of_memory import redis as redis
from tests.support.scripts.calls import Scripts
from tests.support.scripts.client_queue import LONG, NEWCOMER, X, Y
from tests.support.scripts.unit_queue import FULL, UnitQueue, in_line


@pytest_asyncio.fixture(params=["plain", "with ids"])
async def queue(
    request: pytest.FixtureRequest, scripts: Scripts, redis: Redis
) -> AsyncIterator[UnitQueue]:
    """A semaphore of either kind, and its queue, in which two live."""
    queue = UnitQueue(scripts, request.param)
    async with AsyncExitStack() as stack:
        for each in (X, Y):
            await stack.enter_async_context(listening(redis, queue.own_channel(each)))
        yield queue


@pytest.mark.parametrize("first", [X, "dead"])
async def test_a_release_calls_the_next(queue: UnitQueue, redis: Redis, first: str) -> None:
    await in_line(queue, first, Y)
    await fill(redis)
    assert await queue.release(FULL) == -1
    assert await queue.called() == {Y if first == "dead" else X}
    assert await queue.total() == 3


async def test_who_leaves_has_the_next_called(queue: UnitQueue, redis: Redis) -> None:
    await in_line(queue, X, Y)
    await fill(redis)
    assert await queue.release(FULL) == -1
    assert await queue.leaves(X) == 1
    assert await queue.called() == {Y}


async def test_an_acquire_takes_all_or_nothing(queue: UnitQueue, redis: Redis) -> None:
    await in_line(queue, X, Y)
    await queue.release(FULL)
    await queue.called_ago(X, LONG)
    await fill(redis)
    free = 1
    for client in (Y, X, NEWCOMER):
        # Redis 6.2 grants where a script has written already.
        free -= await unless_full(queue.asks(client, number=2)) is None
        assert await queue.semaphore.value() == free
        assert await queue.total() == 3
