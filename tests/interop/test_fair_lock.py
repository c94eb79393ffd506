"""Java threads and Python tasks wait for one fair lock in the order in which they came."""

from __future__ import annotations

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from tests.fixtures.client import ClientFactory
from tests.fixtures.java import RedissonFactory
from tests.interop.fair import LEASE, Visitor, in_turn, java_fair, our_fair
from tests.interop.java import Java, JavaObject
from tests.interop.same_steps import JavaLocks, OurLocks
from tests.interop.tasks import Tasks
from tests.interop.waits import until_asleep
from tests.support.scripts.fair import FairScripts

pytestmark = pytest.mark.also("interop-cluster")


@pytest_asyncio.fixture
async def theirs(redisson: JavaObject) -> JavaLocks:
    """Redisson's lock."""
    return await java_fair(redisson)


@pytest_asyncio.fixture
async def ours(clients: ClientFactory, tasks: Tasks, only_messages: None) -> OurLocks:
    """Our lock."""
    return our_fair(clients(lease_time=LEASE), tasks)


async def test_a_mixed_line_is_served_in_order(
    java: Java,
    redissons: RedissonFactory,
    clients: ClientFactory,
    tasks: Tasks,
    fair: FairScripts,
    only_messages: None,
) -> None:
    short = {"fairLockWaitTimeout": 8000} if java.since(3, 46) else {}
    far = [await java_fair(await redissons(**each)) for each in ({}, short)]
    near = [our_fair(clients(lease_time=LEASE), tasks) for _ in range(2)]
    line = [
        Visitor(locks, f"{who}{number}")
        for number in range(3)
        for locks, who in ((far[0], "j"), (near[0], "p"), (far[1], "q"), (near[1], "r"))
    ]
    assert await far[0].acquire("first")
    for number, visitor in enumerate(line):
        # Every third says for how long it will wait.
        await visitor.join(fair, None if number % 3 else 40)
    assert len(await fair.queued()) == 12
    assert await far[0].release("first")
    await in_turn(*line)


async def lock_vanishes(fair: FairScripts) -> None:
    """End the lock so that nobody is told; whoever waits sleeps on."""
    assert await fair.redis.delete(fair.key)


async def test_nobody_gets_past_a_waiter_of_the_other_side(
    theirs: JavaLocks, ours: OurLocks, redis: Redis, fair: FairScripts, clients: ClientFactory
) -> None:
    # With the script that threads use who wait, so that the server knows it.
    await theirs.wait("a")
    line = [Visitor(ours, "b"), Visitor(theirs, "c")]
    await line[0].join(fair)
    await lock_vanishes(fair)
    # It is free, but somebody of ours is the next.
    assert not await theirs.acquire("d")
    assert await fair.holds() == {}
    # Redisson's unlock of what is not held succeeds, and tells the next in line.
    assert await theirs.release("d")
    await line[0].gets_in()
    await line[1].join(fair)
    await until_asleep(theirs.lock(), "c")
    await lock_vanishes(fair)
    # It is free, but a thread of Redisson's is the next.
    assert not await ours.acquire("e")
    assert await fair.holds() == {}
    # Our release finds that it was lost, and tells the next in line too.
    assert not await ours.release("b")
    await in_turn(line[1])
