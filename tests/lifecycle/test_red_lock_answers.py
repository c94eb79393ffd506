"""A red lock says "busy" only if a quorum said so, and does not wait long for silent servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from redisson_py import ConnectionLostError, QuorumError, RedLock
from redisson_py.testing import FaultProxy
from tests.fixtures.fleet import Fleet, until_executed
from tests.support.last_look import answered_in_time
from tests.support.waiting import until

#: Seconds: well below `PATIENCE`, for which a call waits for one server; and that.
SOON, PATIENCE = 20.0, 30.0


@asynccontextmanager
async def silenced(fleet: Fleet, how: str, count: int) -> AsyncIterator[None]:
    """Stop the answers of the last of three servers inside a block."""
    servers = fleet.servers[3 - count : 3]
    for server in servers:
        await (server.pause() if how == "paused" else server.kill())
    try:
        yield
    finally:
        for server in servers:
            await (server.resume() if server.running else server.start())


@pytest.mark.parametrize("how", ["paused", "killed"])
@pytest.mark.parametrize("timeout", [0, 0.05, 1])
async def test_none_is_not_said_of_servers_that_did_not_answer(
    timeout: float, how: str, fleet: Fleet
) -> None:
    lock = fleet.red_lock(3, command_timeout=PATIENCE)
    async with lock:
        await until_executed(lock)
    async with silenced(fleet, how, 2), asyncio.timeout(SOON):
        with pytest.raises(QuorumError) as caught:
            await lock.try_acquire(timeout=timeout)
    addresses = [f"127.0.0.1:{each.port}/0" for each in fleet.servers[:3]]
    assert set(caught.value.answers) == set(addresses)
    assert all("busy" not in caught.value.answers[each] for each in addresses[1:])


@pytest.mark.parametrize("how", ["paused", "killed"])
async def test_none_is_said_when_a_quorum_answered_and_one_is_silent(
    how: str, fleet: Fleet
) -> None:
    lock = fleet.red_lock(3, command_timeout=PATIENCE)
    async with lock:
        await until_executed(lock)
    holder = fleet.clients(1)[0].get_lock("k")
    async with holder:
        # One is busy, one says yes and one nothing: no quorum of grants, but of answers.
        async with silenced(fleet, how, 1), asyncio.timeout(SOON):
            assert await answered_in_time(lambda: lock.try_acquire(timeout=1)) is None
    async with lock.hold(timeout=10):
        pass


@pytest.mark.parametrize("how", ["paused", "killed"])
@pytest.mark.parametrize("look", ["locked", "remaining"])
async def test_looking_does_not_wait_long_for_a_silent_majority(
    look: str, how: str, fleet: Fleet
) -> None:
    lock = fleet.red_lock(3, command_timeout=PATIENCE)
    async with lock:
        await until_executed(lock)
    async with silenced(fleet, how, 2), asyncio.timeout(SOON):
        with pytest.raises(ConnectionLostError):
            await (lock.locked() if look == "locked" else lock.remaining())


@pytest.mark.more
async def test_none_is_said_when_a_task_here_had_it_until_just_before(fleet: Fleet) -> None:
    """Nobody else answers in the time that is left, but this client knows that it was busy."""
    async with AsyncExitStack() as stack:
        proxies = [FaultProxy.in_front_of(server.url) for server in fleet.servers[:3]]
        links = [await stack.enter_async_context(proxy) for proxy in proxies]
        clients = [fleet.client(link.url) for link in links]
        lock = RedLock(*(client.get_lock("k") for client in clients))
        lease = await lock.acquire()
        await until_executed(lock)
        # With a lease of its own it is not passed the hold: it has to ask.
        trying = asyncio.create_task(lock.try_acquire(timeout=2, lease_time=60))
        await until(lambda: sum(client.statistics().waiters for client in clients) == 1)
        for link in links:
            link.delay(0.25, direction="down")
        # Less than half a second before the time is up. When the release is answered, the other
        # task has less time left than an answer takes.
        await asyncio.sleep(1.65)
        await lease.release()
        assert await trying is None
        await until_executed(lock)
        for client in clients:
            await client.aclose()
