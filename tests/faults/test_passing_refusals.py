"""A server refuses everybody for a while: calls wait for it as for one that does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from redisson_py import ConnectionLostError, NotHeldError, Redisson, ReleaseFailedError
from redisson_py._redis.stream.refused_calls import RefusedCalls
from redisson_py._time import now
from redisson_py.testing import EmbeddedServer, FaultProxy
from tests.fixtures.client import ClientFactory
from tests.support.kinds import KINDS, Kind
from tests.support.sick_server import unable_to_save
from tests.support.waiting import until, until_waiting

SINGLE = {name: kind for name, kind in KINDS.items() if kind.servers == 1}
#: Seconds that a call without a timeout waits for the server.
PATIENCE = 1.0

each_kind = pytest.mark.parametrize("kind", SINGLE.values(), ids=SINGLE)


@pytest_asyncio.fixture
async def link(own_server: EmbeddedServer) -> AsyncIterator[FaultProxy]:
    async with FaultProxy.in_front_of(own_server.url) as proxy:
        yield proxy


@pytest.fixture
def sick_client(clients: ClientFactory, link: FaultProxy) -> Redisson:
    """A client with little patience, whose leases last longer than a test."""
    return clients(link.url, command_timeout=PATIENCE, lease_time=600)


async def assert_free(kind: Kind, client: Redisson) -> None:
    """Fail unless others can have it."""
    await (await kind.rival_of(client).acquire(timeout=60)).release()


@each_kind
async def test_a_refused_release_is_repeated_until_it_is_done(
    kind: Kind, sick_client: Redisson, own_server: EmbeddedServer
) -> None:
    lease = await kind.one(sick_client).acquire()
    async with unable_to_save(own_server):
        with pytest.raises(ReleaseFailedError, match="MISCONF"):
            await lease.release()
        with pytest.raises(NotHeldError, match=r"cannot be released again: .* until the lease"):
            await lease.release()
    await assert_free(kind, sick_client)


@pytest.mark.parametrize("name", ["lock", "fair_lock", "read_lock", "expirable_semaphore"])
async def test_a_release_that_comes_after_the_end_of_its_lease_is_no_loss(
    name: str, clients: ClientFactory, own_server: EmbeddedServer, link: FaultProxy
) -> None:
    client = clients(link.url, command_timeout=30, lease_time=600)
    async with unable_to_save(own_server) as admin:
        await admin.config_set("stop-writes-on-bgsave-error", "no")
        # Of a hold whose grant was asked for twice, a release is repeated for the client's lease.
        link.cut_after_execution(b"EVALSHA")
        lease = await KINDS[name].one(client).acquire(lease_time=1)
        ends = now() + 1
        await admin.config_set("stop-writes-on-bgsave-error", "yes")
        assert not lease.lost
        releasing = asyncio.create_task(lease.release())
        await until(lambda: now() > ends)
    with pytest.raises(ReleaseFailedError):
        await releasing


@each_kind
async def test_a_refused_acquire_waits_until_its_time_is_up(
    kind: Kind, sick_client: Redisson, own_server: EmbeddedServer
) -> None:
    thing = kind.one(sick_client)
    await (await thing.acquire()).release()
    async with unable_to_save(own_server):
        for timeout in (None, 0, 0.2):
            await until_refused(thing, timeout)
        waiting = asyncio.create_task(thing.acquire(timeout=60))
        await until_waiting_for_the_server(sick_client)
    await (await waiting).release()


async def until_refused(thing: Any, timeout: float | None) -> None:
    """Ask until an error names the refusal: on a busy machine the time may be over before."""
    named = False
    while not named:
        with pytest.raises(ConnectionLostError) as caught:
            await thing.acquire(timeout=timeout)
        named = "MISCONF" in str(caught.value)


async def until_waiting_for_the_server(client: Redisson) -> None:
    """Return when the server has refused a request that waits to be sent again."""
    await until(lambda: any(refused_calls(client)))


def refused_calls(client: Redisson) -> list[RefusedCalls]:
    return [stream._refused_calls for stream in client._router.streams()]


@each_kind
async def test_a_refused_acquire_that_was_given_up_leaves_nothing_to_undo(
    kind: Kind, sick_client: Redisson, own_server: EmbeddedServer
) -> None:
    thing = kind.one(sick_client)
    await (await thing.acquire()).release()
    async with unable_to_save(own_server):
        await until_refused(thing, 0.2)
        waiting = asyncio.create_task(thing.acquire(timeout=60))
        await until_waiting_for_the_server(sick_client)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        calls = refused_calls(sick_client)
        await until(lambda: not any(call.wanted for each in calls for call in each))


@each_kind
async def test_a_refused_undo_is_repeated_until_it_is_done(
    kind: Kind, sick_client: Redisson, own_server: EmbeddedServer, link: FaultProxy
) -> None:
    thing = kind.one(sick_client)
    await (await thing.acquire()).release()
    # The server grants it; the answer is lost, and the waiter leaves.
    link.cut_after_execution(b"EVALSHA")
    link.refuse()
    waiting = asyncio.create_task(thing.acquire(timeout=60))
    await link.wait_until(lambda link: link.triggered == 1)
    async with unable_to_save(own_server):
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        link.pass_through()
        await until_waiting_for_the_server(sick_client)
    await assert_free(kind, sick_client)


async def test_who_waits_in_a_queue_waits_for_the_server_too(
    clients: ClientFactory, own_server: EmbeddedServer
) -> None:
    client = clients(own_server.url, command_timeout=PATIENCE, lease_time=600)
    holder = clients(own_server.url, lease_time=600)
    lease = await holder.get_lock("k").acquire()
    waiting = [asyncio.create_task(client.get_lock("k").acquire(timeout=60)) for _ in range(3)]
    await until_waiting(client, 3)
    async with unable_to_save(own_server):
        releasing = asyncio.create_task(lease.release())
        await until_waiting_for_the_server(holder)
    await releasing
    for task in waiting:
        await (await task).release()


async def test_what_is_no_hold_waits_for_the_server_too(
    sick_client: Redisson, own_server: EmbeddedServer
) -> None:
    latch, barrier = sick_client.get_latch("latch"), sick_client.get_barrier("barrier", 1)
    semaphore = sick_client.get_semaphore("semaphore", 1)
    assert await latch.try_set_count(2)
    await (await semaphore.acquire()).release()
    lease = await sick_client.get_lock("k").acquire()
    async with unable_to_save(own_server):
        for call in (
            latch.count_down,
            barrier.wait,
            lambda: semaphore.add_permits(1),
            lambda: lease.extend(700),
            sick_client.get_lock("k").force_release,
            sick_client.ping,
        ):
            with pytest.raises(ConnectionLostError, match="MISCONF"):
                await call()
        counting = asyncio.create_task(latch.count_down())
        await until_waiting_for_the_server(sick_client)
    await counting
    # Given up above, and not executed later.
    assert await latch.count() == 1
    assert await semaphore.available() == 1
    await lease.release()


async def test_a_slow_server_is_not_taken_for_one_that_serves_again(
    clients: ClientFactory, own_server: EmbeddedServer, link: FaultProxy
) -> None:
    client = clients(link.url, command_timeout=30, lease_time=600)
    await client.ping()
    async with unable_to_save(own_server):
        names = [f"k{number}" for number in range(300)]
        tasks = [asyncio.create_task(client.get_lock(name).acquire(timeout=60)) for name in names]
        (refused,) = refused_calls(client)
        await until(lambda: len(refused) == len(names))
        link.hold()
        await until(lambda: len(refused) < len(names))
        # Much longer than a server that serves again would need for the first.
        await asyncio.sleep(0.5)
        assert len(refused) == len(names) - 1
        link.release_held()
    for task in tasks:
        await (await task).release()
