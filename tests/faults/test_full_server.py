"""A full server: whatever takes nothing new is carried out, on the oldest server too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import LeaseLostError, Redisson, ScriptError
from redisson_py.testing import EmbeddedServer
from tests.fixtures.client import ClientFactory
from tests.support.leases import renewed_at_once

pytestmark = pytest.mark.also("redis7")

FULL = r"OOM|maxmemory"
LOCKS: dict[str, Callable[[Redisson], Any]] = {
    "lock": lambda client: client.get_lock("k"),
    "fenced lock": lambda client: client.get_fenced_lock("k"),
    "fair lock": lambda client: client.get_fair_lock("k"),
    "write lock": lambda client: client.get_read_write_lock("k").write_lock(),
    "read lock": lambda client: client.get_read_write_lock("k").read_lock(),
}


@pytest_asyncio.fixture
async def admin(own_server: EmbeddedServer) -> Any:
    """A client of the server that fills it."""
    async with Redis.from_url(own_server.url) as admin:
        await admin.config_set("maxmemory-policy", "noeviction")
        yield admin
        await admin.config_set("maxmemory", 0)


@pytest.fixture
def client(clients: ClientFactory, own_server: EmbeddedServer, admin: Redis) -> Redisson:
    """A client of it."""
    return clients(own_server.url)


@pytest.mark.parametrize("kind", LOCKS)
async def test_a_lock_is_given_back_hold_by_hold(
    kind: str, client: Redisson, clients: ClientFactory, own_server: EmbeddedServer, admin: Redis
) -> None:
    lock = LOCKS[kind](client)
    outer = await lock.acquire()
    inner = await lock.acquire()
    await admin.config_set("maxmemory", 1)
    with pytest.raises(ScriptError, match=FULL):
        await lock.acquire()
    await inner.release()
    assert [int(n) for n in (await admin.hgetall("k")).values() if n.isdigit()] == [1]
    await renewed_at_once(client)
    await outer.extend(60)
    await outer.release()
    with pytest.raises(ScriptError, match=FULL):
        await lock.acquire()
    assert await admin.exists("k") == 0
    await admin.config_set("maxmemory", 0)
    await lock.acquire()
    await admin.config_set("maxmemory", 1)
    assert await LOCKS[kind](clients(own_server.url)).force_release()
    await renewed_at_once(client)
    with pytest.raises(LeaseLostError):
        await lock.release()


async def test_units_are_given_back_one_by_one(client: Redisson, admin: Redis) -> None:
    semaphore = client.get_semaphore("semaphore", 5)
    permit = await semaphore.acquire(3)
    await admin.config_set("maxmemory", 1)
    await semaphore.release(1)
    assert (permit.units, await semaphore.available()) == (2, 3)
    await renewed_at_once(client)
    await semaphore.add_permits(1)
    await permit.release()
    assert await semaphore.drain() == 6
    await semaphore.set_permits(1)
    assert await semaphore.delete()


async def test_permits_with_ids_are_given_back_and_renewed(client: Redisson, admin: Redis) -> None:
    semaphore = client.get_permit_expirable_semaphore("semaphore", 5)
    permits = await semaphore.acquire_many(4)
    await admin.config_set("maxmemory", 1)
    await renewed_at_once(client)
    await permits[0].release()
    await semaphore.release_many(permits[1:3])
    assert await semaphore.update_lease_time(permits[3], 60)
    await semaphore.add_permits(1)
    await semaphore.set_permits(4)
    assert await semaphore.available() == 3
    await permits[3].release()


async def test_a_latch_is_counted_down_and_a_barrier_mended(client: Redisson, admin: Redis) -> None:
    latch, barrier = client.get_latch("l"), client.get_barrier("b", 1)
    await latch.try_set_count(3)
    await admin.config_set("maxmemory", 1)
    assert [await latch.count_down(), await latch.count_down(2)] == [2, 0]
    await barrier.abort()
    await barrier.reset()
    assert await barrier.wait(10) == 0
