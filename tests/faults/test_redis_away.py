"""The table "When Redis is away" of docs/safety.md: what each call gives, and how soon."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from redisson_py import (
    ConnectionLostError,
    LeaseLostError,
    QuorumError,
    Redisson,
    RedLock,
)
from redisson_py.testing import FaultProxy
from tests.fixtures.client import ClientFactory
from tests.fixtures.fleet import Fleet, until_executed
from tests.fixtures.measured import Measured
from tests.fixtures.redis_server import ProxyFactory
from tests.support.streams import answered
from tests.support.waiting import until_async, until_listening

COMMAND_TIMEOUT = 0.6
SHORT = 0.2
LONG = 1.5  # longer than the client waits where a call says nothing

#: Whatever hangs is noticed; how long a call took is printed.
HANGS = 25

Call = Callable[[Redisson], Awaitable[object]]

#: The calls that begin while Redis is away, and how soon each must fail.
CALLS: dict[str, tuple[Call, float]] = {
    "acquire()": (lambda c: c.get_lock("acquire()").acquire(), COMMAND_TIMEOUT),
    "acquire(timeout=short)": (lambda c: c.get_lock("a").acquire(timeout=SHORT), SHORT),
    "acquire(timeout=long)": (lambda c: c.get_lock("b").acquire(timeout=LONG), LONG),
    "acquire(timeout=0)": (lambda c: c.get_lock("c").acquire(timeout=0), COMMAND_TIMEOUT),
    "try_acquire()": (lambda c: c.get_lock("d").try_acquire(), COMMAND_TIMEOUT),
    "try_acquire(timeout=short)": (lambda c: c.get_lock("e").try_acquire(timeout=SHORT), SHORT),
    "a block": (lambda c: c.get_lock("f").__aenter__(), COMMAND_TIMEOUT),
    "fenced lock": (lambda c: c.get_fenced_lock("g").acquire(timeout=SHORT), SHORT),
    "fair lock": (lambda c: c.get_fair_lock("h").acquire(timeout=SHORT), SHORT),
    "fair lock, once": (lambda c: c.get_fair_lock("i").try_acquire(), COMMAND_TIMEOUT),
    "read lock": (lambda c: c.get_read_write_lock("j").read_lock().acquire(timeout=SHORT), SHORT),
    "write lock": (
        lambda c: c.get_read_write_lock("k").write_lock().acquire(timeout=SHORT),
        SHORT,
    ),
    "semaphore": (lambda c: c.get_semaphore("semaphore l", 1).acquire(timeout=SHORT), SHORT),
    "semaphore, once": (
        lambda c: c.get_semaphore("semaphore m", 1).try_acquire(),
        COMMAND_TIMEOUT,
    ),
    "permit with an id": (
        lambda c: c.get_permit_expirable_semaphore("semaphore n", 1).acquire(timeout=SHORT),
        SHORT,
    ),
    "multi lock": (
        lambda c: c.get_multi_lock(c.get_lock("o"), c.get_lock("p")).acquire(timeout=SHORT),
        SHORT,
    ),
    "latch.wait()": (lambda c: c.get_latch("latch q").wait(), COMMAND_TIMEOUT),
    "latch.wait(short)": (lambda c: c.get_latch("latch r").wait(SHORT), SHORT),
    "latch.wait(0)": (lambda c: c.get_latch("latch s").wait(0), COMMAND_TIMEOUT),
    "latch.count_down()": (lambda c: c.get_latch("latch t").count_down(), COMMAND_TIMEOUT),
    "barrier.wait()": (lambda c: c.get_barrier("barrier u", 2).wait(), COMMAND_TIMEOUT),
    "barrier.wait(0)": (lambda c: c.get_barrier("barrier w", 2).wait(0), COMMAND_TIMEOUT),
    "barrier.wait(short)": (lambda c: c.get_barrier("barrier v", 2).wait(SHORT), SHORT),
    "locked()": (lambda c: c.get_lock("w").locked(), COMMAND_TIMEOUT),
    "remaining()": (lambda c: c.get_lock("w").remaining(), COMMAND_TIMEOUT),
    "available()": (lambda c: c.get_semaphore("semaphore w").available(), COMMAND_TIMEOUT),
    "drain()": (lambda c: c.get_semaphore("semaphore x").drain(), COMMAND_TIMEOUT),
    "n_waiting()": (lambda c: c.get_barrier("barrier x", 2).n_waiting(), COMMAND_TIMEOUT),
    "abort()": (lambda c: c.get_barrier("barrier y", 2).abort(), COMMAND_TIMEOUT),
    "inspect()": (lambda c: c.get_lock("x").inspect(), COMMAND_TIMEOUT),
    "force_release()": (lambda c: c.get_lock("y").force_release(), COMMAND_TIMEOUT),
    "ping()": (lambda c: c.ping(), COMMAND_TIMEOUT),
    "ping(timeout=short)": (lambda c: c.ping(timeout=SHORT), SHORT),
}


class Away:
    """A Redis behind a link, there or not.

    Args:
        how: Connections are refused, or everything disappears.
    """

    def __init__(self, link: FaultProxy, how: str) -> None:
        self.link = link
        self._how = how

    def begin(self) -> None:
        if self._how == "refused":
            self.link.refuse()
            self.link.cut()
        else:
            self.link.black_hole()

    def end(self) -> None:
        self.link.pass_through()
        # TCP loses no bytes in the middle of a connection: these are broken.
        self.link.cut()


@pytest.fixture(params=["refused", "black hole"])
async def away(request: pytest.FixtureRequest, proxy: ProxyFactory) -> AsyncIterator[Away]:
    link = await proxy()
    outage = Away(link, request.param)
    yield outage
    outage.end()


@asynccontextmanager
async def timed(what: str, limit: float, measured: Measured) -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    async with asyncio.timeout(HANGS):
        yield
    measured(what, f"{loop.time() - begun:.2f} s, promised within {limit:.2f} s")


@pytest.mark.parametrize("connected", [True, False], ids=["connected", "new"])
async def test_calls_that_begin_while_redis_is_away(
    connected: bool, away: Away, clients: ClientFactory, measured: Measured
) -> None:
    client = clients(away.link.url, command_timeout=COMMAND_TIMEOUT, lease_time=3)
    if connected:
        await client.ping(timeout=HANGS)
    away.begin()

    async def said(name: str, call: Call, limit: float) -> str:
        try:
            async with timed(name, limit, measured):
                with pytest.raises(ConnectionLostError) as caught:
                    await call(client)
                assert caught.type is ConnectionLostError
        except BaseException as error:
            return repr(error)
        return "no answer"

    answers = await asyncio.gather(*[said(name, *row) for name, row in CALLS.items()])
    wrong = {name: said for name, said in zip(CALLS, answers, strict=True) if said != "no answer"}
    assert wrong == {}
    away.end()
    await until_async(lambda: pings(client), HANGS)
    # Nothing is left of them: whoever comes next, gets it.
    async with client.get_lock("acquire()").hold(timeout=HANGS):
        pass


async def pings(client: Redisson) -> bool:
    try:
        await answered(client)
    except ConnectionLostError:
        return False
    return True


async def test_waiters_of_one_name_fail_together(
    away: Away, clients: ClientFactory, measured: Measured
) -> None:
    rival = clients()
    client = clients(away.link.url, command_timeout=COMMAND_TIMEOUT, lease_time=3)
    await client.ping(timeout=HANGS)
    async with rival.get_lock("k"):
        lock = client.get_lock("k")
        waiting = [asyncio.create_task(lock.acquire()) for _ in range(20)]
        await until_listening(client)
        away.begin()
        # A third of the lease, in which a dead connection is found.
        async with timed("20 waiters", COMMAND_TIMEOUT + 1, measured):
            outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {ConnectionLostError}
    away.end()


async def test_waiters_with_longer_timeouts_acquire_when_redis_is_back(
    away: Away, clients: ClientFactory
) -> None:
    rival = clients()
    client = clients(away.link.url, command_timeout=COMMAND_TIMEOUT, lease_time=3)
    await client.ping(timeout=HANGS)
    async with rival.get_lock("k"):
        lock = client.get_lock("k")
        patient = [asyncio.create_task(lock.acquire(timeout=HANGS)) for _ in range(3)]
        await until_listening(client)
        away.begin()
        with pytest.raises(ConnectionLostError):
            await client.get_lock("another").acquire()
        away.end()
    async with asyncio.timeout(HANGS):
        for waiting in patient:
            await (await waiting).release()


async def test_a_held_lease_outlives_a_short_outage_and_not_a_long_one(
    away: Away, clients: ClientFactory, measured: Measured
) -> None:
    long = clients(away.link.url, lease_time=30)
    brief = clients(away.link.url, lease_time=1.5)
    async with long.get_lock("long") as kept:
        lease = await brief.get_lock("brief").acquire()
        away.begin()
        async with timed("told of the loss", 1.5, measured):
            await lease.wait_lost()
        with pytest.raises(LeaseLostError) as lost:
            await lease.release()
        assert lost.value.reason == "expired"
        away.end()
        await until_async(lambda: pings(long), HANGS)
        assert not kept.lost
        assert await long.get_lock("long").owned()


async def test_a_red_lock_without_its_quorum(fleet: Fleet, measured: Measured) -> None:
    lock = fleet.red_lock(3, command_timeout=COMMAND_TIMEOUT)
    await asyncio.gather(*[client.ping(timeout=HANGS) for client in fleet.made])
    async with lock.hold(timeout=HANGS):
        await until_executed(lock)
    await fleet.servers[0].pause()
    async with timed("red lock without a minority", COMMAND_TIMEOUT, measured):
        async with lock.hold(timeout=HANGS):
            pass
    await fleet.servers[1].pause()
    for timeout in (SHORT, LONG):
        async with timed(f"red lock without a quorum, timeout={timeout:g}", timeout, measured):
            with pytest.raises(QuorumError) as told:
                await lock.acquire(timeout=timeout)
        assert not told.value.quorum_answered
    async with timed("red lock without a quorum, no timeout", COMMAND_TIMEOUT, measured):
        with pytest.raises(ConnectionLostError):
            await lock.acquire()
    for server in fleet.servers[:2]:
        await server.resume()
    await until_async(lambda: acquires(lock), HANGS)


async def acquires(lock: RedLock) -> bool:
    try:
        async with lock.hold(timeout=1):
            return True
    except (QuorumError, ConnectionLostError):
        return False
