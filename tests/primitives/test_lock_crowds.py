"""Many tasks, clients and names at once, as Redisson's tests have them: test_lock_parity.py."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest
from redis.asyncio import Redis

from redisson_py import ConnectionLostError, Redisson
from tests.fixtures.client import ClientFactory, assert_idle
from tests.support.streams import answered
from tests.support.waiting import set_safety_poll, until_async, until_listening


async def test_one_connection_serves_the_waiters_of_several_names(
    clients: ClientFactory,
) -> None:
    # testSinglePubSub
    client = clients()

    async def work(number: int) -> None:
        lock = client.get_lock(f"{{k}}{number % 2}")
        for _ in range(20):
            assert await lock.try_acquire(timeout=10), "a wake-up was missed"
            await asyncio.sleep(0)
            await lock.release()

    await asyncio.gather(*[work(number) for number in range(4)])
    assert client.statistics().connections == 1


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
    assert not any(client._table.channels for client in both)


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


@pytest.mark.parametrize("tries", [False, True])
async def test_heavy_use_of_one_lock_lets_everybody_finish(
    clients: ClientFactory, redis: Redis, tries: bool
) -> None:
    # RedissonLockHeavyTest; a second lock taken inside stands for its semaphore
    both = [clients(), clients()]
    for client in both:
        await answered(client)  # a few milliseconds are not meant for connecting, too
    entered = 0

    async def work(client: Redisson) -> None:
        nonlocal entered
        lock, inner = client.get_lock("k"), client.get_lock("inner")
        for _ in range(25):
            timeout = random.randrange(10) / 1000 if tries else None
            try:
                lease = await lock.try_acquire(timeout=timeout)
            except ConnectionLostError:
                # So little time may pass before a busy server answers.
                assert tries
                continue
            if lease:
                entered += 1
                await redis.set("written", entered, px=60_000)
                async with inner:
                    pass
                await lock.release()

    await asyncio.gather(*[work(both[number % 2]) for number in range(10)])
    assert entered == 250 if not tries else 0 < entered <= 250
    assert await redis.get("written") == str(entered).encode()
