"""What RedissonPermitExpirableSemaphoreTest checks, on ours; and what is weak there, of permits.

Threads are tasks here, and clients stay clients. Times are scaled: seconds there are tenths here.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable

import pytest
from redis.asyncio import Redis

from redisson_py import NotHeldError, Permit, PermitExpirableSemaphore, Redisson
from tests.fixtures.client import ClientFactory
from tests.support.leases import granted_in_time
from tests.support.waiting import until_async

NAME = "semaphore"
UNKNOWN = "0" * 32
REDISSONS_NEVER = 922337203685477  # the end of a lease that has none


def get(client: Redisson, permits: int | None = None) -> PermitExpirableSemaphore:
    return client.get_permit_expirable_semaphore(NAME, permits)


async def all_lost(permits: Iterable[Permit]) -> None:
    await asyncio.gather(*[permit.wait_lost() for permit in permits])


class TestCounting:
    async def test_it_is_made_once(self, client: Redisson) -> None:
        """RedissonPermitExpirableSemaphoreTest.testTrySetPermits."""
        semaphore = get(client)
        assert await semaphore.try_set_permits(10) is True
        assert await semaphore.try_set_permits(15) is False
        assert await semaphore.available() == 10

    async def test_the_total_is_set_whatever_is_taken(self, client: Redisson) -> None:
        """RedissonPermitExpirableSemaphoreTest.testSetPermits."""
        semaphore = get(client)
        await semaphore.set_permits(10)
        held = await semaphore.acquire_many(6)
        for total in (15, 9, 9, 6, 5):
            await semaphore.set_permits(total)
            assert await semaphore.permits() == total
            assert await semaphore.available() == total - 6
            assert await semaphore.acquired() == 6
        assert await semaphore.try_acquire() is None
        await semaphore.release_many(held)
        assert await semaphore.available() == 5

    async def test_permits_are_added_and_taken_away(self, client: Redisson) -> None:
        """RedissonPermitExpirableSemaphoreTest.testAddPermits."""
        semaphore = get(client)
        await semaphore.try_set_permits(10)
        for more, free in ((5, 15), (-10, 5), (-10, -5)):
            await semaphore.add_permits(more)
            assert await semaphore.available() == free

    async def test_counts_agree_before_and_after_the_leases_end(
        self, client: Redisson, clients: ClientFactory
    ) -> None:
        """testAvailablePermits, testAcquiredPermits, testGetPermits."""
        semaphore, far = get(client, 2), get(clients())
        held = [await semaphore.acquire(lease_time=60) for _ in range(2)]
        assert await far.try_acquire() is None
        assert (await far.available(), await far.acquired(), await far.permits()) == (0, 2, 2)
        for permit in held:
            assert await semaphore.update_lease_time(permit, 0.2)
        await all_lost(held)
        taken = await far.acquire_many(2, lease_time=60, timeout=10)
        assert (await far.available(), await far.acquired(), await far.permits()) == (0, 2, 2)
        await far.release_many(taken)
        assert (await far.available(), await far.acquired(), await far.permits()) == (2, 0, 2)

    async def test_a_prefix_is_for_all_keys(self, clients: ClientFactory, redis: Redis) -> None:
        """testGetInClusterNameMapper, but for the cluster: what is made has one hash tag."""
        client = clients(name_mapper=lambda name: f"semaphore:{name}")
        semaphore = client.get_permit_expirable_semaphore("some")
        assert await semaphore.try_set_permits(1)
        permit = await semaphore.acquire()
        keys = {key async for key in redis.scan_iter("*some*")}
        permits_key = b"{semaphore:some}:timeout"
        assert {b"semaphore:some", permits_key} <= keys
        assert all(b"{semaphore:some}" in key for key in keys - {b"semaphore:some"})
        await semaphore.release(permit)
        assert await semaphore.available() == 1


class TestWaiting:
    async def test_four_and_five_of_ten(self, client: Redisson) -> None:
        """RedissonPermitExpirableSemaphoreTest.testTryAcquireMany."""
        semaphore = get(client, 10)
        four, five = [await semaphore.try_acquire_many(n) for n in (4, 5)]
        assert four is not None
        assert five is not None
        assert len({permit.id for permit in four + five}) == 9
        assert await semaphore.available() == 1
        assert await semaphore.try_acquire_many(2) is None
        assert await semaphore.available() == 1
        await semaphore.release_many(four + five)

    @pytest.mark.parametrize("first", [2, 1])
    @pytest.mark.parametrize("apart", [False, True], ids=["tasks", "clients"])
    async def test_two_tasks_that_want_more_than_is_free_are_served_in_order(
        self, clients: ClientFactory, first: int, apart: bool
    ) -> None:
        """testConcurrencyMultiPermits, testConcurrencyMultiPermits2."""
        one = get(clients(), 2)
        two = get(clients(), 2) if apart else one
        out = 0

        async def take(semaphore: PermitExpirableSemaphore, n: int) -> int:
            nonlocal out
            permits = await semaphore.try_acquire_many(n, timeout=30)
            assert permits is not None
            out += n
            assert out <= 2
            await asyncio.sleep(0.05)
            out -= n
            await semaphore.release_many(permits)
            return len(permits)

        assert [*await asyncio.gather(take(one, first), take(two, 2))] == [first, 2]
        assert await one.available() == 2


class TestReleases:
    async def test_an_id_that_never_was(self, client: Redisson) -> None:
        """RedissonPermitExpirableSemaphoreTest.testReleaseWithoutPermits."""
        semaphore = get(client)
        with pytest.raises(NotHeldError, match="it was released, has expired, or was never"):
            await semaphore.release(UNKNOWN)
        assert await semaphore.try_release(UNKNOWN) is False
        assert await semaphore.available() == 0

    async def test_what_ended_by_itself_is_not_released(
        self, client: Redisson, clients: ClientFactory
    ) -> None:
        """RedissonPermitExpirableSemaphoreTest.testReleaseExpired."""
        semaphore, far = get(client, 1), get(clients())
        permit = await granted_in_time(lambda: semaphore.acquire(lease_time=0.2))
        await permit.wait_lost()
        await until_async(far.available)  # the server's lease ends a moment later
        assert await semaphore.try_release(permit.id) is False
        taken = await far.acquire(timeout=10)
        assert await far.try_release(permit.id) is False
        assert await far.available() == 0
        await taken.release()

    async def test_a_list_in_parts_and_each_once(
        self, client: Redisson, clients: ClientFactory
    ) -> None:
        """testRelease, testReleaseAsyncMany, testBlockingAcquireMany, testAcquireAsyncMany."""
        semaphore, far = get(client, 10), get(clients())
        ids = [permit.id for permit in await semaphore.acquire_many(6, lease_time=60)]
        await asyncio.create_task(semaphore.release_many(ids[:4]))
        assert await semaphore.available() == 8
        with pytest.raises(NotHeldError, match=r"none of .* was released"):
            await semaphore.release_many(ids[:4])
        await asyncio.create_task(semaphore.release_many(ids[4:]))
        assert await semaphore.available() == 10
        for each in (semaphore, far):
            with pytest.raises(NotHeldError):
                await each.release_many(ids)
            assert await each.available() == 10

    async def test_a_list_with_something_wrong_changes_nothing(
        self, client: Redisson, clients: ClientFactory
    ) -> None:
        """testTryReleaseManyExpired, testReleaseManyNotExistOrExpired, and those that came back."""
        semaphore, far = get(client, 10), get(clients())
        short = await granted_in_time(lambda: semaphore.acquire_many(2, lease_time=0.2))
        live = [permit.id for permit in await semaphore.acquire_many(3, lease_time=60)]
        await all_lost(short)
        # Its lease is over for us a little sooner than for the server.
        full = await far.acquire_many(7, timeout=10)
        await far.release_many(full)
        for bad in (UNKNOWN, short[0].id):
            for each in (semaphore, far):
                with pytest.raises(NotHeldError):
                    await each.release_many([*live, bad])
                assert await each.try_release_many([live[0], bad, live[1]]) == 0
                assert await each.available() == 7
        assert await far.try_release_many([permit.id for permit in short]) == 0
        assert await semaphore.try_release_many(live) == 3
        assert await far.available() == 10


class TestLeases:
    async def test_a_lease_is_set_anew_while_it_lasts(
        self, client: Redisson, clients: ClientFactory
    ) -> None:
        """RedissonPermitExpirableSemaphoreTest.testUpdateLeaseTime."""
        semaphore, far = get(client, 1), get(clients())
        assert await semaphore.update_lease_time(UNKNOWN, 1) is False
        permit = await semaphore.acquire(lease_time=20)
        assert await semaphore.update_lease_time(permit, 60) is True
        assert 50 < await far.lease_time(permit) <= 60
        assert 50 < permit.remaining <= 60
        assert await far.try_acquire() is None
        assert await semaphore.update_lease_time(permit.id, 0.2) is True
        other = await far.acquire(timeout=10)
        await permit.wait_lost()
        for each in (semaphore, far):
            assert await each.update_lease_time(permit.id, 1) is False
        await other.release()

    async def test_what_is_left_of_a_lease(
        self, client: Redisson, clients: ClientFactory, redis: Redis
    ) -> None:
        """RedissonPermitExpirableSemaphoreTest.testGetLeaseTime."""
        semaphore, far = get(client, 2), get(clients())
        with pytest.raises(NotHeldError, match="does not exist"):
            await semaphore.lease_time(UNKNOWN)
        permit = await semaphore.acquire(lease_time=60)
        assert 50 < await far.lease_time(permit.id) <= 60
        watched = await semaphore.acquire()
        left = await far.lease_time(watched)
        assert 0 < left <= 30, "the watchdog keeps no permit for longer than a lease"
        await semaphore.release(watched)
        await redis.decr(NAME)
        await redis.zadd("{semaphore}:timeout", {bytes.fromhex(UNKNOWN): REDISSONS_NEVER})
        assert await far.lease_time(UNKNOWN) == math.inf
        await far.release(UNKNOWN)
        assert await semaphore.update_lease_time(permit, 0.2)
        both = await far.acquire_many(2, timeout=10)
        await permit.wait_lost()
        with pytest.raises(NotHeldError):
            await far.lease_time(permit)
        await far.release_many(both)


class TestHandingOver:
    async def test_a_permit_counted_as_lost_cannot_be_renewed_by_its_handle(
        self, client: Redisson, clients: ClientFactory
    ) -> None:
        ours, others = get(client, 1), get(clients())
        await others.available()  # connecting counts
        permit = await ours.acquire(lease_time=3)
        # The lease that this client counts is not the one in Redis any more.
        assert await others.update_lease_time(permit.id, 60) is True
        await permit.wait_lost()
        assert await ours.update_lease_time(permit, 600) is False
        assert await others.lease_time(permit.id) <= 60
        assert await ours.update_lease_time(permit.id, 600) is True
        assert await others.lease_time(permit.id) > 60
        await others.release(permit.id)
        assert await ours.update_lease_time(permit, 600) is False
