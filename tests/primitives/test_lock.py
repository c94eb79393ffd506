"""RLock: what is special about it."""

from __future__ import annotations

import asyncio

import anyio
import pytest
from redis.asyncio import Redis

from redisson_py import LeaseLostError, Redisson
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory, ServerFactory
from tests.support.leases import granted_in_time, renewed_at_once
from tests.support.streams import answered
from tests.support.waiting import until_listening


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


@pytest.mark.more
async def test_watchdog_of_an_inner_hold_ends_with_it(clients: ClientFactory) -> None:
    client = clients()
    lock = client.get_lock("k")
    outer = await lock.acquire(lease_time=8)
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
        with pytest.raises(RuntimeError, match="this task already holds"):
            await lock.acquire()
        assert await lock.hold_count() == 1
    assert not await lock.locked()


async def test_what_is_held_is_watched_at_every_release(client: Redisson) -> None:
    # testConcurrencyTryLockUnLock
    gained = refused = 0

    async def work(number: int) -> None:
        nonlocal gained, refused
        lock = client.get_lock(f"k{number % 4}")
        for _ in range(50):
            lease = await lock.try_acquire()
            if lease is None:
                refused += 1
                continue
            gained += 1
            await asyncio.sleep(0)
            assert lease._hold in client._watchdog.holds
            assert client.statistics().held_leases >= 1
            await lock.release()

    await asyncio.gather(*[work(number) for number in range(16)])
    assert gained + refused == 800
    assert gained >= 50, "each name is somebody's all the time"


async def test_acquire_in_a_shielded_scope_is_not_cancelled(
    client: Redisson, clients: ClientFactory
) -> None:
    # testLockUninterruptibly: a shielded scope is what Python has for it
    holder, lock = clients().get_lock("k"), client.get_lock("k")
    scope = anyio.CancelScope()

    async def work() -> str:
        with scope:
            with anyio.CancelScope(shield=True):
                async with lock.hold(lease_time=10) as lease:
                    assert scope.cancel_called
                    assert not lease.lost
            await anyio.sleep(30)
            return "was not cancelled"
        return "cancelled afterwards"

    async with holder:
        task = asyncio.create_task(work())
        await until_listening(client)
        scope.cancel()
        await answered(client)
        await asyncio.sleep(0)
        assert client.statistics().waiters == 1
    assert await task == "cancelled afterwards"


async def test_java_hears_of_releases_and_of_leases_that_end(
    clients: ClientFactory, server_factory: ServerFactory
) -> None:
    # testLockListener, testLockReactiveListener, testLockRxListener: there are no listeners
    # here, but the events of the server by which those of Redisson live
    server = await server_factory()
    lock = clients(server.url).get_lock("k")
    async with Redis.from_url(server.url) as redis, redis.pubsub() as pubsub:
        await redis.config_set("notify-keyspace-events", "KA")
        await pubsub.subscribe("__keyspace@0__:k")

        async def told(event: bytes) -> None:
            async with asyncio.timeout(30):
                while True:
                    message = await pubsub.get_message(timeout=1)
                    if message is not None and message["data"] == event:
                        return

        for _ in range(2):
            async with lock:
                pass
            await told(b"del")
        lease = await granted_in_time(lambda: lock.acquire(lease_time=0.1))
        await told(b"expired")
        assert lease.lost
        with pytest.raises(LeaseLostError):
            await lock.release()
