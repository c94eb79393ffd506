"""Who stops waiting leaves the queue of clients, and costs nobody a call."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter

import pytest
from redis.asyncio import Redis

from redisson_py import ConnectionLostError, LeaseLostError, Redisson
from redisson_py._engine import waiting
from redisson_py._redis.commands.client_queue import client_of
from redisson_py.locks.read_write_lock import Prefer
from tests.crowd.kinds import Kind, each_kind, each_queue, holding, of_kind
from tests.crowd.queue_look import QUEUE, members, until_in_queue, until_nobody_is_left
from tests.fixtures.client import ClientFactory
from tests.support.waiting import until, until_listening, until_waiting

pytestmark = [pytest.mark.heart, pytest.mark.timeout(120)]

#: Seconds in which everybody must have come who needs no safety poll.
SOON = 60


@each_kind
async def test_tasks_that_all_time_out_leave_no_entry(
    clients: ClientFactory, client: Redisson, redis: Redis, kind: str
) -> None:
    async with holding(client, kind):
        crowd = [clients() for _ in range(4)]
        waits = [of_kind(one, kind).try_acquire(timeout=0.3) for one in crowd for _ in range(3)]
        assert set(await asyncio.gather(*waits)) == {None}
        await until_nobody_is_left(redis)


@each_kind
async def test_a_cancelled_task_leaves_its_client_in_the_queue_while_others_wait(
    clients: ClientFactory, client: Redisson, redis: Redis, kind: str
) -> None:
    waiter = clients()
    async with holding(client, kind):
        tasks = [asyncio.create_task(of_kind(waiter, kind).acquire()) for _ in range(3)]
        await until_waiting(waiter, 3)
        await until_in_queue(redis, 1)
        for task in tasks[:2]:
            task.cancel()
            await asyncio.wait([task])
        assert len(await members(redis)) == 1
        tasks[2].cancel()
        await asyncio.wait(tasks)
        await until_nobody_is_left(redis)


@pytest.mark.parametrize("kind", ["lock", "fenced", "write"])
async def test_who_asks_when_its_time_is_up_leaves_no_entry(
    clients: ClientFactory,
    client: Redisson,
    redis: Redis,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    """It is granted what is free, but not as its client, which stands in the queue."""
    waiter = clients()
    lock = of_kind(waiter, kind)
    lease = await of_kind(client, kind).acquire()
    head = asyncio.create_task(lock.acquire())
    await until_in_queue(redis, 1)
    await until_listening(waiter)
    following = asyncio.create_task(lock.acquire(timeout=SOON))
    await until_waiting(waiter, 2)
    # A newcomer may have what is free: by its score, the client joined just now.
    just_now = time.time_ns() // 1000 + 60_000_000
    await redis.zadd(QUEUE, dict.fromkeys(await members(redis), just_now))
    # It is free, and nobody is called.
    await redis.delete("k")
    monkeypatch.setattr(waiting, "_passed", lambda deadline: deadline is not None)
    head.cancel()
    granted = await following
    # Its release would take the client out, because nobody hears the call.
    await until_nobody_is_left(redis)
    await granted.release()
    with pytest.raises(LeaseLostError):
        await lease.release()


@each_queue
@pytest.mark.parametrize("timeout", [None, SOON])
@pytest.mark.parametrize("rounds", range(4))
async def test_head_and_the_next_task_are_cancelled_together(
    clients: ClientFactory,
    client: Redisson,
    redis: Redis,
    rounds: int,
    timeout: float | None,
    kind: str,
) -> None:
    """The next one was just woken to ask."""
    waiter = clients()
    async with holding(client, kind):
        lock = of_kind(waiter, kind)
        head, following = [asyncio.create_task(lock.acquire(timeout=timeout)) for _ in range(2)]
        await until_waiting(waiter, 2)
        await until_in_queue(redis, 1)
        await until_listening(waiter)
        head.cancel()
        for _ in range(rounds):
            await asyncio.sleep(0)
        following.cancel()
        await asyncio.wait([head, following])
        await until_nobody_is_left(redis)


@pytest.mark.parametrize("rounds", range(8))
@each_kind
async def test_a_client_that_is_cancelled_as_its_call_comes_lets_the_next_go(
    clients: ClientFactory, client: Redisson, redis: Redis, kind: str, rounds: int
) -> None:
    lease = await holding(client, kind).acquire()
    first, following = clients(), clients()
    waits = asyncio.create_task(of_kind(first, kind).acquire())
    await until_in_queue(redis, 1)
    waits_too = asyncio.create_task(of_kind(following, kind).acquire())
    await until_in_queue(redis, 2)
    wake_ups = first.statistics().wake_ups
    releases = asyncio.create_task(lease.release())
    await until(lambda: first.statistics().wake_ups > wake_ups)
    for _ in range(rounds):
        await asyncio.sleep(0)
    if not waits.done():
        waits.cancel()
    await asyncio.wait([waits, releases])
    if not waits.cancelled():
        await waits.result().release()
    async with asyncio.timeout(SOON):
        await (await waits_too).release()
    await until_nobody_is_left(redis)


def of_storm(client: Redisson, number: int, prefer: str) -> tuple[Kind, bool]:
    """Return what one of a crowd wants, and whether that excludes all others."""
    if not prefer:
        return of_kind(client, "fenced" if number % 3 == 0 else "lock"), True
    words: list[Prefer] = ["readers", "writers"] if prefer == "both" else [prefer]  # type: ignore[list-item]
    sides = client.get_read_write_lock("k", prefer=words[number % len(words)])
    return (sides.write_lock(), True) if number % 3 == 0 else (sides.read_lock(), False)


@pytest.mark.parametrize(
    "prefer", ["", "readers", "writers", "both"], ids=["locks", "readers", "writers", "both"]
)
async def test_storms_of_timeouts_and_cancellations_leave_nothing_and_starve_nobody(
    clients: ClientFactory, redis: Redis, prefer: str
) -> None:
    crowd = [clients() for _ in range(12)]
    granted = Counter[int]()
    enough = asyncio.Event()
    inside = Counter[bool]()
    came = Counter[bool]()

    async def work(number: int) -> None:
        lock, alone = of_storm(crowd[number % len(crowd)], number, prefer)
        patient = number % 4 == 1
        while not enough.is_set():
            timeout = None if patient else random.choice([0.01, 0.05, 0.2])
            try:
                lease = await (lock.acquire() if patient else lock.try_acquire(timeout=timeout))
            except ConnectionLostError:
                continue
            if lease is None:
                continue
            inside[alone] += 1
            assert inside[True] == alone
            assert not (alone and inside[False])
            await asyncio.sleep(random.choice([0, 0.002]))
            inside[alone] -= 1
            await lease.release()
            granted[number] += 1
            if all(granted[each] >= 5 for each in range(24) if each % 4 == 1):
                enough.set()
            # Readers that always overlap keep writers out, and writers keep readers out.
            came[alone] += 1
            others = came[not alone]
            await asyncio.sleep(random.choice([0, 0.02]) if prefer else 0)
            for _ in range(100 if prefer else 0):
                if came[not alone] != others or enough.is_set():
                    break
                await asyncio.sleep(0.01)

    async def cancel(tasks: list[asyncio.Task[None]]) -> None:
        """Cancel waiters at any moment; they begin again."""
        while not enough.is_set():
            await asyncio.sleep(random.random() / 100)
            number = random.choice([each for each in range(24) if each % 4 == 3])
            if (old := tasks[number]).done():
                old.result()
            # Not within the section of a holder: that is what `async with` is for.
            if not crowd[number % len(crowd)].statistics().held_leases:
                old.cancel()
                await asyncio.wait([old])
                tasks[number] = asyncio.create_task(work(number))

    tasks = [asyncio.create_task(work(number)) for number in range(24)]
    async with asyncio.timeout(SOON):
        await cancel(tasks)
        await asyncio.gather(*tasks)
    await until_nobody_is_left(redis)


@each_queue
async def test_a_closed_client_that_waited_leaves_no_entry(
    clients: ClientFactory, client: Redisson, redis: Redis, kind: str
) -> None:
    lease = await holding(client, kind).acquire()
    closing, following = clients(), clients()
    waits = asyncio.create_task(of_kind(closing, kind).acquire())
    await until_in_queue(redis, 1)
    waits_too = asyncio.create_task(of_kind(following, kind).acquire())
    await until_in_queue(redis, 2)
    await closing.aclose()
    await asyncio.wait([waits])
    assert [client_of(each.encode()) for each in await members(redis)] == [following.id]
    await lease.release()
    async with asyncio.timeout(SOON):
        await (await waits_too).release()
    await until_nobody_is_left(redis)


@pytest.mark.parametrize("kinds", [("lock", "fenced"), ("semaphore", "permits")])
async def test_one_client_waits_for_both_kinds_of_one_name(
    clients: ClientFactory, client: Redisson, redis: Redis, kinds: tuple[str, str]
) -> None:
    lease = await of_kind(client, kinds[0]).acquire()
    waiter = clients()
    both = [asyncio.create_task(of_kind(waiter, kind).acquire()) for kind in kinds]
    await until_in_queue(redis, 2)
    await lease.release()
    async with asyncio.timeout(SOON):
        for one in asyncio.as_completed(both):
            await (await one).release()
    await until_nobody_is_left(redis)


@each_queue
async def test_a_client_whose_event_loop_was_closed_lets_the_next_go(
    clients: ClientFactory, client: Redisson, redis: Redis, server_url: str, kind: str
) -> None:
    lease = await holding(client, kind).acquire()
    ended = Redisson.from_url(server_url)

    async def leave_while_waiting() -> None:
        waits = asyncio.create_task(of_kind(ended, kind).acquire())
        await until_listening(ended)
        # `asyncio.run` cancels it, and closes the loop.
        assert not waits.done()

    await asyncio.to_thread(asyncio.run, leave_while_waiting())
    following = asyncio.create_task(of_kind(clients(), kind).acquire())
    await until_in_queue(redis, 1)
    await lease.release()
    async with asyncio.timeout(SOON):
        await (await following).release()

    async def use_again() -> None:
        async with ended, of_kind(ended, kind).hold(timeout=SOON):
            pass

    await asyncio.to_thread(asyncio.run, use_again())
    await until_nobody_is_left(redis)
