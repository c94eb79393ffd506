"""`set_permits` and `delete` of a semaphore, and a timeout where it does not exist."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from redis.asyncio import Redis

from redisson_py import (
    AcquireTimeoutError,
    LeaseLostError,
    PermitExpirableSemaphore,
    Redisson,
    Semaphore,
)
from tests.fixtures.client import ClientFactory
from tests.support.counting import Counted
from tests.support.leases import renew_now
from tests.support.streams import answered
from tests.support.waiting import until, until_listening, until_waiting

NAME = "semaphore"
Make = Callable[[Redisson, int | None], Semaphore | PermitExpirableSemaphore]


def plain(client: Redisson, permits: int | None = None) -> Semaphore:
    return client.get_semaphore(NAME, permits)


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

    async def test_an_expiry_stays(self, client: Redisson, redis: Redis) -> None:
        semaphore = plain(client)
        await semaphore.try_set_permits(2, lifetime=60)
        await semaphore.set_permits(5)
        assert 0 < await redis.pttl(NAME) <= 60_000
        await semaphore.delete()

    @pytest.mark.parametrize(
        ("n", "error"), [(-1, ValueError), (2**53, ValueError), ("3", TypeError), (True, TypeError)]
    )
    async def test_a_bad_number_is_refused_before_anything_is_sent(
        self, client: Redisson, n: int, error: type[Exception]
    ) -> None:
        with pytest.raises(error, match="n must be"):
            await plain(client).set_permits(n)
        assert client.statistics().commands_sent == 0


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

    async def test_waiters_that_bring_a_number_make_a_new_one(self, clients: ClientFactory) -> None:
        holder, waiter = clients(), clients()
        permit = await plain(holder, 1).acquire()
        waiting = asyncio.create_task(plain(waiter, 2).acquire())
        await until_waiting(waiter, 1)
        await until_listening(waiter)
        await plain(holder).delete()
        again = await waiting
        assert await plain(holder).available() == 1
        with pytest.raises(LeaseLostError):
            await permit.release()
        await again.release()

    async def test_the_next_use_makes_it_again(self, client: Redisson) -> None:
        semaphore = plain(client, 4)
        assert await semaphore.available() == 4
        await semaphore.delete()
        assert await plain(client).available() == 0
        assert await semaphore.available() == 4


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

    async def test_so_does_one_behind_others(self, make: Make, client: Redisson) -> None:
        first = asyncio.create_task(make(client, None).acquire(timeout=600))
        await until_listening(client)
        for timeout in (0, 0.5):
            with pytest.raises(AcquireTimeoutError, match=ABSENT):
                await make(client, None).acquire(timeout=timeout)
        await make(client, None).try_set_permits(1)
        await (await first).release()

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

    async def test_one_of_no_permits_was_given_them(self, make: Make, client: Redisson) -> None:
        await answered(client)
        semaphore = make(client, 0)
        with pytest.raises(AcquireTimeoutError) as raised:
            await semaphore.acquire(timeout=0.5)
        assert "does not exist" not in str(raised.value)

    async def test_it_costs_no_command(self, make: Make, client: Redisson, redis: Redis) -> None:
        semaphore = make(client, None)
        await semaphore.try_acquire()
        async with Counted(redis) as counted:
            with pytest.raises(AcquireTimeoutError, match=ABSENT):
                await semaphore.acquire(timeout=0)
        assert counted.calls["evalsha"] == 1
