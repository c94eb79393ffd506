"""Who waits for a lock, on which host, since when and who was called: what snapshots say of it.

The clients of this library that wait stand in a queue on the server.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import redis as redis_py
from redis.asyncio import Redis

from redisson_py import FencedLock, LockSnapshot, Redisson, RLock
from redisson_py._engine.waiting import SAFETY_POLL
from redisson_py._time import now
from tests.fixtures.client import ClientFactory
from tests.fixtures.leaks import left_waiting
from tests.support.waiting import until, until_async

#: A client that nobody has: tests put it into a queue, and listen in its place.
GHOST = "0a1b2c3d-4e5f-4071-8293-a4b5c6d7e8f9"
QUEUE = "{k}:redisson_py:clients"

Get = Callable[[Redisson], RLock | FencedLock]


@pytest.fixture(
    params=[
        lambda client: client.get_lock("k"),
        lambda client: client.get_lock("k", reentrant=False),
        lambda client: client.get_fenced_lock("k"),
    ],
    ids=["lock", "not reentrant", "fenced lock"],
)
def get(request: pytest.FixtureRequest) -> Get:
    """Return the same lock of a client."""
    made: Get = request.param
    return made


@asynccontextmanager
async def waits(*locks: RLock | FencedLock) -> AsyncIterator[LockSnapshot]:
    """Have tasks wait for a lock, one behind the other, in a block; return the last snapshot."""
    tasks: list[asyncio.Task[object]] = []
    try:
        for lock in locks:
            before = lock.statistics().waiters
            tasks.append(asyncio.create_task(lock.acquire()))

            async def joined(lock: RLock | FencedLock = lock, before: int = before) -> bool:
                found = await lock.inspect()
                ids = found.waiters or ()
                return lock.statistics().waiters > before and lock._context.owners.client_id in ids

            await until_async(joined)
        yield await locks[-1].inspect()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_the_clients_that_wait_are_there_in_order(get: Get, clients: ClientFactory) -> None:
    holder, first, second = clients(), clients(client_name="billing"), clients()
    began = now()
    async with get(holder):
        async with waits(get(first), get(second)) as seen:
            assert seen.waiters == (first.id, second.id)
            assert [each.owner for each in seen.waiting] == [first.id, second.id]
            # They never held anything, so they say who they are because they wait.
            assert [(each.host, each.pid) for each in seen.waiting] == [
                (socket.gethostname(), os.getpid())
            ] * 2
            assert [each.client_name for each in seen.waiting] == ["billing", None]
            one, two = (each.waited for each in seen.waiting)
            assert one is not None
            assert two is not None
            assert now() - began + 0.001 >= one >= two >= 0
            assert {each.called for each in seen.waiting} == {None}
        await until_async(lambda: nobody_waits(get(holder)))


async def nobody_waits(lock: RLock | FencedLock) -> bool:
    found = await lock.inspect()
    return (found.waiters, found.waiting) == ((), ())


async def test_a_client_is_there_once_for_all_its_tasks(get: Get, clients: ClientFactory) -> None:
    holder, waiter = clients(), clients()
    async with get(holder):
        async with waits(*[get(waiter)] * 3) as seen:
            assert get(waiter).statistics().waiters == 3
            assert seen.waiters == (waiter.id,)


async def test_a_task_that_waits_for_its_own_client_is_not_there(
    get: Get, clients: ClientFactory
) -> None:
    holder = clients()
    async with get(holder):
        task = asyncio.create_task(get(holder).acquire())
        await until(lambda: get(holder).statistics().waiters == 1)
        assert (await get(holder).inspect()).waiters == ()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_one_that_was_called_and_does_not_answer_is_seen(
    get: Get, clients: ClientFactory, redis: Redis, one_server: None
) -> None:
    client = clients()
    member = GHOST + (":fenced" if isinstance(get(client), FencedLock) else "")
    own = f"redisson_lock__channel:{{k}}:{member}"
    async with redis.pubsub() as ghost:
        await ghost.subscribe(own)
        assert await ghost.get_message(timeout=30) is not None
        async with get(client):
            seconds, microseconds = await redis.time()
            # It joined a minute ago.
            since = (seconds - 60) * 1_000_000 + microseconds
            await redis.zadd(QUEUE, {member: since})
            await redis.pexpire(QUEUE, 60_000)
            (waiter,) = (await get(client).inspect()).waiting
            assert (waiter.owner, waiter.called, waiter.host) == (GHOST, None, None)
            assert waiter.waited is not None
            assert waiter.waited >= 60
        released = now()
        assert await ghost.get_message(timeout=30) is not None
        found = await get(client).inspect()
        assert (found.holders, found.waiters) == ((), (GHOST,))
        (waiter,) = found.waiting
        assert waiter.called is not None
        assert 0 <= waiter.called <= now() - released + 1
    await redis.delete(QUEUE)


async def test_of_a_crowd_the_first_hundred_are_described(
    get: Get, clients: ClientFactory, redis: Redis
) -> None:
    ids = [f"{GHOST[:-4]}{number:04}" for number in range(300)]
    pipeline: Any = redis.pipeline(transaction=False)
    pipeline.zadd(QUEUE, {each: place for place, each in enumerate(ids, 1)})
    pipeline.pexpire(QUEUE, 60_000)
    await pipeline.execute()
    seen = await get(clients()).inspect()
    await redis.delete(QUEUE)
    assert seen.waiters == tuple(ids)
    assert [each.owner for each in seen.waiting] == ids[:100]


@pytest.mark.usefixtures("old_busy_counts")
@pytest.mark.parametrize("kind", ["lock", "fenced_lock", "fair_lock", "write_lock", "semaphore"])
async def test_a_client_that_only_waits_says_who_it_is_once(
    kind: str, clients: ClientFactory, redis: Redis
) -> None:
    holder, waiter = clients(), clients()

    def get(client: Redisson) -> Any:
        if kind == "write_lock":
            return client.get_read_write_lock("k").write_lock()
        if kind == "semaphore":
            return client.get_semaphore("semaphore", 1)
        return getattr(client, f"get_{kind}")("k")

    described = f"redisson_py:client:{waiter.id}"
    async with get(holder):
        assert not await redis.exists(described)
        assert await get(waiter).try_acquire() is None
        # Who does not wait is nobody that others must know.
        assert not await redis.exists(described)
        assert await get(waiter).try_acquire(timeout=0.5) is None
        assert await redis.exists(described)
        # What is still fresh is not written again.
        await redis.delete(described)
        assert await get(waiter).try_acquire(timeout=0.5) is None
        assert not await redis.exists(described)


async def test_a_waiter_with_short_leases_is_known_until_its_next_look(
    clients: ClientFactory, redis: Redis
) -> None:
    holder, waiter = clients(), clients(lease_time=0.1)
    async with holder.get_lock("k"), waits(waiter.get_lock("k")):
        left = await redis.pttl(f"redisson_py:client:{waiter.id}")
        # A safety poll takes up to one and a half times as long.
        assert left > 1.5 * SAFETY_POLL * 1000


async def test_a_queue_in_which_nobody_waits_is_a_leak(
    clients: ClientFactory, redis: Redis, server_url: str, one_server: None
) -> None:
    holder, waiter = clients(), clients()
    note = f">{waiter.id}:fenced"
    with redis_py.Redis.from_url(server_url) as server:
        async with holder.get_lock("k"), waits(waiter.get_lock("k")):
            # Somebody waits, or was killed a moment ago: it is described.
            assert left_waiting([server]) == []
            await redis.zadd(QUEUE, {GHOST: 1, note: -1})
            left = [entry.decode() for _, entry in left_waiting([server])]
            await redis.zrem(QUEUE, GHOST, note)
    assert left == [note, GHOST]
