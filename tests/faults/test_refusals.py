"""The server answers, but not now: it loads, runs a long script, is a replica, full, or crowded.

Each of these is "not executed, ask again": a caller whose time is up gets a timeout and holds
nothing, one with time left gets the lock when the trouble is over, a holder keeps what it has,
and nobody floods the server with questions or connections meanwhile.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError, ResponseError

from redisson_py import (
    AcquireTimeoutError,
    ConnectionLostError,
    Redisson,
)
from redisson_py._time import now
from redisson_py.testing import EmbeddedServer
from tests.fixtures.client import ClientFactory
from tests.fixtures.measured import Measured
from tests.fixtures.redis_server import ServerFactory
from tests.support.busy_server import busy_with_a_script, is_busy
from tests.support.waiting import until_async, until_listening

#: Names asked for at once.
NAMES = 100
#: What one call may send while it is refused for a second or two, its undo included.
MOST_PER_CALL = 25
#: Connections a client may open meanwhile; later the pauses between two are about a second.
MOST_CONNECTIONS, A_SECOND = 12, 2

OUT_OF_TIME = (AcquireTimeoutError, ConnectionLostError)


async def ask_in_vain(client: Redisson, seconds: float) -> None:
    """Ask for many locks at once, and be told in time that there are none."""

    async def one(name: str) -> None:
        with pytest.raises(OUT_OF_TIME):
            await client.get_lock(name).acquire(timeout=seconds)

    async with asyncio.timeout(seconds + 10), asyncio.TaskGroup() as group:
        for number in range(NAMES):
            group.create_task(one(f"vain {number}"))


class Traffic:
    """Counts what clients send and how often they connect from now on."""

    def __init__(self, *clients: Redisson) -> None:
        self._clients = clients
        self._before = self._now()
        self._begun = now()

    @property
    def seconds(self) -> float:
        """For how long it has counted."""
        return now() - self._begun

    def _now(self) -> list[int]:
        counts = [client.statistics() for client in self._clients]
        return [sum(c.commands_sent for c in counts), sum(c.connections for c in counts)]

    def check(self, calls: int, measured: Measured) -> None:
        commands, connections = (
            count - before for count, before in zip(self._now(), self._before, strict=True)
        )
        measured("commands and connections meanwhile", f"{commands}, {connections}")
        # On a busy machine some run out of time before they are sent.
        assert 0 < commands < MOST_PER_CALL * calls * max(1.0, self.seconds / 2)
        assert connections < MOST_CONNECTIONS + A_SECOND * self.seconds


async def nothing_taken(redis: Redis) -> bool:
    """Tell whether no lock that was asked for in vain is held."""
    return not await redis.keys("vain *")


async def test_loading_server_is_waited_for(
    clients: ClientFactory, server_factory: ServerFactory, measured: Measured
) -> None:
    # A nap after each key that is loaded makes a small file take as long as it shall.
    server = await server_factory(appendonly=True, config={"key-load-delay": "150"})
    async with Redis.from_url(server.url) as redis:
        pipeline = redis.pipeline(transaction=False)
        for number in range(40_000):
            pipeline.set(f"ballast {number}", "x")
        await pipeline.execute()
        client, waiter = clients(server.url), clients(server.url)
        lease = await client.get_lock("k").acquire()
        waiting = asyncio.create_task(waiter.get_lock("k").acquire(timeout=60))
        await until_listening(waiter)
        await server.kill()
        starting = asyncio.create_task(server.start())
        await until_async(lambda: is_loading(redis))
        assert not starting.done()
        traffic = Traffic(client, waiter)
        await ask_in_vain(client, 0.8)
        assert await is_loading(redis)
        with suppress(ResponseError):  # Redis 6.2 changes nothing while it loads
            await redis.config_set("key-load-delay", 0)
        await starting
        assert await client.get_lock("k").owned()
        await until_async(lambda: nothing_taken(redis))
        await lease.release()
        await (await waiting).release()
        traffic.check(NAMES, measured)
    assert not lease.lost


async def is_loading(redis: Redis) -> bool:
    try:
        return bool((await redis.info("persistence"))["loading"])
    except ConnectionError:
        return False


async def test_server_busy_with_a_script_is_waited_for(
    clients: ClientFactory, own_server: EmbeddedServer, admin: Redis, measured: Measured
) -> None:
    client, waiter, newcomer = (clients(own_server.url) for _ in range(3))
    lease = await client.get_lock("k").acquire()
    waiting = asyncio.create_task(waiter.get_lock("k").acquire(timeout=60))
    await until_listening(waiter)
    async with busy_with_a_script(own_server):
        traffic = Traffic(client, waiter, newcomer)
        await asyncio.gather(ask_in_vain(client, 0.7), ask_in_vain(newcomer, 0.7))
        assert await is_busy(admin)
    assert await client.get_lock("k").owned()
    await until_async(lambda: nothing_taken(admin))
    await lease.release()
    await (await waiting).release()
    traffic.check(2 * NAMES, measured)


async def test_demoted_server_is_waited_for_without_a_storm(
    clients: ClientFactory, own_server: EmbeddedServer, admin: Redis, measured: Measured
) -> None:
    client, waiter = clients(own_server.url), clients(own_server.url)
    lease = await client.get_lock("k").acquire()
    waiting = asyncio.create_task(waiter.get_lock("k").acquire(timeout=60))
    await until_listening(waiter)
    traffic = Traffic(client, waiter)
    await admin.replicaof("127.0.0.1", "1")
    await ask_in_vain(client, 1)
    assert not lease.lost
    await admin.replicaof("NO", "ONE")
    assert await client.get_lock("k").owned()
    await until_async(lambda: nothing_taken(admin))
    await lease.release()
    await (await waiting).release()
    traffic.check(NAMES, measured)


async def test_full_house_keeps_newcomers_waiting_and_nobody_else(
    clients: ClientFactory, own_server: EmbeddedServer, admin: Redis, measured: Measured
) -> None:
    guest, newcomer = clients(own_server.url), clients(own_server.url)
    await guest.ping()
    begun = now()
    await admin.config_set("maxclients", len(await admin.client_list()))
    with pytest.raises(ConnectionLostError, match="max number of clients") as caught:
        await newcomer.get_lock("k").acquire(timeout=1)
    assert not caught.value.maybe_held
    waiting = asyncio.create_task(newcomer.get_lock("k").acquire(timeout=60))
    async with guest.get_lock("k"):
        assert newcomer.statistics().connections == 0
    turned_away = (await admin.info("stats"))["rejected_connections"]
    measured("connections turned away meanwhile", turned_away)
    assert 1 <= turned_away < MOST_CONNECTIONS + A_SECOND * (now() - begun)
    await admin.config_set("maxclients", 100)
    await (await waiting).release()
    assert guest.statistics().connections == 1
