"""What RedissonSemaphoreTest checks, on ours; and what is weak there, of plain semaphores.

Threads are tasks here, and clients stay clients. Times are scaled: seconds there are tenths here.
"""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from redisson_py import NotHeldError, Redisson, Semaphore
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.support.fair_locks import die
from tests.support.waiting import set_safety_poll, until, until_async, until_listening

pytestmark = pytest.mark.also("cluster")

NAME = "semaphore"


def get(client: Redisson, permits: int | None = None) -> Semaphore:
    return client.get_semaphore(NAME, permits)


class TestCounting:
    async def test_nothing_is_asked_for_no_permits(self, client: Redisson) -> None:
        """RedissonSemaphoreTest.testZero."""
        semaphore = get(client)
        permit = await semaphore.try_acquire(0, timeout=10)
        assert permit is not None
        assert permit.units == 0
        await semaphore.release(0)
        assert await semaphore.available() == 0

    async def test_added_permits_make_a_semaphore_and_releases_do_not(
        self, client: Redisson, redis: Redis
    ) -> None:
        """testReleaseWithoutPermits, testAcquireWithoutSetPermits."""
        semaphore = get(client)
        with pytest.raises(NotHeldError, match="only add_permits creates permits"):
            await semaphore.release()
        assert not await redis.exists(NAME)
        await semaphore.add_permits(1)
        assert await semaphore.available() == 1
        await semaphore.add_permits(1)
        assert (await semaphore.acquire(2, timeout=10)).units == 2
        assert await semaphore.available() == 0
        await semaphore.release(2)

    async def test_it_is_made_once_and_ends_with_its_life(
        self, client: Redisson, redis: Redis
    ) -> None:
        """RedissonSemaphoreTest.testTrySetPermits."""
        semaphore = get(client)
        assert await semaphore.try_set_permits(10, lifetime=2.5) is True
        assert await semaphore.try_set_permits(15) is False
        assert await semaphore.available() == 10

        async def gone() -> bool:
            return not await redis.exists(NAME)

        await until_async(gone)
        assert await semaphore.available() == 0
        assert await gone()

    async def test_permits_are_added(self, client: Redisson) -> None:
        """RedissonSemaphoreTest.testAddPermits."""
        semaphore = get(client)
        await semaphore.try_set_permits(10)
        await semaphore.acquire(10)
        await semaphore.add_permits(4)
        assert await semaphore.available() == 4
        await semaphore.release(10)
        assert await semaphore.available() == 14
        await semaphore.acquire(5)
        assert await semaphore.available() == 9
        await semaphore.release(5)

    async def test_permits_are_taken_away_below_zero(self, client: Redisson) -> None:
        """RedissonSemaphoreTest.testReducePermits."""
        semaphore = get(client)
        await semaphore.try_set_permits(10)
        await semaphore.acquire(10)
        await semaphore.add_permits(-5)
        assert await semaphore.available() == -5
        await semaphore.release(10)
        assert await semaphore.available() == 5
        await semaphore.acquire(5)
        assert await semaphore.available() == 0
        await semaphore.release(5)

    async def test_what_is_free_is_drained(self, client: Redisson) -> None:
        """RedissonSemaphoreTest.testDrainPermits."""
        semaphore = get(client)
        assert await semaphore.drain() == 0
        await semaphore.try_set_permits(10)
        await semaphore.acquire(3)
        assert await semaphore.drain() == 7
        assert await semaphore.available() == 0
        assert await semaphore.drain() == 0
        await semaphore.release(3)

    async def test_a_release_may_be_for_an_existing_one_only(
        self, client: Redisson, redis: Redis
    ) -> None:
        """RedissonSemaphoreTest.testReleaseIfExists."""
        semaphore = get(client)
        assert await semaphore.release_if_exists() is False
        assert await redis.exists(NAME) == 0
        await semaphore.try_set_permits(10)
        assert await semaphore.release_if_exists() is False
        assert await semaphore.available() == 10
        await semaphore.acquire(2)
        assert await semaphore.release_if_exists() is True
        assert await semaphore.available() == 9
        await semaphore.release()

    async def test_adding_and_draining_leave_an_expiry(
        self, client: Redisson, redis: Redis
    ) -> None:
        """Weakness 11: Redisson's addPermits and drainPermits drop it."""
        semaphore = get(client)
        await semaphore.try_set_permits(2, lifetime=60)
        await semaphore.add_permits(3)
        assert 0 < await redis.pttl(NAME) <= 60_000
        assert await semaphore.drain() == 5
        assert 0 < await redis.pttl(NAME) <= 60_000
        await redis.delete(NAME)


class TestWaiting:
    async def test_one_permit_is_not_enough_for_two(
        self, client: Redisson, clients: ClientFactory
    ) -> None:
        """RedissonSemaphoreTest.testAcquireAfterAddPermits, testBlockingNAcquire."""
        waiter = clients()
        semaphore, far = get(client), get(waiter)
        await semaphore.try_set_permits(1)
        permit = await semaphore.acquire()
        waiting = asyncio.create_task(far.acquire(2, timeout=10))
        await until_listening(waiter)
        wake_ups = waiter.statistics().wake_ups
        await permit.release()
        await waiter.ping()
        assert waiter.statistics().wake_ups == wake_ups, "it is not even called"
        assert not waiting.done()
        assert await semaphore.available() == 1, "it takes none in advance"
        await semaphore.add_permits(1)
        await (await waiting).release()
        assert await semaphore.available() == 2

    @pytest.mark.usefixtures("old_busy_counts")
    async def test_trying_for_four_permits_fails_unless_they_are_freed_in_time(
        self, client: Redisson, clients: ClientFactory
    ) -> None:
        """RedissonSemaphoreTest.testTryNAcquire."""
        waiter = clients()
        semaphore, far = get(client, 5), get(waiter)
        await semaphore.acquire(3)
        assert await far.try_acquire(4) is None
        assert await far.try_acquire(4, timeout=0.5) is None
        waiting = asyncio.create_task(far.try_acquire(4, timeout=10))
        await until_listening(waiter)
        await semaphore.release(2)
        permit = await waiting
        assert permit is not None
        assert await semaphore.available() == 0
        await permit.release()
        await semaphore.release()

    async def test_a_waiter_for_many_permits_is_served_in_turn(self, client: Redisson) -> None:
        """Weakness 26: with Redisson, those who want one pass those who want more."""
        semaphore = get(client, 3)
        held = [await semaphore.acquire() for _ in range(3)]
        order: list[int] = []

        async def take(n: int) -> None:
            async with semaphore.hold(n, timeout=10):
                order.append(n)

        waiting = [asyncio.create_task(take(n)) for n in (3, 1, 2)]
        await until_listening(client)
        await until(lambda: client.statistics().waiters == 3)
        for permit in held:
            assert order == []
            await permit.release()
        await asyncio.gather(*waiting)
        assert order == [3, 1, 2]


class TestCrowds:
    async def test_some_want_one_and_some_want_all(self, clients: ClientFactory) -> None:
        """RedissonSemaphoreTest.testConcurrencyLoopMax_MultiInstance."""
        most = 2**31 - 1
        out = 0

        async def run(semaphore: Semaphore, first: int) -> int:
            nonlocal out
            sizes = (1, most) if first == 1 else (most, 1)
            for n in sizes * 4:
                async with semaphore.hold(n, timeout=20):
                    out += n
                    assert out <= most
                    await asyncio.sleep(0)
                    out -= n
            return 8

        running = [run(get(clients(), most), n) for n in (1, most, 1, most)]
        assert await asyncio.gather(*running) == [8] * 4
        assert await get(clients()).available() == most


class TestHolders:
    async def test_what_a_dead_client_had_comes_back(
        self, client: Redisson, clients: ClientFactory, proxy: ProxyFactory
    ) -> None:
        """Weakness 11: with Redisson it is gone for ever."""
        link = await proxy()
        semaphore = get(client)
        dead = await get(clients(link.url, lease_time=1.6), 3).acquire(2)
        kept = await semaphore.acquire()
        assert await semaphore.available() == 0
        die(link)
        permit = await semaphore.acquire(2, timeout=10)
        await dead.wait_lost()
        assert not kept.lost
        await permit.release()
        await kept.release()
        assert await semaphore.available() == 3


class TestWakeUps:
    async def test_a_release_that_nobody_was_told_of_is_noticed(
        self, client: Redisson, redis: Redis, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Weakness 28: Redisson's acquire waits for a message, and for no other reason."""
        set_safety_poll(monkeypatch, 0.1)
        semaphore = get(client)
        await semaphore.try_set_permits(0)
        waiting = asyncio.create_task(semaphore.acquire(2, timeout=30))
        await until_listening(client)
        await redis.set(NAME, 2)  # and no message at all
        async with asyncio.timeout(30):
            await (await waiting).release()
