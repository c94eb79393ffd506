"""Java and Python processes together on one name of each kind: thousands of hand-offs, judged."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, nullcontext
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import Redisson
from tests.fixtures.client import ClientFactory
from tests.fixtures.java import JavaFactory, RedissonFactory, new_java
from tests.fixtures.measured import Measured
from tests.interop.crowd import (
    LEASE,
    SHARE,
    TIMES,
    WORKERS,
    Crew,
    JavaCrew,
    Order,
    PythonCrew,
    work,
)
from tests.interop.crowd_referee import Referee
from tests.interop.java import Java
from tests.support.counting import Counted
from tests.support.monitor import Monitor
from tests.support.waiting import until

pytestmark = [pytest.mark.timeout(240 * TIMES)]

LOCKS = (
    "lock",
    "non-reentrant lock",
    "fenced lock",
    "fair lock",
    "read-write lock",
    "multi lock",
)
SEMAPHORES = ("semaphore", "permit semaphore")
#: For each section at most: all are woken by one message, and its worker asks twice, then
#: releases and tidies up, for each member of a lock made of locks.
MOST_QUESTIONS = 4 * WORKERS + 6
FOREVER = 10**9


@pytest.fixture(scope="module")
def javas(java: Java, request: pytest.FixtureRequest) -> Iterator[list[Java]]:
    """Two Java machines."""
    with new_java(request) as other:
        yield [java, other]


@pytest.fixture(scope="module")
def processes() -> Iterator[list[PythonCrew]]:
    """Two Python processes."""
    crews = [PythonCrew(), PythonCrew()]
    yield crews
    for crew in crews:
        crew.close()


@pytest.fixture
def pythons(processes: list[PythonCrew]) -> list[PythonCrew]:
    """Two that live: one that failed in a test is replaced."""
    for number, crew in enumerate(processes):
        if crew.process.poll() is not None:
            crew.close()
            processes[number] = PythonCrew()
    return processes


@pytest_asyncio.fixture
async def crews(
    javas: list[Java], pythons: list[PythonCrew], server_url: str
) -> AsyncIterator[list[Crew]]:
    """Two crews of each language; in the end Redisson must not have logged a warning."""
    clients = []
    for java in javas:
        await java.driver.call("complaints")
        clients.append(await java.connect(server_url, lockWatchdogTimeout=LEASE * 1000))
    yield [*map(JavaCrew, javas, clients), *pythons]
    complaints = [await java.driver.call("complaints") for java in javas]
    for java, client in zip(javas, clients, strict=True):
        # 3.27.2 complains if it is shut down before the answer to its last DEL has come.
        await client.call("shutdown", thread=java.new_name())
        await java.driver.call("complaints")
    assert complaints == [[], []]


def say(row: str) -> None:
    """Have a line for those who want to know: `pytest -s`, or a failure, shows it."""
    sys.stdout.write(f"{row}\n")


async def prepare(client: Redisson, java: Java, kind: str, permits: int, parties: int) -> str:
    """Make what must be there before the crowd comes; return the name."""
    if kind == "non-reentrant lock" and not java.since(4, 4):
        pytest.skip(f"Redisson {java.release} has no non-reentrant locks")
    if kind == "semaphore":
        await client.get_semaphore("semaphore").try_set_permits(permits)
    elif kind == "permit semaphore":
        await client.get_permit_expirable_semaphore("semaphore").try_set_permits(permits)
    elif kind == "latch":
        await client.get_latch("k0").try_set_count(parties)
    return "semaphore" if kind in SEMAPHORES else "k"


def order_for(kind: str) -> dict[str, Any]:
    """Return what an order says of a kind of lock.

    A writer's message wakes those threads of a Redisson client that sleep already: one that has
    just heard "busy" is on its way to sleep, misses it, and sleeps for as long as the writer's
    lease would have lasted. Two Redissons do that to each other as well.
    """
    return {"kind": kind, "lease_time": 5} if kind == "read-write lock" else {"kind": kind}


async def assert_as_before(redis: Redis, kind: str, permits: int) -> None:
    """Fail if anything is there but what lasts."""
    keys = [
        key
        for key in await redis.keys()
        if not (b"redisson_unlock_latch" in key or b":redisson_py:receipt:" in key)
    ]
    if kind in SEMAPHORES:
        # The record of its number is there where this library made it.
        assert {b"semaphore"} <= {*keys} <= {b"semaphore", b"{semaphore}:redisson_py:total"}
        assert await redis.get("semaphore") == b"%d" % permits
    else:
        assert keys == [b"redisson_lock_token:{k}"] * (kind == "fenced lock")


@pytest.mark.parametrize("kind", [*LOCKS, *SEMAPHORES, "latch"])
async def test_a_mixed_crowd_alternate_and_nobody_is_forgotten(
    kind: str,
    crews: list[Crew],
    java: Java,
    client: Redisson,
    redis: Redis,
    server_url: str,
    measured: Measured,
) -> None:
    workers = len(crews) * WORKERS
    sections = workers * SHARE
    name = await prepare(client, java, kind, 3, workers)
    async with (
        Referee(workers, permits=3) as referee,
        Counted(redis) as counted,
        Monitor(redis) if kind == "fair lock" else nullcontext() as monitor,
        asyncio.timeout(100 * TIMES),
    ):
        await work(crews, referee, name=name, url=server_url, parties=workers, **order_for(kind))
        log = [] if monitor is None else await monitor.rows()
    assert referee.faults == []
    assert referee.deaths == 0
    assert set(referee.sections.values()) == {WORKERS * SHARE}
    # The languages meet; how often depends on how fast each of them is here.
    assert referee.crossed >= sections // 40
    if kind in LOCKS:
        assert referee.value == (sections // 2 if kind == "read-write lock" else sections)
    if kind in SEMAPHORES:
        assert referee.together == 3
    if kind in SEMAPHORES or kind == "read-write lock":
        assert referee.mixed > 0
    if kind == "fair lock":
        order = Order(b"".join(log), name)
        assert order.overtaken == []
        assert order.grants == sections
        assert order.queued > sections // 2
    questions = counted.calls.get("evalsha", 0) + counted.calls.get("eval", 0)
    assert questions <= MOST_QUESTIONS * sections
    await assert_as_before(redis, kind, 3)
    measured("hand-offs, to the other language", (referee.changed, referee.crossed))
    measured("scripts a section", f"{questions / sections:.1f}")


@pytest.mark.also("interop-cluster")
@pytest.mark.parametrize("kind", [*LOCKS, *SEMAPHORES])
async def test_each_release_wakes_the_other_language_which_alone_comes_next(
    kind: str, crews: list[Crew], java: Java, client: Redisson, redis: Redis, server_url: str
) -> None:
    # One worker each, and none comes twice in a row: no later message makes up for a lost one.
    name = await prepare(client, java, kind, 1, 0)
    # Some pauses are too short for the other one to fall asleep before the release, some not.
    pauses = (0, 0.0003, 0.001, 0.005)
    async with Referee(2, permits=1, pauses=pauses) as referee, asyncio.timeout(100 * TIMES):
        # Java writes only, and so waits for readers only: see `order_for`.
        kinds = ("write lock", "read lock") if kind == "read-write lock" else (kind, kind)
        order: dict[str, Any] = {"name": name, "url": server_url, "workers": 1, "alternate": True}
        async with asyncio.TaskGroup() as group:
            for crew, each in zip(crews[1:3], kinds, strict=True):
                group.create_task(work([crew], referee, kind=each, **order))
    assert referee.faults == []
    assert referee.crossed == 2 * SHARE - 1
    await assert_as_before(redis, kind, 1)


@pytest.mark.parametrize(
    ("kind", "patient"),
    [("lock", "java"), ("fenced lock", "java"), ("read-write lock", "java"), ("lock", "python")],
)
async def test_neither_language_starves_the_other(
    kind: str,
    patient: str,
    crews: list[Crew],
    redis: Redis,
    server_url: str,
) -> None:
    # Python passes the lock among its tasks, as it does by default; a Java thread asks again as
    # soon as it has released.
    async with Referee(len(crews) * WORKERS) as referee, asyncio.timeout(100 * TIMES):
        order: dict[str, Any] = {"name": "k", "url": server_url, "turn": 0.01}
        order |= order_for(kind)

        async def have(language: str, sections: int) -> None:
            some = [crew for crew in crews if crew.language == language]
            await work(some, referee, **order, sections=sections)

        async with asyncio.TaskGroup() as group:
            group.create_task(have("python" if patient == "java" else "java", FOREVER))
            await have(patient, SHARE // 12)
            assert referee.faults == []
            referee.closed = True
    say(f"{kind}: {dict(referee.sections)}")
    assert referee.faults == []
    await assert_as_before(redis, kind, 0)


async def kill(crew: Crew, name: str, referees: list[Referee], dice: random.Random) -> None:
    """Kill a process after a random number of its steps, in the middle of the last."""
    left = dice.randrange(1, 150)
    killed = asyncio.Event()

    def count(process: str, step: str) -> None:
        nonlocal left
        # Nobody begins before all have said hello: who is killed before keeps all from it.
        left -= process == name and step != "hello"
        if left == 0:
            crew.die()
            killed.set()

    for referee in referees:
        referee.on_step = count
    async with asyncio.timeout(60):
        await killed.wait()
    for referee in referees:
        referee.on_step = None


async def until_all_go_on(referees: list[Referee], processes: list[str], redis: Redis) -> None:
    """Return when each of these processes has been in again, in each place, several times."""
    goals = [{each: referee.sections[each] + 10 for each in processes} for referee in referees]
    try:
        await until(
            lambda: all(
                referee.sections[each] >= goal[each]
                for referee, goal in zip(referees, goals, strict=True)
                for each in processes
            ),
            seconds=150,
        )
    except TimeoutError:
        timeouts = "redisson_lock_timeout:{fair lock}"
        say(f"goals {goals}, done {[dict(referee.sections) for referee in referees]}")
        say(f"queue {await redis.zrange(timeouts, 0, -1, withscores=True)}")
        say(f"keys {await redis.keys()}, time {await redis.time()}")
        raise


async def test_the_others_go_on_when_processes_are_killed_that_hold_or_wait(
    start_java: JavaFactory,
    redissons: RedissonFactory,
    java: Java,
    pythons: list[PythonCrew],
    clients: ClientFactory,
    redis: Redis,
    server_url: str,
) -> None:
    seed = random.randrange(2**32)
    say(f"seed {seed}")
    dice = random.Random(seed)
    # Java stands in line for so long at a time, so that its dead are found soon too. A Python
    # process that does not come to ask for its lease counts as dead; the machine may be busy.
    lease_ms, lease_time = 6000, 6
    doomed = start_java()
    lost = JavaCrew(doomed, await doomed.connect(server_url, lockWatchdogTimeout=lease_ms))
    living = JavaCrew(java, await redissons(lockWatchdogTimeout=lease_ms))
    lost_pythons = [PythonCrew(), PythonCrew()]
    async with AsyncExitStack() as stack:
        for crew in lost_pythons:
            stack.callback(crew.close)
        referees = [await stack.enter_async_context(Referee(4 * WORKERS)) for _ in range(2)]
        group = await stack.enter_async_context(asyncio.TaskGroup())
        for kind, referee, python, lost_python in zip(
            ("lock", "fair lock"), referees, pythons, lost_pythons, strict=True
        ):
            order: dict[str, Any] = {"kind": kind, "name": kind, "url": server_url}
            order |= {"sections": FOREVER, "lease_time": lease_time, "wait_ms": lease_ms}
            group.create_task(work([lost, living, lost_python, python], referee, **order))
        await kill(lost, "java0", referees, dice)
        for referee, lost_python in zip(referees, lost_pythons, strict=True):
            await kill(lost_python, "python2", [referee], dice)
        await until_all_go_on(referees, ["java1", "python3"], redis)
        for referee in referees:
            referee.closed = True
    assert [referee.faults for referee in referees] == [[], []]
    say(f"{[referee.deaths for referee in referees]} deaths inside")
    # The dead who still stand in line are found by the next who comes.
    client = clients(lease_time=lease_time)
    for lock in (client.get_lock("lock"), client.get_fair_lock("fair lock")):
        async with lock.hold(timeout=60):
            pass
        assert not await redis.exists(*(await lock.inspect()).keys)


async def test_a_worker_that_does_not_lock_is_seen(server_url: str) -> None:
    crews = [PythonCrew(), PythonCrew()]
    try:
        async with Referee(workers=3, pauses=[0.002]) as referee:
            orders = [{"kind": "lock", "workers": 2}, {"kind": "nothing", "workers": 1}]
            async with asyncio.timeout(30), asyncio.TaskGroup() as group:
                for crew, order in zip(crews, orders, strict=True):
                    group.create_task(work([crew], referee, name="k", url=server_url, **order))
    finally:
        for crew in crews:
            crew.close()
    assert any("alone, came in to ['alone']" in fault for fault in referee.faults)
