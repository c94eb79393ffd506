"""RLock and FencedLock: what is special, and Redisson's tests of them that no other file shows."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress

import anyio
import pytest
from redis.asyncio import Redis

from redisson_py import FencedLease, Lease, LeaseLostError, Redisson
from redisson_py._time import now
from tests.fixtures.client import ClientFactory, assert_idle
from tests.fixtures.redis_server import ProxyFactory, ServerFactory
from tests.support.leases import assert_left, granted_in_time, renew_now
from tests.support.streams import answered
from tests.support.waiting import set_safety_poll, until_async, until_listening, until_waiting


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

        async def published(event: bytes) -> None:
            async with asyncio.timeout(30):
                while True:
                    message = await pubsub.get_message(timeout=1)
                    if message is not None and message["data"] == event:
                        return

        for _ in range(2):
            async with lock:
                pass
            await published(b"del")
        lease = await granted_in_time(lambda: lock.acquire(lease_time=0.1))
        await published(b"expired")
        assert lease.lost
        with pytest.raises(LeaseLostError):
            await lock.release()


async def taken_by_a_stranger(redis: Redis, name: str, milliseconds: int) -> None:
    """Make it look as if somebody of another client held the lock `name`."""
    async with redis.pipeline(transaction=True) as both:
        both.hset(name, "somebody:1", "1")
        both.pexpire(name, milliseconds)
        await both.execute()


# Correctness.


async def test_no_renewal_outlives_a_release(clients: ClientFactory, redis: Redis) -> None:
    client = clients()

    async def come_and_go(number: int) -> None:
        lock = client.get_lock(f"k{number % 4}")
        for _ in range(10):
            with suppress(TimeoutError):
                async with asyncio.timeout(random.choice([0.0, 0.001, 0.05])), lock:
                    await asyncio.sleep(0)
            async with lock, lock:
                pass

    await asyncio.gather(*[come_and_go(number) for number in range(16)])
    assert_idle(client)
    await answered(client)
    renewals = client.statistics().renewals
    for number in range(4):
        await taken_by_a_stranger(redis, f"k{number}", 500)
    # What it had not let go.
    renew_now(client)

    async def all_gone() -> bool:
        return not await redis.exists(*[f"k{number}" for number in range(4)])

    await until_async(all_gone)
    assert client.statistics().renewals == renewals


async def test_lease_times_of_one_object_do_not_mix(client: Redisson) -> None:
    lock = client.get_lock("k")
    lease = await lock.acquire(lease_time=20)
    watched = asyncio.create_task(lock.acquire())
    # None is the timeout of the client's options: here, none.
    own = asyncio.create_task(lock.try_acquire(timeout=None, lease_time=60))
    await until_waiting(client, 2)
    assert lease.remaining < 20
    for waiting, seconds in ((watched, 30), (own, 60)):
        began = now()
        await lease.release()
        got = await waiting
        assert got is not None
        lease = got
        assert lease.remaining < seconds
        assert_left(lease.remaining, seconds, began)
        assert_left(await lock.remaining(), seconds, began)
    await lease.release()


async def test_thousands_of_jobs_on_a_few_names_leave_no_channel(
    clients: ClientFactory, redis: Redis
) -> None:
    # testSubscriptionsPerConnection
    both = [clients(), clients()]
    done = Counter[str]()

    async def work(number: int) -> None:
        client = both[number % 2]
        for _ in range(60):
            name = f"{{k}}{random.randrange(5)}"
            async with client.get_lock(name).hold(timeout=20):
                done[name] += 1
                await asyncio.sleep(0)

    await asyncio.gather(*[work(number) for number in range(32)])
    assert done.total() == 32 * 60
    assert [client.statistics().connections for client in both] == [1, 1]

    async def nobody_listens() -> bool:
        return await redis.pubsub_channels() == []

    await until_async(nobody_listens)
    assert not any(client._context.bus.table.channels for client in both)


async def test_a_waiter_that_gives_up_while_subscribing_does_not_harm_the_next(
    clients: ClientFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    # PublishSubscribeTest.testSubscribeForRaceCondition
    set_safety_poll(monkeypatch, 60)
    holder, waiter = clients(), clients()
    lock = waiter.get_lock("k")
    for _ in range(20):
        lease = await holder.get_lock("k").acquire()
        hasty = [asyncio.create_task(lock.acquire()) for _ in range(3)]
        for task in hasty:
            # Between the question, SUBSCRIBE, its answer and the sleep: wherever they are.
            await asyncio.sleep(0)
            task.cancel()
        await asyncio.wait(hasty)
        waiting = asyncio.create_task(lock.acquire())
        await until_listening(waiter)
        wake_ups = waiter.statistics().wake_ups
        await lease.release()
        async with asyncio.timeout(20):  # sooner than the safety poll
            await (await waiting).release()
        assert waiter.statistics().wake_ups > wake_ups
        assert_idle(waiter)


COUNTER = "redisson_lock_token:{k}"


async def test_every_way_gives_a_fenced_lease(client: Redisson) -> None:
    lock = client.get_fenced_lock("k")
    assert (await lock.inspect()).keys == ("k", "redisson_lock_token:{k}")
    tried = await lock.try_acquire()
    assert isinstance(tried, FencedLease)
    waiting = asyncio.create_task(lock.acquire())
    await until_waiting(client, 1)
    await tried.release()
    passed = await waiting
    assert isinstance(passed, FencedLease)
    assert passed.token > tried.token
    await passed.release()
    async with lock as outer, lock as again, lock.hold(timeout=30, lease_time=9) as inner:
        assert {type(lease) for lease in (outer, again, inner)} == {FencedLease}
        assert isinstance(outer, Lease)
        assert inner.token == again.token == outer.token > passed.token
    async with client.get_lock("k") as plain:
        assert not isinstance(plain, FencedLease)
        assert plain.token is None


async def test_a_plain_lock_has_no_token_for_a_fenced_one(client: Redisson) -> None:
    plain, fenced = client.get_lock("k"), client.get_fenced_lock("k")
    async with plain:
        sent = client.statistics().commands_sent
        for enter in (fenced.acquire, fenced.try_acquire):
            with pytest.raises(RuntimeError, match="no fencing token"):
                await enter()
        assert client.statistics().commands_sent == sent
    async with fenced as outer, plain as inner:
        assert inner.token == outer.token
