"""RLock: what is special about it."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from redisson_py import LeaseLostError, Redisson
from redisson_py._time import now
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.support.leases import assert_left, renewed_at_once
from tests.support.streams import answered


async def test_reentry_counts(client: Redisson, redis: Redis) -> None:
    lock = client.get_lock("k")
    async with lock as outer:
        async with client.get_lock("k") as inner:
            assert inner is not outer
            assert inner.owner == outer.owner
            assert await lock.hold_count() == 2
            assert await redis.hgetall("k") == {outer.owner.encode(): b"2"}
        assert inner.remaining == 0.0
        assert outer.remaining > 0
        assert await lock.hold_count() == 1
    assert await lock.hold_count() == 0


async def test_reentry_by_try_acquire(client: Redisson) -> None:
    lock = client.get_lock("k")
    async with lock:
        inner = await lock.try_acquire()
        assert inner is not None
        assert await lock.hold_count() == 2
        await inner.release()
        inner = await lock.acquire(timeout=0)
        await inner.release()
    assert not await lock.locked()


async def test_leases_of_one_hold_can_be_released_in_any_order(client: Redisson) -> None:
    lock = client.get_lock("k")
    first, second, third = [await lock.acquire() for _ in range(3)]
    await first.release()
    assert await lock.hold_count() == 2
    await third.release()
    assert await lock.owned()
    await second.release()
    assert not await lock.locked()


async def test_child_task_is_somebody_else(client: Redisson) -> None:
    lock = client.get_lock("k")
    async with lock:
        assert await asyncio.create_task(lock.try_acquire()) is None


async def test_reentry_of_a_lost_hold_is_lost(client: Redisson, redis: Redis) -> None:
    lock = client.get_lock("k")
    lease = await lock.acquire()
    await redis.delete("k")
    with pytest.raises(LeaseLostError):
        await lock.acquire()
    assert lease.lost
    # The next acquisition is a new one.
    async with lock as fresh:
        assert fresh.owner != lease.owner


async def test_reentry_never_shortens_the_outer_lease(client: Redisson) -> None:
    lock = client.get_lock("k")
    began = now()
    async with lock:
        async with lock.hold(lease_time=5) as inner:
            assert inner.remaining <= 5
            assert_left(await lock.remaining(), 30, began)
        assert_left(await lock.remaining(), 30, began)


async def test_reentry_counts_from_before_it_was_asked_for(
    clients: ClientFactory, proxy: ProxyFactory
) -> None:
    link = await proxy()
    lock = clients(link.url).get_lock("k")
    async with lock:
        link.delay(0.6, direction="down")
        inner = await lock.acquire()
        assert inner.remaining <= 30 - 0.6
        link.pass_through()
        await inner.release()


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


async def test_inner_lease_time_ends_the_inner_block_only(client: Redisson) -> None:
    lock = client.get_lock("k")
    async with lock as outer:
        with pytest.raises(LeaseLostError):
            async with lock.hold(lease_time=0.1):
                await asyncio.sleep(30)
        assert not outer.lost
        assert await lock.hold_count() == 1
    assert not await lock.locked()


async def test_partial_release_goes_back_to_the_explicit_lease(client: Redisson) -> None:
    # parity: testRemainTimeToLive2
    lock = client.get_lock("k")
    began = now()
    for _ in range(3):
        await lock.acquire(lease_time=10)
    await lock.release()
    await lock.release()
    left = await lock.remaining() or 0
    assert 9 - (now() - began) < left <= 10.2
    await lock.release()


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


async def test_non_reentrant_lock_refuses_its_holder(client: Redisson) -> None:
    lock = client.get_lock("k", reentrant=False)
    async with lock:
        with pytest.raises(RuntimeError, match="held by this task already"):
            await lock.acquire()
        with pytest.raises(RuntimeError, match="held by this task already"):
            await lock.try_acquire()
        assert await lock.hold_count() == 1


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
