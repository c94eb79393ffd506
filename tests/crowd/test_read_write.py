"""Both sides of a read-write lock in one queue of clients."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from redisson_py import Lease, LeaseLostError, Redisson
from redisson_py.locks.read_write_lock import Prefer, ReadLock, WriteLock
from tests.crowd.queue_look import members, until_in_queue, until_nobody_is_left
from tests.fixtures.client import ClientFactory
from tests.support.waiting import until

pytestmark = [pytest.mark.heart, pytest.mark.timeout(120)]

#: Seconds in which everybody must have come who needs no safety poll.
SOON = 60


def side_of(client: Redisson, side: str, prefer: Prefer = "readers") -> ReadLock | WriteLock:
    both = client.get_read_write_lock("k", prefer=prefer)
    return both.read_lock() if side == "read" else both.write_lock()


async def queued(
    clients: ClientFactory, redis: Redis, sides: str, prefer: Prefer = "readers"
) -> list[asyncio.Task[Lease]]:
    """Have clients wait in this order: `r` to read, `w` to write."""
    tasks = []
    for each in sides:
        before = len(await members(redis))
        side = side_of(clients(), "read" if each == "r" else "write", prefer)
        tasks.append(asyncio.create_task(side.acquire()))
        await until_in_queue(redis, before + 1)
    return tasks


async def served(*tasks: asyncio.Task[Lease]) -> None:
    """Have all of them come, in any order, and let go."""
    async with asyncio.timeout(SOON):
        for each in asyncio.as_completed(tasks):
            await (await each).release()


@pytest.mark.usefixtures("nobody_is_passed_over")
async def test_a_writer_that_is_the_first_is_called_alone(
    clients: ClientFactory, client: Redisson, redis: Redis
) -> None:
    lease = await side_of(client, "write").acquire()
    first, *others = await queued(clients, redis, "wrrwr")
    await asyncio.sleep(0.03)  # after this newcomers do not come first
    await lease.release()
    held = await first
    await asyncio.sleep(0.1)
    assert not any(each.done() for each in others)
    await held.release()
    await served(*others)
    await until_nobody_is_left(redis)


@pytest.mark.usefixtures("nobody_is_passed_over")
async def test_a_reader_that_is_the_first_is_called_with_all_readers(
    clients: ClientFactory, client: Redisson, redis: Redis
) -> None:
    lease = await side_of(client, "write").acquire()
    tasks = await queued(clients, redis, "rrwrw")
    await asyncio.sleep(0.03)
    await lease.release()
    async with asyncio.timeout(SOON):
        reading = [await tasks[each] for each in (0, 1, 3)]
    assert [tasks[each].done() for each in (2, 4)] == [False, False]
    for each in reading:
        await each.release()
    await served(tasks[2], tasks[4])
    await until_nobody_is_left(redis)


async def test_a_reader_that_finds_the_lock_free_brings_the_others(
    clients: ClientFactory, client: Redisson, redis: Redis
) -> None:
    """The writer died: only the first two of the queue look when its lease ends."""
    await side_of(client, "write").acquire(lease_time=1)
    tasks = await queued(clients, redis, "r" * 8)
    async with asyncio.timeout(SOON):
        held = [await each for each in tasks]
    for each in held:
        await each.release()
    await until_nobody_is_left(redis)


@pytest.mark.parametrize("how", ["downgrade", "force", "expired"])
async def test_readers_of_one_client_come_together(
    clients: ClientFactory, client: Redisson, redis: Redis, how: str
) -> None:
    write, read = side_of(client, "write"), side_of(client, "read")
    await write.acquire(lease_time=1 if how == "expired" else None)
    reader = side_of(clients(), "read")
    tasks = [asyncio.create_task(reader.acquire()) for _ in range(20)]
    await until_in_queue(redis, 1)
    await until(lambda: reader.statistics().waiters == 20)
    if how == "downgrade":
        await read.acquire()
        await write.release()
    elif how == "force":
        await write.force_release()
    async with asyncio.timeout(SOON):
        held = [await each for each in tasks]
    for each in held:
        await each.release()
    await until_nobody_is_left(redis)
    if how == "downgrade":
        await read.release()


@pytest.mark.parametrize("left", [0, 1, 18])
async def test_readers_of_one_client_go_on_waiting_when_some_leave(
    clients: ClientFactory, client: Redisson, redis: Redis, left: int
) -> None:
    await side_of(client, "write").acquire(lease_time=1)
    reader = side_of(clients(), "read")
    tasks = [asyncio.create_task(reader.acquire()) for _ in range(20)]
    await until_in_queue(redis, 1)
    await until(lambda: reader.statistics().waiters == 20)
    for each in (tasks[left], *tasks[:left]):
        each.cancel()
    remain = [each for each in tasks if not each.cancelling()]
    async with asyncio.timeout(SOON):
        held = [await each for each in remain]
    for one in held:
        await one.release()
    await until_nobody_is_left(redis)


async def test_a_reader_that_need_not_wait_leaves_nothing_of_one_that_gave_up(
    clients: ClientFactory, client: Redisson, redis: Redis
) -> None:
    """Both are of one client, and only one of them stood in the queue."""
    lease = await side_of(client, "write").acquire(lease_time=30)
    waiter = clients()
    waiting = asyncio.create_task(side_of(waiter, "read").acquire())
    await until_in_queue(redis, 1)
    await redis.delete("k")
    comes = asyncio.create_task(side_of(waiter, "read").acquire(timeout=SOON))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    if not waiting.cancelled():
        # It has looked meanwhile.
        await waiting.result().release()
    await (await comes).release()
    await until_nobody_is_left(redis)
    with pytest.raises(LeaseLostError):
        await lease.release()
