"""Weaknesses of Redisson's plain locks that are none here, where no other test shows it already."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import pytest
from redis.asyncio import Redis

from redisson_py import LeaseLostError, Redisson
from redisson_py._time import now
from tests.fixtures.client import ClientFactory, assert_idle
from tests.support.counting import Counted
from tests.support.leases import assert_left, renew_now
from tests.support.streams import answered, stream_of
from tests.support.waiting import (
    set_safety_poll,
    until,
    until_async,
    until_listening,
    until_waiting,
)


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
    own = asyncio.create_task(lock.acquire(lease_time=60))
    await until_waiting(client, 2)
    assert lease.remaining < 20
    for waiting, seconds in ((watched, 30), (own, 60)):
        began = now()
        await lease.release()
        lease = await waiting
        assert lease.remaining < seconds
        assert_left(lease.remaining, seconds, began)
        assert_left(await lock.remaining(), seconds, began)
    await lease.release()


async def test_a_token_is_its_holders_in_every_way_to_acquire(
    client: Redisson, clients: ClientFactory
) -> None:  # A5; RedissonFencedLockTest.testTokenIncrease
    lock, far = client.get_fenced_lock("k"), clients().get_fenced_lock("k")
    tokens: list[int | None] = []
    async with lock as lease:
        tokens.append(lease.token)
    began = now()
    async with lock.hold(lease_time=5) as lease:
        # A token does not cost the lease time.
        assert_left(await lock.remaining(), 5, began)
        tokens.append(lease.token)
        async with lock as inner:
            assert inner.token == lease.token, "a re-entry is no new holder"
    lease = await lock.acquire(timeout=30)
    tokens.append(lease.token)
    assert await lock.force_release()
    gained = await far.try_acquire()
    assert gained is not None
    tokens.append(gained.token)
    assert lease.token == tokens[-2], "it stays what it was, whatever others got since"
    with pytest.raises(LeaseLostError):
        await lease.release()
    await gained.release()
    known = [token for token in tokens if token is not None]
    assert len(known) == 4
    assert known == sorted(set(known))


# Wake-ups.


async def test_a_release_does_not_wake_a_herd(clients: ClientFactory, redis: Redis) -> None:
    holder, crowd = clients(), [clients(turn=60) for _ in range(3)]
    entered = 0

    async def work(client: Redisson) -> None:
        nonlocal entered
        async with client.get_lock("k"):
            entered += 1
            await asyncio.sleep(0)

    lease = await holder.get_lock("k").acquire()
    async with asyncio.TaskGroup() as group:
        for client in crowd:
            for _ in range(20):
                group.create_task(work(client))
            await until_waiting(client, 20)
            await until_listening(client)
        async with Counted(redis) as counted:
            await lease.release()
            await until(lambda: entered == 60)
    # Sixty hand-offs: a question of every client at each would be 180 and more.
    assert counted.calls["evalsha"] <= 20


async def test_a_release_that_nobody_was_told_of_is_noticed(
    client: Redisson, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_safety_poll(monkeypatch, 0.2)
    await taken_by_a_stranger(redis, "k", 60_000)
    waiting = asyncio.create_task(client.get_lock("k").acquire(timeout=30))
    await until_listening(client)
    await redis.delete("k")
    async with asyncio.timeout(30):  # and not the 60 s of the lease it was told
        lease = await waiting
    assert client.statistics().wake_ups == 0
    await lease.release()


async def test_hundreds_of_names_are_waited_for_on_one_connection(
    clients: ClientFactory, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_safety_poll(monkeypatch, 60)
    holder, client = clients(), clients()
    names = [f"{{k}}{number}" for number in range(300)]
    leases = await asyncio.gather(*[holder.get_lock(name).acquire() for name in names])
    tasks = [asyncio.create_task(client.get_lock(name).acquire(timeout=30)) for name in names]
    # The first of each queue of clients is called on its own channel, and soon watches that of all.
    await until(lambda: client._table.seats == 600 and not stream_of(client).waiting)
    assert len(await redis.pubsub_channels("redisson_lock__channel:*")) == 600
    assert client.statistics().connections == 1
    # Those who give up take nothing from the others.
    for task in tasks[::2]:
        task.cancel()
    await asyncio.wait(tasks[::2])
    await asyncio.gather(*[lease.release() for lease in leases])
    async with asyncio.timeout(20):  # sooner than the safety poll: all were told
        gained = await asyncio.gather(*tasks[1::2])
    assert client.statistics().wake_ups >= 150
    assert client.statistics().connections == 1
    await asyncio.gather(*[lease.release() for lease in gained])


# What can be asked and said.
