"""Java threads and Python tasks wait for one fair lock in the order in which they came.

Who leaves the line, or dies in it, does not stop those of the other side. How Redisson's scores
work is shown in tests/lua/test_fair_golden_vectors.py.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from tests.fixtures.client import ClientFactory
from tests.fixtures.java import JavaFactory, RedissonFactory
from tests.interop.fair import LEASE, Visitor, in_order, java_fair, our_fair
from tests.interop.java import Java, JavaObject
from tests.interop.same_steps import JavaLocks, OurLocks
from tests.interop.tasks import Tasks
from tests.interop.waits import until_asleep
from tests.support.fair_locks import until_queued
from tests.support.scripts.fair import FairScripts

#: The wait that Redisson assumes, in milliseconds.
WAIT = 300_000
#: Seconds: of a waiter whose time is up in a test, which others must join before.
SHORT_WAIT = 12
Start = Callable[[float], Awaitable[Process]]


@pytest_asyncio.fixture
async def theirs(redisson: JavaObject) -> JavaLocks:
    """Redisson's lock."""
    return await java_fair(redisson)


@pytest_asyncio.fixture
async def ours(clients: ClientFactory, tasks: Tasks, only_messages: None) -> OurLocks:
    """Our lock."""
    return our_fair(clients(lease_time=LEASE), tasks)


@pytest.mark.also("interop-cluster")
async def test_a_mixed_queue_is_served_in_order(
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
    queue = [
        Visitor(locks, f"{who}{number}")
        for number in range(3)
        for locks, who in ((far[0], "j"), (near[0], "p"), (far[1], "q"), (near[1], "r"))
    ]
    assert await far[0].acquire("first")
    for number, visitor in enumerate(queue):
        # Every third says for how long it will wait.
        await visitor.join(fair, None if number % 3 else 40)
    assert len(await fair.queued()) == 12
    assert await far[0].release("first")
    await in_order(*queue)


async def lock_vanishes(fair: FairScripts) -> None:
    """End the lock so that nobody is told; whoever waits sleeps on."""
    assert await fair.redis.delete(fair.key)


@pytest.mark.also("interop-cluster")
async def test_nobody_gets_past_a_waiter_of_the_other_side(
    theirs: JavaLocks, ours: OurLocks, redis: Redis, fair: FairScripts, clients: ClientFactory
) -> None:
    # With the script that threads use who wait, so that the server knows it.
    await theirs.wait("a")
    queue = [Visitor(ours, "b"), Visitor(theirs, "c")]
    await queue[0].join(fair)
    await lock_vanishes(fair)
    # It is free, but somebody of ours is the next.
    assert not await theirs.acquire("d")
    assert await fair.holds() == {}
    # Redisson's unlock of what is not held succeeds, and tells the next in line.
    assert await theirs.release("d")
    await queue[0].gets_in()
    await queue[1].join(fair)
    await until_asleep(theirs.lock(), "c")
    await lock_vanishes(fair)
    # It is free, but a thread of Redisson's is the next.
    assert not await ours.acquire("e")
    assert await fair.holds() == {}
    # Our release finds that it was lost, and tells the next in line too.
    assert not await ours.release("b")
    await in_order(queue[1])


def about(score: float) -> object:
    """A moment that the time between commands may have moved a little."""
    return pytest.approx(score, abs=25_000)


@pytest.mark.parametrize("how", ["java's time is up", "our time is up", "ours is cancelled"])
async def test_a_waiter_that_gives_up_leaves_nothing_and_later_ones_move_up(
    theirs: JavaLocks, ours: OurLocks, tasks: Tasks, fair: FairScripts, how: str
) -> None:
    assert await theirs.acquire("a")
    leaver = Visitor(theirs if how == "java's time is up" else ours, "leaver")
    queue = [Visitor(ours, "b"), Visitor(theirs, "c"), Visitor(theirs, "d")]
    await queue[0].join(fair)
    await leaver.join(fair, None if how == "ours is cancelled" else SHORT_WAIT)
    for visitor in queue[1:]:
        await visitor.join(fair)
    owners = await fair.queued()
    before = await fair.moments()
    if how == "ours is cancelled":
        tasks.cancel("leaver")
        with pytest.raises(asyncio.CancelledError):
            await leaver.waiting
    else:
        assert not await leaver.waiting
    await until_queued(fair, 3)
    left = await fair.moments()
    assert await fair.queued() == [owners[0], *owners[2:]]
    # Between the others nothing changed, but for the wait of the one who left.
    wait = WAIT if how == "ours is cancelled" else 1000 * SHORT_WAIT
    first, _, *behind = owners
    for owner in behind:
        nearer = before[owner] - before[first] - (left[owner] - left[first])
        assert nearer == pytest.approx(wait, abs=200)
    assert await theirs.release("a")
    await in_order(*queue)


async def test_killed_threads_at_the_head_and_in_the_middle_are_passed_over(
    start_java: JavaFactory,
    theirs: JavaLocks,
    clients: ClientFactory,
    tasks: Tasks,
    fair: FairScripts,
    server_url: str,
) -> None:
    machine = start_java()
    doomed = await java_fair(await machine.connect(server_url))
    ours = our_fair(clients(lease_time=12), tasks)
    assert await theirs.acquire("a")
    dead = [Visitor(doomed, "first"), Visitor(doomed, "second")]
    queue = [Visitor(ours, "b"), Visitor(theirs, "c"), Visitor(ours, "d")]
    await dead[0].join(fair)
    await queue[0].join(fair)
    await dead[1].join(fair)
    for visitor in queue[1:]:
        await visitor.join(fair)
    await asyncio.to_thread(machine.kill)
    first, _, second, *_ = await fair.queued()
    assert await theirs.release("a")
    await fair.set_moment(first, 500)
    await queue[0].gets_in()
    await queue[0].leaves()
    await fair.set_moment(second, 500)
    await in_order(*queue[1:])


@pytest_asyncio.fixture
async def start(server_url: str) -> AsyncIterator[Start]:
    """Start a process of ours whose tasks wait for the lock, one for each line of its input."""
    started: list[Process] = []

    async def run(lease_time: float) -> Process:
        visitor = ("-m", "tests.support.fair_visitor", server_url, str(lease_time))
        started.append(
            await asyncio.create_subprocess_exec(sys.executable, *visitor, stdin=PIPE, stdout=PIPE)
        )
        return started[-1]

    yield run
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def until_killed(process: Process, fair: FairScripts) -> None:
    """Have a task of a process wait, and kill the process."""
    assert process.stdin is not None
    before = len(await fair.queued())
    process.stdin.write(b"1\n")
    await until_queued(fair, before + 1)
    process.kill()
    await process.wait()


async def test_our_killed_waiter_is_passed_over_as_soon_as_one_of_ours_asks(
    theirs: JavaLocks, clients: ClientFactory, tasks: Tasks, fair: FairScripts, start: Start
) -> None:
    ours = our_fair(clients(lease_time=12), tasks)
    assert await theirs.acquire("a")
    queue = [Visitor(theirs, "b"), Visitor(ours, "c"), Visitor(theirs, "d")]
    # All must be in the queue before the first of the dead is found out.
    processes = await asyncio.gather(start(25), start(25))
    await until_killed(processes[0], fair)
    await queue[0].join(fair)
    await until_killed(processes[1], fair)
    for visitor in queue[1:]:
        await visitor.join(fair)
    assert len(await fair.queued()) == 5
    assert await theirs.release("a")
    await in_order(*queue)


async def test_our_killed_waiter_keeps_its_position_as_long_as_a_redisson_thread(
    theirs: JavaLocks, fair: FairScripts, start: Start
) -> None:
    assert await theirs.acquire("a")
    await until_killed(await start(1), fair)
    queue = [Visitor(theirs, "b"), Visitor(theirs, "c")]
    for visitor in queue:
        await visitor.join(fair)
    (dead, *_) = await fair.queued()
    assert (await fair.moments())[dead] == about(30_000 + WAIT)
    await fair.set_moment(dead, -1)
    assert await theirs.release("a")
    await in_order(*queue)
    # Redisson knows nothing of what we keep beside; that ends by itself.
    assert await fair.redis.pttl(fair.waiters) == about(30_000 + WAIT)
    await fair.redis.delete(fair.waiters)
