"""Who waits for a lock: what snapshots say of it, and whose turn it is."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import FencedLock, LockSnapshot, Redisson, RLock
from redisson_py._engine import local_queue
from redisson_py._engine.waiting import SAFETY_POLL_SECONDS
from redisson_py._keys import permit_channel, read_write_channel
from redisson_py._time import now
from tests.fixtures.client import ClientFactory
from tests.lua.test_golden_vectors import listening
from tests.support.waiting import until_async

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
    pipeline.zadd(QUEUE, {each: index for index, each in enumerate(ids, 1)})
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
        assert left > 1.5 * SAFETY_POLL_SECONDS * 1000


@pytest.mark.parametrize(("pause", "rounds"), [(60.0, 1), (0.0, 5)])
async def test_a_head_start_that_nobody_took_is_not_offered_again_for_a_while(
    clients: ClientFactory, redis: Redis, monkeypatch: pytest.MonkeyPatch, pause: float, rounds: int
) -> None:
    """Who has waited listens for a moment longer than needed, and must not slow others down."""
    monkeypatch.setattr(local_queue, "YIELD_BACK_OFF_SECONDS", pause)
    lock = clients().get_read_write_lock("k").write_lock()
    queue = lock._ownership.queue
    assert queue is not None
    offered = 0
    async with listening(redis, read_write_channel(b"k")):
        for _ in range(5):
            async with lock:
                pass
            offered += queue.head_start is not None
    assert offered == rounds


async def test_a_head_start_that_has_ended_does_not_keep_a_semaphore_from_its_short_way(
    clients: ClientFactory, redis: Redis
) -> None:
    """The others heard of the release, and left; nobody may ever take that turn away."""
    semaphore = clients().get_semaphore("s", 2)
    ownership, loop, task = semaphore._ownership, asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    async with listening(redis, permit_channel(b"s")):
        async with semaphore:
            pass
    assert ownership.permit_queue.head_start is not None
    while ownership.permit_queue.is_ahead:
        await asyncio.sleep(0.001)
    begun = ownership.begin(loop, task)
    assert begun is not None
    ownership.abandon(begun[0])
    assert await semaphore.available() == 2
    assert await semaphore.delete()
