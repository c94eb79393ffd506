"""The table "When Redis is away" of docs/safety.md: what each call gives, and how soon."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from redis.asyncio import Redis

from redisson_py import (
    AcquireTimeoutError,
    ConnectionLostError,
    LeaseLostError,
    QuorumError,
    Redisson,
    RedLock,
    ReleaseFailedError,
)
from redisson_py._options import LAST_LOOK
from redisson_py.testing import EmbeddedServer, FaultProxy
from tests.fixtures.client import ClientFactory
from tests.fixtures.fleet import Fleet, until_executed
from tests.fixtures.measured import Measured
from tests.fixtures.redis_server import ProxyFactory
from tests.support.streams import answered
from tests.support.waiting import until, until_async, until_listening

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
    "barrier.wait(short)": (lambda c: c.get_barrier("barrier v", 2).wait(SHORT), SHORT),
    "locked()": (lambda c: c.get_lock("w").locked(), COMMAND_TIMEOUT),
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
                with pytest.raises(ConnectionLostError):
                    await call(client)
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


async def test_what_need_not_wait_fails_with_the_first_attempt_to_connect(
    proxy: ProxyFactory, clients: ClientFactory, measured: Measured
) -> None:
    link = await proxy()
    link.refuse()
    client = clients(link.url, command_timeout=HANGS + 5)
    once: dict[str, Call] = {
        "acquire(timeout=0)": lambda c: c.get_lock("k").acquire(timeout=0),
        "try_acquire()": lambda c: c.get_lock("k").try_acquire(),
        "semaphore": lambda c: c.get_semaphore("semaphore", 1).try_acquire(),
    }
    for name, call in once.items():
        async with timed(name, 0.1, measured):
            with pytest.raises(ConnectionLostError):
                await call(client)


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


async def test_busy_is_what_redis_said_shortly_before(
    away: Away, clients: ClientFactory, measured: Measured
) -> None:
    rival, client = clients(), clients(away.link.url)
    longer = LAST_LOOK + SHORT
    # Connected: what is short of time here is the wait.
    await client.ping(timeout=HANGS)
    async with rival.get_lock("k"):
        async with timed("busy", longer, measured):
            with pytest.raises(AcquireTimeoutError):
                await client.get_lock("k").acquire(timeout=longer)
        away.begin()
        async with timed("nobody knows", longer, measured):
            with pytest.raises(ConnectionLostError):
                await client.get_lock("k").acquire(timeout=longer)
    away.end()


async def test_a_block_whose_release_gets_no_answer_ends_with_a_warning(
    away: Away,
    clients: ClientFactory,
    redis: Redis,
    caplog: pytest.LogCaptureFixture,
    measured: Measured,
) -> None:
    client = clients(away.link.url, command_timeout=COMMAND_TIMEOUT)
    async with timed("end of a block", COMMAND_TIMEOUT, measured):
        async with client.get_lock("k").hold(timeout=HANGS):
            away.begin()
    warnings = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert len([each for each in warnings if "release" in each]) == 1
    away.end()
    # Repeated in the background: long before the lease of 30 s is over.
    await until_async(lambda: is_gone(redis, "k"), HANGS)


async def test_a_block_can_raise_instead(
    away: Away, clients: ClientFactory, redis: Redis, measured: Measured
) -> None:
    client = clients(away.link.url, command_timeout=COMMAND_TIMEOUT, on_release_error="raise")
    async with timed("end of a block that raises", COMMAND_TIMEOUT, measured):
        with pytest.raises(ReleaseFailedError):
            async with client.get_lock("k").hold(timeout=HANGS):
                away.begin()
    away.end()
    await until_async(lambda: is_gone(redis, "k"), HANGS)


async def test_an_explicit_release_and_an_extend_fail(
    away: Away, clients: ClientFactory, redis: Redis, measured: Measured
) -> None:
    client = clients(away.link.url, command_timeout=COMMAND_TIMEOUT)
    lease = await client.get_lock("k").acquire(timeout=HANGS)
    away.begin()
    async with timed("extend", COMMAND_TIMEOUT, measured):
        with pytest.raises(ConnectionLostError):
            await lease.extend(20)
    async with timed("release", COMMAND_TIMEOUT, measured):
        with pytest.raises(ReleaseFailedError):
            await lease.release()
    away.end()
    await until_async(lambda: is_gone(redis, "k"), HANGS)


async def is_gone(redis: Redis, key: str) -> bool:
    return not await redis.exists(key)


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


async def test_redis_comes_back_without_its_data(
    own_server: EmbeddedServer, clients: ClientFactory, measured: Measured
) -> None:
    client, rival = (clients(own_server.url) for _ in range(2))
    latch = client.get_latch("latch", 1)
    assert await latch.count() == 1
    lease = await client.get_lock("held").acquire()
    await rival.get_lock("waited for").acquire()
    waiters = [
        asyncio.create_task(client.get_lock("waited for").acquire()),
        asyncio.create_task(latch.wait()),
    ]
    await until(lambda: client.statistics().waiters == 2)
    await until_listening(client)
    await own_server.kill()
    await own_server.start()
    async with timed("told that it is gone", 1, measured):
        await lease.wait_lost()
    with pytest.raises(LeaseLostError) as lost:
        await lease.release()
    assert lost.value.reason == "taken"
    async with timed("waiters let in", 1, measured):
        granted, _ = await asyncio.gather(*waiters)
    assert granted is not None
    await granted.release()
    await rival.aclose()


async def test_a_block_a_release_and_an_extend_of_what_redis_forgot(
    own_server: EmbeddedServer, clients: ClientFactory
) -> None:
    client = clients(own_server.url)
    released, extended = [await client.get_lock(name).acquire() for name in ("r", "e")]
    reasons = []
    with pytest.raises(LeaseLostError) as lost:
        async with client.get_lock("b"):
            await own_server.kill()
            await own_server.start()
    reasons.append(lost.value.reason)
    for call in (released.release(), extended.extend(20)):
        with pytest.raises(LeaseLostError) as lost:
            await call
        reasons.append(lost.value.reason)
    assert reasons == ["taken"] * 3


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
