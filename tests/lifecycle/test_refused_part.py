"""Redis refuses to give back a part of a hold: the client counts as Redis does, and may retry."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import Redisson, ScriptError
from redisson_py.testing import FaultProxy
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import Permit
from tests.support.leases import renewed_at_once

#: What the script of a partial release cannot do without.
LOCKS: dict[str, tuple[Callable[[Redisson], Any], str]] = {
    "lock": (lambda client: client.get_lock("k"), "hincrby"),
    "fenced lock": (lambda client: client.get_fenced_lock("k"), "hincrby"),
    "fair lock": (lambda client: client.get_fair_lock("k"), "hincrby"),
    "write lock": (lambda client: client.get_read_write_lock("k").write_lock(), "hset"),
    "read lock": (lambda client: client.get_read_write_lock("k").read_lock(), "del"),
}


async def count(redis: Redis) -> int:
    """Return the hold count that Redis has."""
    found: Any = await redis.hgetall("k")
    return sum(int(value) for value in found.values() if value.isdigit())


@pytest.mark.parametrize("kind", LOCKS)
async def test_an_inner_release_that_was_refused_can_be_repeated(
    kind: str, clients: ClientFactory, allow: Permit, redis: Redis
) -> None:
    make, command = LOCKS[kind]
    client = clients(await allow())
    lock = make(client)
    outer, inner = await lock.acquire(), await lock.acquire()
    await allow(command)
    for release in (lock.release, inner.release):
        with pytest.raises(ScriptError):
            await release()
        assert await count(redis) == 2 == client.statistics().held_leases
    await allow()
    await lock.release()
    assert await count(redis) == 1 == client.statistics().held_leases
    await renewed_at_once(client)
    assert not outer.lost
    await lock.release()
    assert await count(redis) == 0


@pytest.mark.parametrize("kind", LOCKS)
async def test_an_inner_block_whose_release_was_refused_leaves_nothing(
    kind: str, clients: ClientFactory, allow: Permit, redis: Redis
) -> None:
    make, command = LOCKS[kind]
    client = clients(await allow())
    lock = make(client)
    async with lock:
        with pytest.raises(ScriptError):
            async with lock:
                await allow(command)
        await allow()
        async with lock:
            assert await count(redis) == 2
        assert await count(redis) == 1
    assert await count(redis) == 0


async def test_units_that_were_refused_can_be_given_back_again(
    clients: ClientFactory, allow: Permit, redis: Redis
) -> None:
    client = clients(await allow())
    semaphore = client.get_semaphore("semaphore", 5)
    permit = await semaphore.acquire(4)
    await allow("hset")
    for _ in range(2):
        with pytest.raises(ScriptError):
            await semaphore.release(1)
        assert (permit.units, await redis.get("semaphore")) == (4, b"1")
    await allow()
    await semaphore.release(1)
    assert (permit.units, await redis.get("semaphore")) == (3, b"2")
    await permit.release()
    assert await redis.get("semaphore") == b"5"


@pytest.mark.parametrize("kind", LOCKS)
async def test_an_inner_block_that_is_cancelled_at_its_end_leaves_nothing_either(
    kind: str, clients: ClientFactory, allow: Permit, redis: Redis
) -> None:
    make, command = LOCKS[kind]
    async with FaultProxy.in_front_of(await allow()) as link:
        client = clients(link.url)
        lock = make(client)
        task = asyncio.current_task()
        assert task is not None
        outer, inner = await lock.acquire(), await lock.acquire()
        await allow(command)
        link.hold()
        with pytest.raises(asyncio.CancelledError):
            async with inner:
                asyncio.get_running_loop().call_later(0, task.cancel)
        task.uncancel()
        link.release_held()
        await client.ping()
        assert client.statistics().held_leases == 1
        await allow()
        await outer.release()
        assert await count(redis) == 0 == client.statistics().held_leases
