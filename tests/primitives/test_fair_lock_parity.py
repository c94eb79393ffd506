"""What RedissonFairLockTest and RedissonNonReentrantFairLockTest check, on ours.

What needs scores and replies alone is in tests/lua/test_fair_drift_scripts.py. Threads are tasks
here, and clients stay clients. Times are scaled: seconds there are tenths here.
"""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from redisson_py import ConnectionLostError
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.support.fair_locks import (
    die,
    fair_lock,
    nothing_left,
    one_by_one,
    server_side,
    until_queued,
)
from tests.support.scripts.fair import FairScripts
from tests.support.streams import answered

# The order, and the queue.


async def test_leases_that_nobody_releases_end_in_the_order_of_the_queue(
    clients: ClientFactory, fair: FairScripts
) -> None:
    # testLeaseTimeout
    locks = [fair_lock(clients()) for _ in range(2)]
    order: list[int] = []

    async def take(number: int) -> None:
        lease = await locks[number % 2].try_acquire(timeout=30, lease_time=1)
        assert lease is not None
        order.append(number)

    async with fair_lock(clients()):
        tasks = await one_by_one(fair, *(take(number) for number in range(4)))
    await asyncio.gather(*tasks)
    assert order == [*range(4)]


async def test_hundreds_of_concurrent_waiters_all_acquire(
    clients: ClientFactory, fair: FairScripts
) -> None:
    # testMultipleLocks
    locks = [fair_lock(clients()) for _ in range(2)]
    count = 0

    async def work(number: int) -> None:
        nonlocal count
        async with locks[number % 2]:
            seen = count
            await asyncio.sleep(0)
            count = seen + 1

    await asyncio.gather(*map(work, range(250)))
    assert count == 250


@pytest.mark.parametrize("gets_it", [False, True])
@pytest.mark.more
async def test_short_waits_and_a_dead_waiter_do_not_put_off_the_others(
    clients: ClientFactory, proxy: ProxyFactory, fair: FairScripts, gets_it: bool
) -> None:
    # testWaitTimeoutDrift; testLockAcquiredTimeoutDrift, where waiters get it in between
    link = await proxy()
    # A waiter that is to give up has been answered by then, also by a busy server.
    wait, rounds = (10, 8) if gets_it else (0.5, 3)
    # The dead one lives until it is to die, also on a busy machine.
    near, far = clients(), clients(link.url, lease_time=2)
    lock = fair_lock(near)
    lease = await lock.acquire()
    (dead,) = await one_by_one(fair, fair_lock(far).acquire())
    furthest = 0.0

    async def come_and_go() -> None:
        nonlocal furthest
        for _ in range(rounds):
            gained = await lock.try_acquire(timeout=wait)
            moments = await fair.moments()
            furthest = max(furthest, *moments.values(), 0)
            if gained is not None:
                await gained.release()

    coming = [asyncio.create_task(come_and_go()) for _ in range(3)]
    await until_queued(fair, 4)
    die(link)
    if gets_it:
        await lease.release()
    await asyncio.gather(*coming)
    # Each of those in line may put its own wait on top, and nothing adds up.
    assert 0 < furthest <= 1000 * (30 + 300 + 3 * wait) + 1000
    dead.cancel()
    await asyncio.wait([dead])
    link.pass_through()
    await answered(far)
    if not gets_it:
        await lease.release()
    async with lock.hold(timeout=30):
        pass


async def test_a_mapped_name_is_that_of_the_queue_too(clients: ClientFactory, redis: Redis) -> None:
    # testNameMapper
    client = clients(prefix="app:")
    fair = await server_side(redis, "app:k")
    async with fair_lock(client):
        (waiting,) = await one_by_one(fair, fair_lock(client).acquire())
        keys = {b"app:k", b"redisson_lock_queue:{app:k}", b"redisson_lock_timeout:{app:k}"}
        assert keys <= {*await redis.keys()}
    await (await waiting).release()
    assert await nothing_left(fair)


@pytest.mark.more
async def test_a_timed_wait_on_a_server_that_does_not_answer_leaves_no_place(
    clients: ClientFactory, fair: FairScripts
) -> None:
    # testAcquireFailedNotCalledOnRedisTimeout
    client = clients()
    await answered(client)
    lease = await fair_lock(clients()).acquire()
    (waiting,) = await one_by_one(fair, fair_lock(client).try_acquire(timeout=2))
    await fair.redis.client_pause(2500)
    with pytest.raises(ConnectionLostError, match="no answer"):
        await waiting
    await answered(client)
    assert await fair.queued() == []
    assert await fair.moments() == await fair.alive() == {}
    await lease.release()
