"""What RedissonFairLockTest and RedissonNonReentrantFairLockTest check, on ours.

What needs scores and replies alone is in tests/lua/test_fair_drift_scripts.py. Threads are tasks
here, and clients stay clients. Times are scaled: seconds there are tenths here.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import ConnectionLostError, FairLock, LeaseLostError, Redisson
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
from tests.support.waiting import until, until_async, until_waiting

HELD = "held by this task already"


@pytest_asyncio.fixture
async def fair(redis: Redis) -> AsyncIterator[FairScripts]:
    """The lock `k` as Redis has it; in the end nothing of it is left."""
    fair = await server_side(redis)
    yield fair
    await until_async(lambda: nothing_left(fair))


class Section:
    """A critical section that counts itself the careless way: read, wait, write."""

    def __init__(self) -> None:
        self.count = 0

    async def run(self, lock: FairLock, times: int = 1, seconds: float = 0.0) -> None:
        for _ in range(times):
            async with lock:
                seen = self.count
                await asyncio.sleep(seconds)
                self.count = seen + 1


# The order, and the queue.


async def test_leases_that_nobody_releases_end_in_the_order_of_the_queue(
    clients: ClientFactory, fair: FairScripts
) -> None:
    # testLeaseTimeout
    locks = [fair_lock(clients()) for _ in range(2)]
    order: list[int] = []

    async def take(number: int) -> None:
        lease = await locks[number % 2].try_acquire(timeout=30, lease_time=0.4)
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
    section, both = Section(), [clients(), clients()]
    locks = [fair_lock(client) for client in both]
    await asyncio.gather(*[section.run(locks[number % 2]) for number in range(250)])
    assert section.count == 250


@pytest.mark.parametrize("gets_it", [False, True])
async def test_short_waits_and_a_dead_waiter_do_not_put_off_the_others(
    clients: ClientFactory, proxy: ProxyFactory, fair: FairScripts, gets_it: bool
) -> None:
    # testWaitTimeoutDrift; testLockAcquiredTimeoutDrift, where waiters get it in between
    link = await proxy()
    # A waiter that is to give up has been answered by then, also by a busy server.
    wait, rounds = (10, 8) if gets_it else (0.5, 3)
    near, far = clients(), clients(link.url, lease_time=0.6)
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


async def test_a_waiter_that_gave_up_does_not_delay_the_next(
    clients: ClientFactory, fair: FairScripts
) -> None:
    # testTryLockNonDelayed
    lock, other = fair_lock(clients()), fair_lock(clients())
    lease = await lock.try_acquire(timeout=0)
    assert lease is not None
    # Connected: the time is for the lock alone.
    assert await other.locked()
    assert await other.try_acquire(timeout=0.5) is None
    await lease.release()
    for each in (lock, other, lock):
        again = await each.try_acquire(timeout=0)
        assert again is not None
        await again.release()


async def test_a_timed_try_waits_as_long_as_it_was_told(
    clients: ClientFactory, fair: FairScripts
) -> None:
    # testTryLockWait; that it is not much longer is a matter of load, and no test's
    client = clients()
    await answered(client)
    lock, other = fair_lock(clients()), fair_lock(client)
    async with lock:
        loop = asyncio.get_running_loop()
        start = loop.time()
        async with asyncio.timeout(10):
            assert await other.try_acquire(timeout=0.5) is None
        # uvloop's clock goes by milliseconds, which are no exact floats.
        assert loop.time() - start >= 0.5 - 1e-6
        await answered(client)
        assert await fair.queued() == []


async def test_tasks_of_many_clients_are_served_in_the_order_they_started(
    clients: ClientFactory, fair: FairScripts
) -> None:
    # testConcurrency_MultiInstance_Ordering
    count = 2 * (os.cpu_count() or 4)
    locks = [fair_lock(clients()) for _ in range(count)]
    order: list[int] = []

    async def visit(number: int) -> None:
        async with locks[number]:
            order.append(number)

    async with locks[0]:
        waiting = await one_by_one(fair, *(visit(number) for number in range(count)))
    await asyncio.gather(*waiting)
    assert order == [*range(count)]


@pytest.mark.parametrize(("clients_", "times"), [(1, 15), (16, 10), (60, 1)])
async def test_all_sections_are_counted(
    clients: ClientFactory, fair: FairScripts, clients_: int, times: int
) -> None:
    # testConcurrency_SingleInstance, testConcurrencyLoop_MultiInstance, _MultiInstance
    section = Section()
    locks = [fair_lock(clients()) for _ in range(clients_)]
    tasks, rounds = (times, 1) if clients_ == 1 else (clients_, times)
    await asyncio.gather(
        *[section.run(locks[number % clients_], rounds, 0.001) for number in range(tasks)]
    )
    assert section.count == clients_ * times


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


# As the plain lock.


async def test_a_client_that_is_gone_frees_it_within_its_lease(
    clients: ClientFactory, proxy: ProxyFactory, fair: FairScripts
) -> None:
    # testAutoExpire
    link = await proxy()
    gone, lock = clients(link.url, lease_time=0.6), fair_lock(clients())
    lease = await fair_lock(gone).acquire()
    die(link)
    async with lock.hold(timeout=30):
        await until(lambda: lease.lost)
    link.pass_through()
    with pytest.raises(LeaseLostError):
        await lease.release()


# RedissonNonReentrantFairLockTest.


async def test_another_task_waits_and_has_it_after_the_release(
    client: Redisson, fair: FairScripts
) -> None:
    # testContendingThreadBlocksAndAcquiresOnRelease
    lock = fair_lock(client, reentrant=False)

    async def contend() -> bool:
        async with lock:
            return await lock.owned()

    async with lock:
        contending = asyncio.create_task(contend())
        await until_waiting(client, 1)
        assert not contending.done()
    assert await contending
    assert not await lock.locked()


async def test_every_way_to_acquire_again_is_refused_and_changes_nothing(
    client: Redisson, fair: FairScripts
) -> None:
    # testSameThreadReacquireThrows
    lock = fair_lock(client, reentrant=False)
    await lock.acquire()
    for again in (
        lock.acquire(),
        lock.acquire(timeout=1, lease_time=5),
        lock.try_acquire(),
        lock.try_acquire(timeout=1),
        lock.__aenter__(),
    ):
        with pytest.raises(RuntimeError, match=HELD):
            await again
    assert await lock.hold_count() == 1
    assert await fair.queued() == []
    await lock.release()
    assert not await lock.locked()


async def test_two_handles_of_one_name_are_one_lock(client: Redisson, fair: FairScripts) -> None:
    # testCrossInstanceSameThreadReentryThrows
    lock, same = (fair_lock(client, reentrant=False) for _ in range(2))
    async with lock:
        with pytest.raises(RuntimeError, match=HELD):
            await same.acquire()
        assert await lock.owned()
        assert await same.owned()
    assert not await same.locked()
