"""Java threads and Python tasks wait for one fair lock in the order in which they came."""

from __future__ import annotations

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import NotHeldError, Redisson
from tests.fixtures.client import ClientFactory
from tests.fixtures.java import RedissonFactory
from tests.interop.fair import LEASE, Visitor, in_turn, java_fair, our_fair
from tests.interop.java import Java, JavaError, JavaObject
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


@pytest.mark.parametrize("method", ["getFairLock", "getNonReentrantFairLock"])
async def test_a_mixed_line_is_served_in_order(
    java: Java,
    redissons: RedissonFactory,
    clients: ClientFactory,
    tasks: Tasks,
    fair: FairScripts,
    only_messages: None,
    method: str,
) -> None:
    if method == "getNonReentrantFairLock" and not java.since(4, 4):
        pytest.skip(f"Redisson {java.release} has no non-reentrant locks")
    short = {"fairLockWaitTimeout": 8000} if java.since(3, 46) else {}
    far = [await java_fair(await redissons(**each), method) for each in ({}, short)]
    reentrant = method == "getFairLock"
    near = [our_fair(clients(lease_time=LEASE), tasks, reentrant=reentrant) for _ in range(2)]
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


@pytest.mark.parametrize("ours_is_next", [False, True])
async def test_the_holder_reenters_before_queued_waiters(
    theirs: JavaLocks, ours: OurLocks, fair: FairScripts, ours_is_next: bool
) -> None:
    holds, waits = (theirs, ours) if ours_is_next else (ours, theirs)
    assert await holds.acquire("a")
    visitor = Visitor(waits, "b")
    await visitor.join(fair)
    assert await holds.acquire("a")
    assert [*(await fair.holds()).values()] == [2]
    assert await holds.release("a")
    assert [*(await fair.holds()).values()] == [1]
    assert not visitor.waiting.done()
    assert await holds.release("a")
    await in_turn(visitor)


async def test_a_non_reentrant_one_is_refused_to_its_holder_on_both_sides(
    java: Java, redisson: JavaObject, client: Redisson, tasks: Tasks, fair: FairScripts
) -> None:
    if not java.since(4, 4):
        pytest.skip(f"Redisson {java.release} has no non-reentrant locks")
    theirs = await redisson.get("getNonReentrantFairLock", "k")
    await theirs.call("lock", thread="a")
    with pytest.raises(JavaError) as caught:
        await theirs.call("lock", thread="a")
    assert caught.value.kind == "IllegalMonitorStateException"
    visitor = Visitor(our_fair(client, tasks, reentrant=False), "b")
    await visitor.join(fair)
    await theirs.call("unlock", thread="a")
    await visitor.gets_in()
    with pytest.raises(RuntimeError, match="this task already holds"):
        await visitor.asks_again()
    assert not await theirs.call("tryLock", thread="a")
    await visitor.leaves()


@pytest.mark.parametrize("ours_is_next", [False, True])
async def test_a_forced_release_lets_the_next_in_line_in(
    theirs: JavaLocks, ours: OurLocks, fair: FairScripts, ours_is_next: bool
) -> None:
    holds, waits = (theirs, ours) if ours_is_next else (ours, theirs)
    assert await holds.acquire("a")
    line = [Visitor(waits, "b"), Visitor(holds, "c")]
    for visitor in line:
        await visitor.join(fair)
    assert await holds.force()
    await line[0].gets_in()
    assert not line[1].waiting.done()
    assert not await holds.release("a")
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


async def test_our_stranger_is_refused_where_redissons_is_not(
    redisson: JavaObject, client: Redisson
) -> None:
    with pytest.raises(NotHeldError):
        await client.get_fair_lock("k").release()
    await (await redisson.get("getFairLock", "k")).call("unlock")
