"""What the calls of a semaphore cost, exactly."""

from __future__ import annotations

import asyncio

from redis.asyncio import Redis

from redisson_py import Permit
from tests.fixtures.client import ClientFactory
from tests.support.waiting import until, until_listening, until_waiting

NAME = "semaphore"


async def test_a_release_of_n_wakes_at_most_n(clients: ClientFactory) -> None:
    holder, waiter = clients(), clients()
    permit = await holder.get_semaphore(NAME, 3).acquire(3)
    semaphore = waiter.get_semaphore(NAME)
    waiting = [asyncio.create_task(semaphore.acquire()) for _ in range(10)]
    await until_waiting(waiter, 10)
    await until_listening(waiter)
    before = waiter.statistics().wake_ups
    await holder.get_semaphore(NAME).release(2)
    await until(lambda: sum(task.done() for task in waiting) == 2)
    await until_listening(waiter)
    assert 1 <= waiter.statistics().wake_ups - before <= 2
    assert waiter.statistics().waiters == 8
    await permit.release()
    gained: list[Permit] = []
    for task in asyncio.as_completed(waiting):
        gained.append(await task)
        await gained[-1].release()
    assert len(gained) == 10


async def test_a_thousand_waiters_are_one_subscription_and_one_that_asks(
    clients: ClientFactory, redis: Redis
) -> None:
    holder, waiter = clients(), clients()
    permit = await holder.get_semaphore(NAME, 1).acquire()
    semaphore = waiter.get_semaphore(NAME)
    tasks = [asyncio.create_task(semaphore.acquire()) for _ in range(1000)]
    await until_waiting(waiter, 1000)
    await until_listening(waiter)
    own = f"redisson_sc:{{semaphore}}:{waiter.id}"
    assert await redis.pubsub_numsub(own) == [(own.encode(), 1)]
    # The first client in the queue watches the channel of all releases too.
    assert waiter._table.seats <= 2
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    await permit.release()
