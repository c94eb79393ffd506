"""RLock: what is special about it."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from redisson_py import LeaseLostError, Redisson
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.support.leases import renewed_at_once
from tests.support.streams import answered


async def test_grants_that_always_come_too_late_are_a_loss(
    clients: ClientFactory, proxy: ProxyFactory, redis: Redis
) -> None:
    link = await proxy()
    client = clients(link.url)
    await answered(client)
    link.delay(0.2, direction="down")
    with pytest.raises(LeaseLostError):
        await client.get_lock("k").acquire(lease_time=0.1)
    link.pass_through()
    await answered(client)
    assert not await redis.exists("k")
    assert client._context.registry.waiting == 0


async def test_watchdog_of_an_inner_hold_ends_with_it(clients: ClientFactory) -> None:
    client = clients()
    lock = client.get_lock("k")
    outer = await lock.acquire(lease_time=2)
    async with lock:
        await renewed_at_once(client)
    assert not outer._hold.renewed
    await outer.wait_lost()
    with pytest.raises(LeaseLostError):
        await lock.release()


async def test_names_may_be_bytes_and_odd(client: Redisson, redis: Redis) -> None:
    for name in (b"\x00\xff", "späßchen 🐙", "with {tag} inside", "a b\r\nc"):
        async with client.get_lock(name) as lease:
            key = name if isinstance(name, bytes) else name.encode()
            assert await redis.exists(key)
            assert lease.name == name


async def test_prefix_and_mapper_make_the_key(clients: ClientFactory, redis: Redis) -> None:
    async with clients(prefix="app:").get_lock("k"):
        assert await redis.exists("app:k")
    async with clients(name_mapper=lambda name: name.upper()).get_lock("k"):
        assert await redis.exists("K")


async def test_two_handles_of_one_name_are_one_hold(client: Redisson) -> None:
    # testCrossInstanceSameThreadReentryThrows
    lock = client.get_lock("k", reentrant=False)
    async with lock:
        # Nor is it a way around that the other handle would allow it.
        async with client.get_lock("k"):
            assert await lock.hold_count() == 2
        with pytest.raises(RuntimeError, match="held by this task already"):
            await lock.acquire()
        assert await lock.hold_count() == 1
    assert not await lock.locked()
