"""Granted, busy, no answer: busy is only what Redis said, and no answer is an error in time."""

from __future__ import annotations

import asyncio
import logging
import math
from contextlib import suppress
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import (
    AcquireTimeoutError,
    ConnectionLostError,
    QuorumError,
    Redisson,
    ReleaseFailedError,
)
from redisson_py._stream import stream as stream_module
from redisson_py.testing import FaultProxy
from tests.faults.timed_waits import begun_in_time, was_told_busy
from tests.fixtures.client import ClientFactory
from tests.fixtures.fleet import Fleet
from tests.fixtures.redis_server import ProxyFactory
from tests.support.kinds import KINDS, Kind
from tests.support.streams import answered, stream_of
from tests.support.waiting import until, until_async, until_listening, until_waiting

SINGLE = [name for name, kind in KINDS.items() if kind.servers == 1]
#: These have no queue in this process: each of their tasks asks Redis for itself.
UNQUEUED = ["fair_lock", "read_lock", "multi_lock_of_three"]
FAULTS = ["silent", "away"]


@pytest_asyncio.fixture
async def link(proxy: ProxyFactory) -> FaultProxy:
    return await proxy()


@pytest.fixture
def near(clients: ClientFactory) -> Redisson:
    """A client that no fault reaches."""
    return clients()


@pytest_asyncio.fixture
async def far(clients: ClientFactory, link: FaultProxy) -> Redisson:
    client = clients(link.url, command_timeout=0.3)
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


def made(kind: Kind, client: Redisson) -> Any:
    return kind.make([client], "semaphore" if kind.semaphore else "k", 1)


def rival(kind: Kind, client: Redisson) -> Any:
    make = kind.rival or kind.make
    return make([client], "semaphore" if kind.semaphore else "k", 1)


@pytest.mark.parametrize("name", SINGLE)
async def test_busy_is_none_or_a_timeout(near: Redisson, clients: ClientFactory, name: str) -> None:
    far = clients()
    held = await rival(KINDS[name], near).acquire()
    thing = made(KINDS[name], far)
    assert await thing.try_acquire() is None
    assert await thing.try_acquire(timeout=0.7) is None
    for timeout in (0, 0.7):
        with pytest.raises(AcquireTimeoutError):
            await thing.acquire(timeout=timeout)
    # Behind another task of this client, too.
    first = asyncio.create_task(thing.acquire(timeout=30))
    await until_waiting(far, 1)
    assert await thing.try_acquire(timeout=0.7) is None
    await held.release()
    await (await first).release()


@pytest.mark.parametrize(("fault", "free"), [("silent", True), ("silent", False), ("away", True)])
@pytest.mark.parametrize("name", SINGLE)
async def test_no_answer_is_never_busy(
    near: Redisson, far: Redisson, link: FaultProxy, name: str, free: bool, fault: str
) -> None:
    held = None if free else await rival(KINDS[name], near).acquire()
    thing = made(KINDS[name], far)
    fail(link, fault)
    for timeout in (0, 0.1):
        with pytest.raises(ConnectionLostError):
            await thing.try_acquire(timeout=timeout)
        with pytest.raises(ConnectionLostError):
            await thing.acquire(timeout=timeout)
    with pytest.raises(ConnectionLostError):
        await thing.acquire()
    await mend(link, far)
    if held is not None:
        await held.release()
    # And nothing is left of those requests.
    await (await thing.acquire(timeout=30)).release()


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", SINGLE)
async def test_busy_a_while_ago_and_silent_since_is_no_answer(
    near: Redisson, far: Redisson, link: FaultProxy, name: str, fault: str
) -> None:
    held = await rival(KINDS[name], near).acquire()
    thing = made(KINDS[name], far)
    waiting = await begun_in_time(
        lambda: thing.acquire(timeout=2.5), 2.5, lambda: was_told_busy(far)
    )
    fail(link, fault)
    with pytest.raises(ConnectionLostError):
        await waiting
    await mend(link, far)
    await held.release()


@pytest.mark.parametrize("held_by", ["another client", "a task of this client"])
@pytest.mark.parametrize("name", [each for each in SINGLE if each not in UNQUEUED])
async def test_silent_while_it_waits_behind_a_task_is_no_answer(
    near: Redisson, far: Redisson, link: FaultProxy, name: str, held_by: str
) -> None:
    thing = made(KINDS[name], far)
    ours = held_by == "a task of this client"
    held = await (thing if ours else rival(KINDS[name], near)).acquire()
    first = asyncio.create_task(thing.acquire(timeout=60))
    await until_waiting(far, 1)
    second = await begun_in_time(
        lambda: thing.try_acquire(timeout=1.5), 1.5, lambda: far.statistics().waiters == 2
    )
    link.black_hole()
    with pytest.raises(ConnectionLostError):
        await second
    await mend(link, far)
    await held.release()
    await (await first).release()


@pytest.mark.parametrize("fault", FAULTS)
async def test_no_answer_to_a_latch_or_barrier(
    far: Redisson, near: Redisson, link: FaultProxy, fault: str
) -> None:
    await near.get_latch("l").try_set_count(1)
    latch, barrier = far.get_latch("l"), far.get_barrier("b", 2)
    with pytest.raises(AcquireTimeoutError):
        await latch.wait(0.7)
    with pytest.raises(AcquireTimeoutError):
        await far.get_barrier("c", 2).wait(0.7)
    await near.get_barrier("c", 2).reset()
    fail(link, fault)
    for timeout in (0, 0.1, None):
        with pytest.raises(ConnectionLostError):
            await latch.wait(timeout)
        with pytest.raises(ConnectionLostError):
            await barrier.wait(timeout)
    await mend(link, far)
    await near.get_latch("l").delete()
    await near.get_barrier("b", 2).reset()


async def test_timeout_zero_fails_with_the_first_attempt_to_connect(
    clients: ClientFactory, link: FaultProxy
) -> None:
    link.refuse()
    client = clients(link.url, command_timeout=30)
    red = client.get_red_lock(client.get_lock("r"))
    for lock in (client.get_lock("k"), client.get_semaphore("s", 1), client.get_fair_lock("f")):
        async with asyncio.timeout(15):
            with pytest.raises(ConnectionLostError, match="no connection to Redis at"):
                await lock.try_acquire()
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


async def test_whatever_looks_waits_for_the_command_timeout(
    far: Redisson, link: FaultProxy
) -> None:
    lock, semaphore = far.get_lock("k"), far.get_semaphore("s")
    link.black_hole()
    looks = [
        *(lock.locked(), lock.remaining(), lock.force_release(), lock.inspect(), far.ping()),
        *(semaphore.available(), semaphore.drain(), far.get_latch("l").count_down()),
        *(far.get_barrier("b", 2).n_waiting(), far.get_barrier("b", 2).abort()),
    ]
    for outcome in await asyncio.gather(*looks, return_exceptions=True):
        assert type(outcome) is ConnectionLostError
    await mend(link, far)


@pytest.mark.parametrize("kind", ["lock", "semaphore", "latch"])
@pytest.mark.parametrize("timed_head", [False, True])
async def test_all_without_a_timeout_fail_together(
    near: Redisson, far: Redisson, link: FaultProxy, kind: str, timed_head: bool
) -> None:
    if kind == "latch":
        await near.get_latch("l").try_set_count(1)
        wait: Any = far.get_latch("l").wait
    else:
        held = await made(KINDS[kind], near).acquire()
        far_thing = made(KINDS[kind], far)

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
    monkeypatch.setattr(stream_module, "MAX_IN_FLIGHT", 1)
    link.black_hole()
    stuck = asyncio.create_task(far.ping())
    await until(lambda: stream_of(far).full)
    things = [made(KINDS[name], far) for name in SINGLE]
    for thing in things:
        with pytest.raises(ConnectionLostError):
            await thing.try_acquire(timeout=0.05)
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
    await until(lambda: all(client._table.seats for client in fleet.made[3:]))
    for server in fleet.servers[:2]:
        await server.pause()
    with pytest.raises(QuorumError) as raised:
        await waiting
    assert not raised.value.quorum_answered
    for server in fleet.servers[:2]:
        await server.resume()
    await held.release()


# Releases without an answer.


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", SINGLE)
async def test_a_finished_block_whose_release_gets_no_answer_ends_normally(
    far: Redisson,
    link: FaultProxy,
    redis: Redis,
    caplog: pytest.LogCaptureFixture,
    name: str,
    fault: str,
) -> None:
    thing = made(KINDS[name], far)
    async with thing.hold(timeout=20):
        fail(link, fault)
    (record,) = [each for each in caplog.records if "the release of" in each.getMessage()]
    assert record.levelno == logging.WARNING
    await mend(link, far)

    async def released() -> bool:
        if KINDS[name].semaphore:
            return await redis.get("semaphore") == b"1"
        return not await redis.exists("k")

    # Long before its lease of 30 s is over.
    await until_async(released, 15)


@pytest.mark.parametrize("name", SINGLE)
async def test_a_release_that_gets_no_answer_can_be_an_error(
    clients: ClientFactory, link: FaultProxy, name: str
) -> None:
    client = clients(link.url, command_timeout=0.3, on_release_error="raise")
    thing = made(KINDS[name], client)
    with pytest.raises(ReleaseFailedError, match="the release of"):
        async with thing.hold(timeout=20):
            link.black_hole()
    await mend(link, client)
    # The release was repeated, so it is free: long before its lease of 30 s is over.
    lease = await thing.acquire(timeout=15)
    link.black_hole()
    with pytest.raises(ReleaseFailedError):
        await lease.release()
    await mend(link, client)
    await (await thing.acquire(timeout=15)).release()


# The default of timeouts.


@pytest.mark.parametrize("name", SINGLE)
async def test_acquire_timeout_is_the_default_of_every_acquire(
    near: Redisson, clients: ClientFactory, name: str
) -> None:
    kind = KINDS[name]
    held = await rival(kind, near).acquire()
    client = clients(acquire_timeout=0.5)
    await answered(client)
    thing = made(kind, client)
    with pytest.raises(AcquireTimeoutError):
        await thing.acquire()
    with pytest.raises(AcquireTimeoutError):
        async with thing:
            pass
    with pytest.raises(AcquireTimeoutError):
        async with thing.hold():
            pass
    assert await thing.try_acquire(timeout=None) is None
    patient = asyncio.create_task(thing.acquire(timeout=math.inf))
    await until(lambda: thing.statistics().waiters == 1)
    await asyncio.sleep(0.7)  # longer than the default
    assert not patient.done()
    await held.release()
    await (await patient).release()
    async with thing as lease:
        assert lease
