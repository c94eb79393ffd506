"""Granted, busy, no answer: busy is only what Redis said, and no answer is an error in time."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import (
    ConnectionLostError,
    QuorumError,
    Redisson,
    ReleaseFailedError,
)
from redisson_py._options import LAST_LOOK_SECONDS
from redisson_py._redis.stream import stream as stream_module
from redisson_py.testing import FaultProxy
from tests.fixtures.client import ClientFactory
from tests.fixtures.fleet import Fleet
from tests.fixtures.redis_server import ProxyFactory
from tests.support.kinds import CENTRAL, KINDS, SEMAPHORES, enter, leave
from tests.support.streams import answered, stream_of
from tests.support.waiting import listens, until, until_async, until_listening, until_waiting

#: These have no queue in this process: each of their tasks asks Redis for itself.
UNQUEUED = ["fair_lock", "read_lock", "multi_lock_of_three"]
QUEUED = [name for name in CENTRAL if name not in UNQUEUED]
FAULTS = ["silent", "away"]
#: Calls that no kind of lock or semaphore has, and the ways to ask for a lock.
CALLS: dict[str, Callable[[Redisson], Coroutine[Any, Any, object]]] = {
    "acquire()": lambda client: client.get_lock("a").acquire(),
    "acquire(timeout=short)": lambda client: client.get_lock("b").acquire(timeout=0.2),
    "acquire(timeout=long)": lambda client: client.get_lock("c").acquire(timeout=1.5),
    "try_acquire()": lambda client: client.get_lock("d").try_acquire(),
    "a block": lambda client: client.get_lock("e").__aenter__(),
    "locked()": lambda client: client.get_lock("f").locked(),
    "remaining()": lambda client: client.get_lock("f").remaining(),
    "inspect()": lambda client: client.get_lock("f").inspect(),
    "force_release()": lambda client: client.get_lock("f").force_release(),
    "available()": lambda client: client.get_semaphore("semaphore").available(),
    "drain()": lambda client: client.get_semaphore("semaphore").drain(),
    "latch.wait()": lambda client: client.get_latch("latch").wait(),
    "latch.wait(short)": lambda client: client.get_latch("latch").wait(0.2),
    "latch.wait(0)": lambda client: client.get_latch("latch").wait(0),
    "count_down()": lambda client: client.get_latch("latch").count_down(),
    "barrier.wait()": lambda client: client.get_barrier("barrier", 2).wait(),
    "barrier.wait(short)": lambda client: client.get_barrier("barrier", 2).wait(0.2),
    "barrier.wait(0)": lambda client: client.get_barrier("barrier", 2).wait(0),
    "n_waiting()": lambda client: client.get_barrier("barrier", 2).n_waiting(),
    "abort()": lambda client: client.get_barrier("barrier", 2).abort(),
    "limiter.acquire()": lambda client: client.get_rate_limiter("r", 1).acquire(),
    "limiter.acquire(short)": lambda client: client.get_rate_limiter("r", 1).acquire(timeout=0.2),
    "limiter.try_acquire()": lambda client: client.get_rate_limiter("r", 1).try_acquire(),
    "limiter.set_rate()": lambda client: client.get_rate_limiter("r").set_rate(1),
    "limiter.inspect()": lambda client: client.get_rate_limiter("r").inspect(),
    "ping()": lambda client: client.ping(),
}
TIMEOUT = 1.5
#: How late every reply is: on a busy machine the server is short of time, too.
LATE = 0.05


@pytest.fixture
def near(clients: ClientFactory) -> Redisson:
    """A client that no fault reaches."""
    return clients()


@pytest_asyncio.fixture
async def far(clients: ClientFactory, link: FaultProxy) -> Redisson:
    client = clients(link.url, command_timeout=1)
    await client.ping(timeout=20)
    return client


def fail(link: FaultProxy, fault: str) -> None:
    if fault == "silent":
        link.black_hole()
    else:
        link.refuse()
        link.cut()


async def mend(link: FaultProxy, client: Redisson) -> None:
    """Return when Redis has executed whatever the client had left to say."""
    link.pass_through()
    link.cut()
    async with asyncio.timeout(20):
        while True:
            with suppress(ConnectionLostError):
                return await client.ping()


def made(name: str, client: Redisson) -> Any:
    return KINDS[name].one(client, key_of(name))


def rival(name: str, client: Redisson) -> Any:
    return KINDS[name].rival_of(client, key_of(name))


def key_of(name: str) -> str:
    # Counters called so may be left behind.
    return f"semaphore {name}" if KINDS[name].semaphore else name


async def at_once(do: Callable[[str], Coroutine[Any, Any, None]], names: list[str]) -> None:
    """Do the same with things of several kinds at the same time."""
    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(do(name), name=name)


async def all_held(names: list[str], client: Redisson) -> list[Any]:
    """Have a client hold what keeps these from being acquired."""
    return [await rival(name, client).acquire() for name in names]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("connected", [True, False], ids=["connected", "new"])
async def test_calls_that_begin_while_redis_is_away(
    connected: bool, fault: str, clients: ClientFactory, link: FaultProxy
) -> None:
    """The table "When Redis is away" of docs/safety.md."""
    client = clients(link.url, command_timeout=0.6, lease_time=3)
    if connected:
        await client.ping(timeout=20)
    fail(link, fault)
    async with asyncio.timeout(25):
        answers = await outcomes([call(client) for call in CALLS.values()])
    assert dict(zip(CALLS, answers, strict=True)) == dict.fromkeys(CALLS, ConnectionLostError)
    await mend(link, client)
    # Nothing is left of them: whoever comes next, gets it.
    async with client.get_lock("a").hold(timeout=20):
        pass


@pytest.mark.parametrize(("fault", "free"), [("silent", True), ("silent", False), ("away", True)])
async def test_no_answer_is_never_busy(
    near: Redisson, far: Redisson, link: FaultProxy, free: bool, fault: str
) -> None:
    leases = [] if free else await all_held(CENTRAL, near)
    fail(link, fault)

    async def ask(name: str) -> None:
        thing = made(name, far)
        for timeout in (0, 0.1):
            with pytest.raises(ConnectionLostError):
                await thing.try_acquire(timeout=timeout)
            with pytest.raises(ConnectionLostError):
                await thing.acquire(timeout=timeout)
        with pytest.raises(ConnectionLostError):
            await thing.acquire()

    await at_once(ask, CENTRAL)
    await mend(link, far)
    for lease in leases:
        await lease.release()
    # And nothing is left of those requests.
    for name in CENTRAL:
        await (await made(name, far).acquire(timeout=30)).release()


@pytest.mark.parametrize("fault", FAULTS)
async def test_busy_a_while_ago_and_silent_since_is_no_answer(
    near: Redisson, far: Redisson, link: FaultProxy, fault: str
) -> None:
    leases = await all_held(CENTRAL, near)
    things = [made(name, far) for name in CENTRAL]
    waiting = await begun_in_time(
        lambda: outcomes([thing.acquire(timeout=2.5) for thing in things]),
        2.5,
        lambda: heard_busy(far, len(things)) and far._context.bus.table.seats >= len(things),
    )
    fail(link, fault)
    assert await waiting == [ConnectionLostError] * len(things)
    await mend(link, far)
    for lease in leases:
        await lease.release()


@pytest.mark.parametrize("held_by", ["another client", "a task of this client"])
async def test_silent_while_it_waits_behind_a_task_is_no_answer(
    near: Redisson, far: Redisson, link: FaultProxy, held_by: str
) -> None:
    things = [made(name, far) for name in QUEUED]
    if held_by == "another client":
        leases = await all_held(QUEUED, near)
    else:
        leases = [await thing.acquire(timeout=20) for thing in things]
    first = [asyncio.create_task(thing.acquire(timeout=60)) for thing in things]
    await until_waiting(far, len(things))
    second = await begun_in_time(
        lambda: outcomes([thing.try_acquire(timeout=1.5) for thing in things]),
        1.5,
        lambda: far.statistics().waiters == 2 * len(things),
    )
    link.black_hole()
    assert await second == [ConnectionLostError] * len(things)
    await mend(link, far)
    for lease, waits in zip(leases, first, strict=True):
        await lease.release()
        await (await waits).release()


async def test_timeout_zero_fails_with_the_first_attempt_to_connect(
    clients: ClientFactory, link: FaultProxy
) -> None:
    link.refuse()
    client = clients(link.url, command_timeout=30)
    red = client.get_red_lock(client.get_lock("r"))
    for lock in (client.get_lock("k"), client.get_semaphore("s", 1), client.get_fair_lock("f")):
        for call in (lock.try_acquire(), lock.acquire(timeout=0)):
            async with asyncio.timeout(15):
                with pytest.raises(ConnectionLostError, match="no connection to Redis at"):
                    await call
    for wait in (client.get_latch("l").wait, client.get_barrier("b", 2).wait):
        async with asyncio.timeout(15):
            with pytest.raises(ConnectionLostError):
                await wait(0)
    multi = client.get_multi_lock(client.get_lock("a"), client.get_lock("b"))
    async with asyncio.timeout(15):
        with pytest.raises(ConnectionLostError):
            await multi.try_acquire()
        with pytest.raises(QuorumError):
            await red.try_acquire()


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_ping_fails_within_its_own_timeout(
    clients: ClientFactory, link: FaultProxy, fault: str
) -> None:
    client = clients(link.url, command_timeout=30)
    await client.ping()
    await client.ping(timeout=20)
    fail(link, fault)
    async with asyncio.timeout(20):
        with pytest.raises(ConnectionLostError):
            await client.ping(timeout=0.1)
    if fault == "away":
        async with asyncio.timeout(20):
            with pytest.raises(ConnectionLostError, match="no connection"):
                await client.ping(timeout=0)
    for bad in (-1, math.nan):
        with pytest.raises(ValueError, match="timeout"):
            await client.ping(timeout=bad)
    await mend(link, client)


@pytest.mark.parametrize("kind", ["lock", "semaphore", "latch"])
@pytest.mark.parametrize("timed_head", [False, True])
async def test_all_without_a_timeout_fail_together(
    near: Redisson, far: Redisson, link: FaultProxy, kind: str, timed_head: bool
) -> None:
    if kind == "latch":
        await near.get_latch("l").try_set_count(1)
        wait: Any = far.get_latch("l").wait
    else:
        held = await made(kind, near).acquire()
        far_thing = made(kind, far)

        def wait(timeout: float | None) -> Any:
            return far_thing.acquire(timeout=timeout)

    head = asyncio.create_task(wait(60 if timed_head else None))
    await until_waiting(far, 1)
    await until_listening(far)
    others = [asyncio.create_task(wait(None)) for _ in range(50)]
    await until_waiting(far, 51)
    fail(link, "away")
    await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert all(each.done() for each in others), "one after the other"
    assert all(isinstance(each.exception(), ConnectionLostError) for each in others)
    assert len({id(each.exception()) for each in others}) == len(others), "one error for each"
    await mend(link, far)
    if kind == "latch":
        await near.get_latch("l").count_down()
    else:
        await held.release()
    if timed_head:
        result = await head
        if result is not None:
            await result.release()
    else:
        with pytest.raises(ConnectionLostError):
            await head


async def test_a_timeout_covers_the_wait_for_room(
    far: Redisson, link: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_module, "MAX_COMMANDS_IN_FLIGHT", 1)
    link.black_hole()
    stuck = asyncio.create_task(far.ping())
    await until(lambda: stream_of(far).full)
    for name in CENTRAL:
        with pytest.raises(ConnectionLostError):
            await made(name, far).try_acquire(timeout=0.05)
    for wait in (far.get_latch("l").wait, far.get_barrier("b", 2).wait):
        with pytest.raises(ConnectionLostError):
            await wait(0.05)
    with pytest.raises(ConnectionLostError):
        await stuck
    await mend(link, far)


async def test_a_quorum_that_said_busy_and_is_silent_since_is_no_answer(fleet: Fleet) -> None:
    holder, asker = fleet.red_lock(3), fleet.red_lock(3)
    await asyncio.gather(*[client.ping() for client in fleet.made])
    held = await holder.acquire()
    waiting = asyncio.create_task(asker.try_acquire(timeout=3.5))
    await until(lambda: asker.statistics().waiters)
    await until(lambda: all(client._context.bus.table.seats for client in fleet.made[3:]))
    for server in fleet.servers[:2]:
        await server.pause()
    with pytest.raises(QuorumError) as raised:
        await waiting
    assert not raised.value.quorum_answered
    for server in fleet.servers[:2]:
        await server.resume()
    await held.release()


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_finished_block_whose_release_gets_no_answer_ends_normally(
    far: Redisson, link: FaultProxy, redis: Redis, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    blocks = [made(name, far).hold(timeout=20) for name in CENTRAL]
    for block in blocks:
        await enter(block)
    fail(link, fault)
    await asyncio.gather(*map(leave, blocks))
    records = [each for each in caplog.records if "the release of" in each.getMessage()]
    assert [record.levelno for record in records] == [logging.WARNING] * len(blocks)
    answers = "\n".join(record.getMessage() for record in records)
    # For a multi lock, the record names a member, whose name begins with the same words.
    assert all(f"'{key_of(name)}" in answers for name in CENTRAL), answers
    await mend(link, far)

    async def released() -> bool:
        free = [await redis.get(key_of(name)) for name in SEMAPHORES]
        locks = [key_of(name) for name in CENTRAL if name not in SEMAPHORES]
        return free == [b"1"] * len(free) and not await redis.exists(*locks)

    # Long before the leases of 30 s are over.
    await until_async(released, 15)


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_change_that_gets_no_answer_can_be_an_error(
    clients: ClientFactory, link: FaultProxy, fault: str
) -> None:
    client = clients(link.url, command_timeout=0.3, on_release_error="raise")
    things = [made(name, client) for name in CENTRAL]
    blocks = [thing.hold(timeout=20) for thing in things]
    for block in blocks:
        await enter(block)
    fail(link, fault)

    async def fails(call: Coroutine[Any, Any, Any]) -> None:
        with pytest.raises(ReleaseFailedError, match="the release of"):
            await call

    await asyncio.gather(*[fails(leave(block)) for block in blocks])
    await mend(link, client)
    # The releases were repeated, so all is free: long before the leases of 30 s are over.
    leases = [await thing.acquire(timeout=15) for thing in things]
    fail(link, fault)
    extensions = [lease.extend(20) for lease in leases]
    assert await outcomes(extensions) == [ConnectionLostError] * len(leases)
    await asyncio.gather(*[fails(lease.release()) for lease in leases])
    await mend(link, client)
    for thing in things:
        await (await thing.acquire(timeout=15)).release()


def block_at_the_last_look() -> None:
    """Block the event loop from before the last look to half a second after the end of a wait."""
    asyncio.get_running_loop().call_later(TIMEOUT - 0.8, time.sleep, 1.3)


@pytest.mark.parametrize("silent", [True, False])
async def test_waits_for_another_client_have_the_true_answer(
    client: Redisson, clients: ClientFactory, proxy: ProxyFactory, silent: bool
) -> None:
    link = await proxy()
    far = clients(link.url)
    held, waited_for = [
        [
            KINDS["lock"].one(each, "k"),
            KINDS["fair_lock"].one(each, "fair"),
            KINDS["semaphore"].one(each, "semaphore"),
        ]
        for each in (client, far)
    ]
    leases = [await each.acquire() for each in held]
    await answered(far)
    waiting = await begun_in_time(
        lambda: outcomes([each.try_acquire(timeout=TIMEOUT) for each in waited_for]),
        TIMEOUT,
        lambda: heard_busy(far, len(leases)) and far._context.bus.table.seats == len(leases),
    )
    if silent:
        link.black_hole()
    else:
        link.delay(LATE, direction="down")
    block_at_the_last_look()
    assert await waiting == [ConnectionLostError if silent else type(None)] * len(leases)
    if silent:
        link.pass_through()
        link.cut()
        await answered(far)
    for lease in leases:
        await lease.release()


async def begun_in_time(
    begin: Callable[[], Coroutine[Any, Any, object]], seconds: float, answers: Callable[[], object]
) -> asyncio.Task[object]:
    """Begin a wait of so many seconds; return it when `answers()`, before it takes its last look.

    Later than that what Redis said is no "busy a while ago": the wait ends, and is begun again.
    """
    clock = asyncio.get_running_loop().time
    while True:
        ends = clock() + seconds
        waiting = asyncio.create_task(begin())
        await until(lambda waiting=waiting: answers() or waiting.done(), 20)  # type: ignore[misc]
        if not waiting.done() and ends - clock() > LAST_LOOK_SECONDS + 0.2:
            return waiting
        await asyncio.gather(waiting, return_exceptions=True)


async def outcomes(calls: list[Coroutine[Any, Any, Any]]) -> list[type]:
    """Make calls at once; return the types of what they return or raise."""
    return [type(each) for each in await asyncio.gather(*calls, return_exceptions=True)]


def heard_busy(client: Redisson, waiters: int = 1) -> bool:
    """Whether so many tasks of a client wait, and what was asked for them is answered."""
    return client.statistics().waiters == waiters and listens(client._context)
