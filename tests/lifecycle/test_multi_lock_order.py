"""Locks on several servers whose addresses are spelt in several ways.

Each process sorts the members by the addresses it knows. Processes that spell an address
differently sort differently, and one server under two spellings looks like two.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio

from redisson_py import Redisson
from redisson_py.testing import EmbeddedServer, FaultProxy
from tests.fixtures.client import ClientFactory
from tests.fixtures.fleet import Fleet
from tests.fixtures.redis_server import ServerFactory
from tests.support.waiting import until

#: Seconds. A busy member is tried again, and processes yield to each other, which may take long;
#: a deadlock lasts for ever.
PATIENCE = 45.0


def spelt(fleet: Fleet, server: int, host: str) -> Redisson:
    """Return a client of a server of the fleet, whose address it spells like this."""
    client = Redisson.from_url(f"redis://{host}:{fleet.servers[server].port}")
    fleet.made.append(client)
    return client


async def in_and_out(lock: Any, entered: asyncio.Event | None = None) -> None:
    """Get the lock once."""
    async with lock:
        if entered is not None:
            entered.set()


async def all_waiting(*groups: list[Redisson]) -> None:
    """Return when each of these groups of clients has a waiter."""
    await until(
        lambda: all(sum(client.statistics().waiters for client in group) for group in groups)
    )


async def test_processes_that_sort_two_servers_differently_do_not_deadlock(fleet: Fleet) -> None:
    """Each waits for the server that is first for it, and both become free at once."""
    one, two = (
        [spelt(fleet, 0, "127.0.0.1"), spelt(fleet, 1, "localhost")],
        [
            spelt(fleet, 0, "localhost"),
            spelt(fleet, 1, "127.0.0.1"),
        ],
    )
    holders = [client.get_lock("k") for client in fleet.clients(2)]
    locks = [each[0].get_multi_lock(*(c.get_lock("k") for c in each)) for each in (one, two)]
    async with asyncio.timeout(PATIENCE):
        for _ in range(4):
            leases = [await holder.acquire() for holder in holders]
            tasks = [asyncio.create_task(in_and_out(lock)) for lock in locks]
            await all_waiting(one, two)
            for lease in leases:
                await lease.release()
            await asyncio.gather(*tasks)


async def test_a_multi_lock_of_a_red_lock_and_one_of_its_members_do_not_deadlock(
    fleet: Fleet,
) -> None:
    """One takes a quorum first and then a lock that the other took before two of these."""
    first, second, holders = fleet.clients(3), fleet.clients(3), fleet.clients(3)
    red = first[0].get_red_lock(*(client.get_lock("k") for client in first))
    mixed = first[0].get_multi_lock(red, first[1].get_lock("j"))
    parts = second[0].get_multi_lock(
        second[1].get_lock("j"), second[1].get_lock("k"), second[2].get_lock("k")
    )
    async with asyncio.timeout(PATIENCE):
        for _ in range(4):
            async with AsyncExitStack() as stack:
                async with holders[1].get_lock("j"):
                    for holder in holders:
                        await stack.enter_async_context(holder.get_lock("k"))
                    tasks = [asyncio.create_task(in_and_out(lock)) for lock in (mixed, parts)]
                    await all_waiting(first, second)
                # `parts` can have the lock j now, and `mixed` gets its quorum next.
                await until_held(fleet, 1, "j")
            await asyncio.gather(*tasks)


async def until_held(fleet: Fleet, server: int, name: str) -> None:
    """Return when the lock was taken, or after a second: it need not be taken alone."""
    for _ in range(50):
        if await fleet.redis[server].exists(name):
            return
        await asyncio.sleep(0.02)


class Spellings:
    """One server and the ways to write its address; another server; clients of each."""

    def __init__(self, server: EmbeddedServer, link: FaultProxy, make: ClientFactory) -> None:
        self.make = make
        self.urls = {
            "127.0.0.1": server.url,
            "localhost": server.url.replace("127.0.0.1", "localhost"),
            "unix socket": f"unix://{server.unix_socket}",
            "other port": link.url,
        }


@pytest_asyncio.fixture
async def spellings(
    server_factory: ServerFactory, clients: ClientFactory
) -> AsyncIterator[Spellings]:
    """The ways to write the address of a fresh server."""
    server = await server_factory(unix_socket=True)
    async with FaultProxy.in_front_of(server.url) as link:
        yield Spellings(server, link, clients)


OTHERS = pytest.mark.parametrize("other", ["localhost", "unix socket", "other port"])


async def use(make: Callable[[], Any]) -> None:
    """Make a lock and use it once; making it may fail."""
    async with make().hold(timeout=20):
        pass


@OTHERS
async def test_a_red_lock_does_not_count_a_server_twice(
    other: str, spellings: Spellings, fleet: Fleet
) -> None:
    one, two = (spellings.make(spellings.urls[each]) for each in ("127.0.0.1", other))
    third = fleet.clients(1)[0]
    locks = [client.get_lock("k") for client in (one, two, third)]
    with pytest.raises((ValueError, RuntimeError), match="server"):
        await use(lambda: one.get_red_lock(*locks))
    # What had been asked by then was given back.
    for lock in locks:
        async with lock.hold(timeout=20):
            pass


@OTHERS
async def test_a_multi_lock_does_not_wait_for_itself_under_another_spelling(
    other: str, spellings: Spellings
) -> None:
    one, two = (spellings.make(spellings.urls[each]) for each in ("127.0.0.1", other))
    with pytest.raises((ValueError, RuntimeError), match=r"same lock|server|twice"):
        await use(lambda: one.get_multi_lock(one.get_lock("k"), two.get_lock("k")))
    async with one.get_lock("k").hold(timeout=20):
        pass


@OTHERS
async def test_a_multi_lock_may_have_two_locks_of_one_server_under_two_spellings(
    other: str, spellings: Spellings
) -> None:
    one, two = (spellings.make(spellings.urls[each]) for each in ("127.0.0.1", other))
    lock = one.get_multi_lock(one.get_lock("k"), two.get_lock("j"))
    async with lock.hold(timeout=20):
        assert await two.get_lock("k").locked()
        assert await one.get_lock("j").locked()
