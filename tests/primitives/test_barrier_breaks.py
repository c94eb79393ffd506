"""Who leaves a barrier, and how, breaks it for the others; reset mends it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import (
    AcquireTimeoutError,
    BrokenBarrierError,
    ClientClosedError,
    ConnectionLostError,
    Redisson,
    ScriptError,
)
from redisson_py._time import now
from redisson_py.barriers.barrier import CyclicBarrier
from redisson_py.testing import FaultProxy
from tests.fixtures.client import ClientFactory, assert_idle
from tests.fixtures.redis_server import ProxyFactory
from tests.support.giving_up import WAYS, GiveUp
from tests.support.latch_and_barrier import assert_broken, assert_works, get_barrier
from tests.support.logs import assert_all_retrieved
from tests.support.streams import answered, stream_of
from tests.support.waiting import listens, set_safety_poll, until, until_async, until_listening

pytestmark = pytest.mark.also("cluster")

Wait = Callable[..., Coroutine[Any, Any, object]]

#: Long enough not to end by itself in a test on a slow machine.
LEASE = 1.6


@pytest_asyncio.fixture
async def barrier(client: Redisson) -> AsyncIterator[CyclicBarrier]:
    """A barrier of three of a client that is connected, reset in the end."""
    await answered(client)
    barrier = get_barrier(client)
    yield barrier
    await barrier.reset()


@pytest.fixture
def other(clients: ClientFactory) -> Redisson:
    """Another client, with a party that waits."""
    return clients()


@pytest_asyncio.fixture
async def waiting(barrier: CyclicBarrier, other: Redisson) -> AsyncIterator[asyncio.Task[int]]:
    """The party of the other client."""
    task = asyncio.create_task(get_barrier(other).wait())
    await until_listening(other)
    yield task
    task.cancel()
    await asyncio.wait([task])


async def by_own_timeout(wait: Wait) -> None:
    with pytest.raises(AcquireTimeoutError, match=r"not all 3 parties arrived within 1 s"):
        await wait(1)


async def by_having_no_time(wait: Wait) -> None:
    with pytest.raises(AcquireTimeoutError):
        await wait(0)


async def came(barrier: CyclicBarrier, waiting: asyncio.Task[int], link: FaultProxy) -> bool:
    """Come as the last; False if the other, which has little time, had left on a busy machine."""
    try:
        return await barrier.wait(0) == 1
    except (AcquireTimeoutError, BrokenBarrierError):
        link.pass_through()
        await asyncio.wait([waiting])
        assert isinstance(waiting.exception(), AcquireTimeoutError | ConnectionLostError)
        await barrier.reset()
        return False


class TestLeaving:
    @pytest.mark.usefixtures("old_busy_counts")
    @pytest.mark.parametrize("leave", [*WAYS, by_own_timeout, by_having_no_time])
    async def test_a_party_that_leaves_breaks_it_for_the_others(
        self,
        barrier: CyclicBarrier,
        client: Redisson,
        waiting: asyncio.Task[int],
        leave: GiveUp,
    ) -> None:
        await leave(barrier.wait)
        await assert_broken(waiting)
        assert await barrier.broken()
        assert_idle(client)
        with pytest.raises(BrokenBarrierError, match="barrier 'r' is broken"):
            await barrier.wait()
        await barrier.reset()
        await assert_works(barrier)

    async def test_a_party_that_is_refused_when_it_looks_again_leaves(
        self, barrier: CyclicBarrier, waiting: asyncio.Task[int], redis: Redis
    ) -> None:
        await redis.hset(barrier.key, "parties", "x")
        await redis.publish("redisson_py_barrier:{r}", "0")
        await asyncio.wait([waiting])
        assert isinstance(waiting.exception(), ScriptError)
        await until_async(barrier.broken)

    async def test_a_party_that_times_out_at_the_moment_of_release_has_arrived(
        self, client: Redisson, clients: ClientFactory, proxy: ProxyFactory
    ) -> None:
        """Told that it timed out, it would not go on, though all others do."""
        link = await proxy("r")
        far = clients(link.url)
        await answered(far)
        for _ in range(20):
            started = now()
            waiting = asyncio.create_task(get_barrier(far, parties=2).wait(0.15))
            await until(lambda: waiting.done() or listens(far._context))  # noqa: B023
            # The message does not come before its time is up.
            link.delay(0.25, direction="down")
            if await came(get_barrier(client, parties=2), waiting, link):
                break
        assert await waiting == 0
        assert now() - started >= 0.15

    async def test_a_client_that_closes_breaks_it_though_its_parties_sleep(
        self, barrier: CyclicBarrier, clients: ClientFactory, waiting: asyncio.Task[int]
    ) -> None:
        closing = clients()
        mine = asyncio.create_task(get_barrier(closing).wait())
        await until_listening(closing)
        await closing.aclose()
        await assert_broken(waiting)
        with pytest.raises(ClientClosedError):
            await mine
        assert_idle(closing)


class TestDying:
    async def test_a_party_that_dies_breaks_it_within_one_lease(
        self,
        barrier: CyclicBarrier,
        clients: ClientFactory,
        proxy: ProxyFactory,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        set_safety_poll(monkeypatch, 600)  # only the end of the arrival is to tell of the death
        # Its companion has a longer lease, asks every hundred seconds, and yet must know when to
        # look.
        companion = clients(lease_time=300)
        waiting = asyncio.create_task(get_barrier(companion).wait())
        await until_listening(companion)
        link = await proxy("r")
        doomed = clients(link.url, lease_time=LEASE)
        dying = asyncio.create_task(get_barrier(doomed).wait())
        await until_listening(doomed)
        link.black_hole()
        await asyncio.wait([waiting], timeout=60)
        assert isinstance(waiting.exception(), BrokenBarrierError)
        link.pass_through()
        link.cut()
        await assert_broken(dying)

    async def test_a_party_without_connection_is_notified_and_leaves_when_it_can(
        self,
        barrier: CyclicBarrier,
        clients: ClientFactory,
        proxy: ProxyFactory,
        waiting: asyncio.Task[int],
    ) -> None:
        link = await proxy("r")
        far = clients(link.url)
        mine = asyncio.create_task(get_barrier(far).wait(2))
        await until_listening(far)
        link.refuse()
        link.cut()
        with pytest.raises((AcquireTimeoutError, ConnectionLostError)):
            await mine
        assert not await barrier.broken()
        link.pass_through()
        await assert_broken(waiting)

    @pytest.mark.more
    async def test_a_party_that_cannot_leave_logs_no_unretrieved_error(
        self,
        barrier: CyclicBarrier,
        clients: ClientFactory,
        proxy: ProxyFactory,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        link = await proxy("r")
        far = clients(link.url, lease_time=LEASE, command_timeout=1)
        mine = asyncio.create_task(get_barrier(far).wait(1))
        await until_listening(far)
        link.refuse()
        link.cut()
        with pytest.raises((AcquireTimeoutError, ConnectionLostError)):
            await mine
        del mine
        await until(lambda: not any(call.wanted for call in stream_of(far, "r")._backlog))
        link.pass_through()
        await far.ping(timeout=30)
        assert_all_retrieved(caplog)
        # It was alone, so there was nobody to break it for.
        assert not await barrier.broken()


class TestAbortAndReset:
    async def test_abort_breaks_the_barrier_for_current_and_future_waiters(
        self, barrier: CyclicBarrier, waiting: asyncio.Task[int]
    ) -> None:
        await barrier.abort()
        await barrier.abort()
        await assert_broken(waiting)
        for _ in range(2):
            with pytest.raises(BrokenBarrierError):
                await barrier.wait()
        assert await barrier.n_waiting() == 0

    async def test_reset_breaks_the_barrier_for_current_waiters_only(
        self, barrier: CyclicBarrier, waiting: asyncio.Task[int]
    ) -> None:
        await barrier.reset()
        await assert_broken(waiting)
        assert not await barrier.broken()
        await assert_works(barrier)
