"""The queue of a semaphore where something is refused: holders release, grants are whole."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from tests.lua.conftest import Forbid
from tests.lua.test_golden_vectors import listening
from tests.support.scripts.calls import Scripts
from tests.support.scripts.client_queue import NEWCOMER, X, Y
from tests.support.scripts.unit_queue import FULL, UnitQueue, in_line

KINDS = ["plain", "with ids"]
#: What only the queue needs of a release: its commands, and the channels of the clients.
QUEUE_NEEDS = ["-zrange", "-zcard", "-zrangebyscore", "-zadd", "-exists", "own channels"]
#: What an acquire uses of the queue and of the semaphore.
ACQUIRE_USES = [*QUEUE_NEEDS, "-zrem", "-hset", "-incrby", "-pexpire", "-time", "-hgetall", "-get"]


@pytest_asyncio.fixture(params=KINDS)
async def queue(
    request: pytest.FixtureRequest, scripts: Scripts, redis: Redis
) -> AsyncIterator[UnitQueue]:
    """A semaphore of either kind, and its queue, in which two live."""
    queue = UnitQueue(scripts, request.param)
    async with AsyncExitStack() as stack:
        for each in (X, Y):
            await stack.enter_async_context(listening(redis, queue.own_channel(each)))
        yield queue
    await redis.flushdb()


@pytest.fixture
def poor(queue: UnitQueue, poor_scripts: Scripts) -> UnitQueue:
    """The same semaphore, as a user that lacks what `forbid` names."""
    return UnitQueue(poor_scripts, queue.kind)


@pytest.mark.parametrize("rule", [*QUEUE_NEEDS, "-time"])
@pytest.mark.parametrize("first", [X, "dead"])
async def test_a_holder_releases_all_the_same(
    queue: UnitQueue, poor: UnitQueue, forbid: Forbid, rule: str, first: str
) -> None:
    if rule == "-time" and queue.kind == "with ids":
        pytest.skip("a permit with an id is looked at with the time")
    await in_line(queue, first, Y)
    await forbid(rule, queue.channel)
    assert await poor.release(FULL) is not None
    assert await queue.semaphore.value() == 1
    assert await queue.total() == 3


@pytest.mark.parametrize("rule", ACQUIRE_USES)
@pytest.mark.parametrize("client", [X, NEWCOMER])
@pytest.mark.parametrize("called", [False, True])
async def test_an_acquire_takes_all_or_nothing(
    queue: UnitQueue, poor: UnitQueue, forbid: Forbid, rule: str, client: str, called: bool
) -> None:
    await in_line(queue, X, Y)
    await queue.release(FULL) if called else await queue.gives(1)
    before = await queue.semaphore.value(), await queue.total()
    await forbid(rule, queue.channel)
    try:
        reply = await poor.asks(client, number=2)
    except ResponseError:
        reply = "refused"
    free = before[0] or 0
    assert await queue.total() == before[1]
    taken = await queue.semaphore.value() == free - 1
    # Where even that is refused it is not taken back before its lease ends.
    assert taken is (reply is None) or (reply, rule) == ("refused", "-zrem")
    if reply is None:
        assert client not in await queue.waiting()
