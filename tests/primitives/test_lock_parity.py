"""What Redisson's own tests check of its plain locks, where no other test here does already.

The table in tests/PARITY.md names, for each of those tests, ours. Threads are tasks here, and
clients stay clients.
"""

from __future__ import annotations

import asyncio

import anyio
import pytest
from redis.asyncio import Redis

from redisson_py import ConnectionLostError, LeaseLostError, Redisson
from redisson_py.testing import EmbeddedServer
from tests.fixtures.client import ClientFactory, assert_idle
from tests.fixtures.redis_server import ServerFactory
from tests.support.streams import answered, stream_of
from tests.support.waiting import until, until_async, until_listening, until_waiting


async def renewed(client: Redisson, times: int) -> None:
    renewals = client.statistics().renewals
    await until(lambda: client.statistics().renewals >= renewals + times)


# Who holds it.


async def test_a_released_lock_is_the_next_tasks(client: Redisson) -> None:
    # RedissonLockReactiveTest and -RxTest.testIsHeldByThread: tasks in place of thread ids
    lock = client.get_lock("k")
    first_may_go, first_has_gone = asyncio.Event(), asyncio.Event()

    async def first() -> None:
        async with lock:
            await first_may_go.wait()
        assert not await lock.owned()
        first_has_gone.set()

    async def second() -> None:
        await lock.acquire()
        assert await lock.owned()
        await first_has_gone.wait()
        await lock.release()

    async with asyncio.TaskGroup() as group:
        group.create_task(first())
        await until_async(lock.locked)
        group.create_task(second())
        await until_waiting(client, 1)
        assert not await lock.owned()
        first_may_go.set()
    assert not await lock.locked()


# Leases.


async def test_a_new_holder_is_renewed_after_a_nested_cycle(clients: ClientFactory) -> None:
    # RedissonLockExpirationRenewalTest.testLockReentrantRenew
    client = clients(lease_time=3)
    lock = client.get_lock("k")
    async with lock, lock:
        await renewed(client, 1)
    assert not client._watchdog.holds

    async def hold() -> None:
        async with lock as lease:
            await renewed(client, 1)
            assert not lease.lost
            assert await lock.owned()

    await asyncio.create_task(hold())


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
    assert_idle(client)


# Waiting, and being sent away.


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


@pytest.mark.parametrize("moment", ["asked", "waiting"])
async def test_a_try_that_was_interrupted_leaves_nothing_to_renew(
    clients: ClientFactory, redis: Redis, moment: str
) -> None:
    # testLockIsNotRenewedAfterInterruptedTryLock
    client, other = clients(lease_time=0.6), clients()
    await answered(client)
    holder = await other.get_lock("k").acquire() if moment == "waiting" else None
    task = asyncio.create_task(client.get_lock("k").try_acquire(timeout=10))
    if holder is None:
        await asyncio.sleep(0)
        assert stream_of(client).waiting
    else:
        await until_listening(client)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert_idle(client)
    if holder is not None:
        await holder.release()
    await answered(client)
    assert not await redis.exists("k")


async def test_a_stopped_server_is_an_error_and_not_a_refusal(
    clients: ClientFactory, own_server: EmbeddedServer
) -> None:
    # testRedisFailed
    client = clients(own_server.url)
    await answered(client)
    await own_server.kill()
    with pytest.raises(ConnectionLostError):
        await client.get_lock("k").try_acquire(timeout=0.3, lease_time=10)
    assert_idle(client)


# What Java peers see.


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
            async with asyncio.timeout(10):
                while True:
                    message = await pubsub.get_message(timeout=1)
                    if message is not None and message["data"] == event:
                        return

        for _ in range(2):
            async with lock:
                pass
            await told(b"del")
        lease = await lock.acquire(lease_time=0.1)
        await told(b"expired")
        assert lease.lost
        with pytest.raises(LeaseLostError):
            await lock.release()
