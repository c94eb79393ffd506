"""Semaphores: what RedissonSemaphoreTest checks, set_permits, delete, and those without permits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from redis.asyncio import Redis

from redisson_py import (
    AcquireTimeoutError,
    LeaseLostError,
    NotHeldError,
    PermitExpirableSemaphore,
    Redisson,
    Semaphore,
)
from tests.fixtures.client import ClientFactory
from tests.support.leases import renew_now
from tests.support.streams import answered
from tests.support.waiting import until, until_async, until_listening, until_waiting

NAME = "semaphore"


def plain(client: Redisson, permits: int | None = None) -> Semaphore:
    return client.get_semaphore(NAME, permits)


@pytest.mark.also("cluster")
class TestCounting:
    async def test_nothing_is_asked_for_no_permits(self, client: Redisson) -> None:
        """RedissonSemaphoreTest.testZero."""
        semaphore = plain(client)
        permit = await semaphore.try_acquire(0, timeout=10)
        assert permit is not None
        assert permit.units == 0
        await semaphore.release(0)
        assert await semaphore.available() == 0

    async def test_added_permits_make_a_semaphore_and_releases_do_not(
        self, client: Redisson, redis: Redis
    ) -> None:
        """testReleaseWithoutPermits, testAcquireWithoutSetPermits."""
        semaphore = plain(client)
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
        semaphore = plain(client)
        assert await semaphore.try_set_permits(10, lifetime=2.5) is True
        assert await semaphore.try_set_permits(15) is False
        assert await semaphore.available() == 10

        async def gone() -> bool:
            return not await redis.exists(NAME)

        await until_async(gone)
        assert await semaphore.available() == 0
        assert await gone()

    @pytest.mark.parametrize("more", [4, -5])
    async def test_permits_are_added_or_taken_away_below_zero(
        self, client: Redisson, more: int
    ) -> None:
        """RedissonSemaphoreTest.testAddPermits, testReducePermits."""
        semaphore = plain(client)
        await semaphore.try_set_permits(10)
        await semaphore.acquire(10)
        await semaphore.add_permits(more)
        assert await semaphore.available() == more
        await semaphore.release(10)
        assert await semaphore.available() == 10 + more
        await semaphore.acquire(5)
        assert await semaphore.available() == 5 + more
        await semaphore.release(5)

    async def test_what_is_free_is_drained(self, client: Redisson) -> None:
        """RedissonSemaphoreTest.testDrainPermits."""
        semaphore = plain(client)
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
        semaphore = plain(client)
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
        semaphore = plain(client)
        await semaphore.try_set_permits(2, lifetime=60)
        await semaphore.add_permits(3)
        assert 0 < await redis.pttl(NAME) <= 60_000
        assert await semaphore.drain() == 5
        assert 0 < await redis.pttl(NAME) <= 60_000
        await redis.delete(NAME)


@pytest.mark.also("cluster")
class TestWaiting:
    async def test_one_permit_is_not_enough_for_two(
        self, client: Redisson, clients: ClientFactory
    ) -> None:
        """RedissonSemaphoreTest.testAcquireAfterAddPermits, testBlockingNAcquire."""
        waiter = clients()
        semaphore, far = plain(client), plain(waiter)
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
        semaphore, far = plain(client, 5), plain(waiter)
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

    async def test_a_waiter_for_many_permits_is_served_in_order(self, client: Redisson) -> None:
        """Weakness 26: with Redisson, those who want one pass those who want more."""
        semaphore = plain(client, 3)
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


@pytest.mark.also("cluster")
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

        running = [run(plain(clients(), most), n) for n in (1, most, 1, most)]
        assert await asyncio.gather(*running) == [8] * 4
        assert await plain(clients()).available() == most


Make = Callable[[Redisson, int | None], Semaphore | PermitExpirableSemaphore]


def expirable(client: Redisson, permits: int | None = None) -> PermitExpirableSemaphore:
    return client.get_permit_expirable_semaphore(NAME, permits)


either = pytest.mark.parametrize("make", [plain, expirable])

ABSENT = r"so no permit became free.*\. Call try_set_permits\(\), or pass permits=N"


class TestSetPermits:
    async def test_permits_that_clients_hold_count(self, clients: ClientFactory) -> None:
        mine, theirs = plain(clients(), 5), plain(clients())
        held = [await mine.acquire(2), await theirs.acquire()]
        await mine.set_permits(4)
        assert await theirs.available() == 1
        await theirs.set_permits(1)
        assert await mine.available() == -2
        assert await mine.try_acquire() is None
        for permit in held:
            await permit.release()
        assert await mine.available() == 1

    async def test_waiters_are_woken_by_what_becomes_free(self, clients: ClientFactory) -> None:
        holder, waiter = clients(), clients()
        permit = await plain(holder, 1).acquire()
        waiting = [asyncio.create_task(plain(waiter).acquire()) for _ in range(3)]
        await until_waiting(waiter, 3)
        await until_listening(waiter)
        await plain(holder).set_permits(3)
        await until(lambda: sum(task.done() for task in waiting) == 2)
        await permit.release()
        for task in asyncio.as_completed(waiting):
            await (await task).release()
        assert await plain(holder).available() == 3


class TestDelete:
    async def test_nothing_is_left_but_the_receipt(self, client: Redisson, redis: Redis) -> None:
        semaphore = plain(client, 2)
        async with semaphore:
            pass
        assert await semaphore.delete() is True
        assert await semaphore.delete() is False
        assert [key async for key in redis.scan_iter("*semaphore*") if b"receipt" not in key] == []
        assert (await semaphore.inspect()).available is None

    async def test_what_is_held_is_void(self, clients: ClientFactory) -> None:
        holder, other = clients(), clients()
        released, renewed = await plain(holder, 2).acquire(), await plain(other).acquire()
        assert await plain(holder).delete()
        renew_now(other)
        await until(lambda: renewed.lost)
        with pytest.raises(LeaseLostError) as raised:
            await released.release()
        assert raised.value.reason == "taken"
        with pytest.raises(LeaseLostError) as raised:
            await renewed.release()
        assert raised.value.reason == "taken"
        await plain(other).try_set_permits(3)
        assert await plain(holder).available() == 3
        await plain(holder).delete()


@pytest.mark.usefixtures("old_busy_counts")
@either
class TestNeverGivenPermits:
    @pytest.mark.parametrize("timeout", [0, 0.5])
    async def test_a_timeout_says_so(self, make: Make, client: Redisson, timeout: float) -> None:
        await answered(client)
        semaphore = make(client, None)
        with pytest.raises(AcquireTimeoutError, match=ABSENT):
            await semaphore.acquire(timeout=timeout)
        assert await semaphore.try_acquire(timeout=timeout) is None

    async def test_a_busy_one_is_busy(self, make: Make, clients: ClientFactory) -> None:
        holder, other = clients(), clients()
        with pytest.raises(AcquireTimeoutError, match=ABSENT):
            await make(other, None).acquire(timeout=0)
        permit = await make(holder, 1).acquire()
        waiting = asyncio.create_task(make(other, None).acquire(timeout=600))
        await until_listening(other)
        for client in (holder, other):
            for timeout in (0, 0.5):
                with pytest.raises(AcquireTimeoutError) as raised:
                    await make(client, None).acquire(timeout=timeout)
                how = "stayed busy for 0.5 s" if timeout else "is busy"
                assert f"{how}: no permit was free" in str(raised.value)
                assert "does not exist" not in str(raised.value)
        await permit.release()
        await (await waiting).release()
