"""`prefer="writers"`: a writer that waits keeps new readers out, in all processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import AcquireTimeoutError, Lease, Redisson
from redisson_py._keys import waiting_writers
from redisson_py._redis.commands import read_write_lock
from redisson_py.locks.read_write_lock import Prefer, ReadWriteLock
from tests.fixtures.client import ClientFactory
from tests.primitives.read_write import all_asleep, held_by_another_task
from tests.support.streams import stream_of
from tests.support.waiting import set_safety_poll, until, until_async

WRITERS = waiting_writers(b"k").decode()


def preferring(client: Redisson, prefer: Prefer = "writers") -> ReadWriteLock:
    return client.get_read_write_lock("k", prefer=prefer)


@pytest.fixture
def lock(client: Redisson) -> ReadWriteLock:
    """One lock."""
    return preferring(client)


@pytest.fixture
def far(clients: ClientFactory) -> ReadWriteLock:
    """The same lock for another client."""
    return preferring(clients())


@pytest.fixture
def only_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A waiter that is not woken sleeps for longer than any test waits."""
    set_safety_poll(monkeypatch, 1000)
    monkeypatch.setattr(read_write_lock, "WRITER_ALIVE_SECONDS", 3000.0)


async def waiting(redis: Redis) -> int:
    return int(await redis.zcard(WRITERS))


async def entries(redis: Redis) -> list[tuple[bytes, float]]:
    """Return the writers that wait, and until when each counts as alive."""
    found: Any = await redis.zrange(WRITERS, 0, -1, withscores=True)
    return [(bytes(owner), float(until_ms)) for owner, until_ms in found]


@asynccontextmanager
async def waiting_writer(
    lock: ReadWriteLock, redis: Redis, timeout: float | None = None
) -> AsyncIterator[asyncio.Task[Lease]]:
    """Have a task wait to write; it is cancelled at the end if it still waits."""
    count = await waiting(redis)
    task = asyncio.create_task(lock.write_lock().acquire(timeout=timeout))

    async def is_waiting() -> bool:
        return await waiting(redis) > count

    await until_async(is_waiting)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.parametrize("prefer", ["writers", "readers"])
async def test_readers_that_come_later_wait_for_a_writer_if_it_is_preferred(
    client: Redisson, clients: ClientFactory, redis: Redis, prefer: Prefer
) -> None:
    near, far = preferring(client, prefer), preferring(clients(), prefer)
    keys = ("k", WRITERS) if prefer == "writers" else ("k",)
    assert (await near.inspect()).keys == keys
    first = await held_by_another_task(far.read_lock())
    async with waiting_writer(preferring(client), redis) as writer, asyncio.timeout(30):
        for lock in (near, far, preferring(clients(), prefer)):
            read = await lock.read_lock().try_acquire()
            assert (read is None) == (prefer == "writers")
            if read is not None:
                await read.release()
        if prefer == "writers":
            reader = asyncio.create_task(held_by_another_task(far.read_lock()))
            await all_asleep(far, 1)
        await first.let_go()
        await (await writer).release()
        if prefer == "writers":
            await (await reader).let_go()


@pytest.mark.usefixtures("only_messages")
@pytest.mark.parametrize("how", ["times out", "is cancelled", "closes"])
@pytest.mark.more
async def test_readers_come_in_when_a_writer_leaves(
    clients: ClientFactory, far: ReadWriteLock, redis: Redis, how: str
) -> None:
    client = clients()
    async with far.read_lock():
        timeout = 2 if how == "times out" else None
        async with waiting_writer(preferring(client), redis, timeout) as writer:
            reader = asyncio.create_task(held_by_another_task(far.read_lock()))
            await all_asleep(far, 1)
            if how == "is cancelled":
                writer.cancel()
            elif how == "closes":
                await client.aclose()
            else:
                with pytest.raises(AcquireTimeoutError):
                    await writer
            async with asyncio.timeout(30):
                await (await reader).let_go()
        assert await waiting(redis) == 0


@pytest.mark.usefixtures("only_messages")
async def test_the_last_reader_wakes_the_writer_among_readers_that_wait(
    client: Redisson, lock: ReadWriteLock, redis: Redis
) -> None:
    """One message wakes one waiter; it must not be lost on a reader that yields."""
    first = await held_by_another_task(lock.read_lock())
    async with waiting_writer(lock, redis) as writer:
        readers = [asyncio.create_task(held_by_another_task(lock.read_lock())) for _ in range(3)]
        table = lock.read_lock()._context.bus.table
        await until(lambda: table.seats == 4 and not stream_of(client).waiting)
        async with asyncio.timeout(30):
            await first.let_go()
            await (await writer).release()
            for reader in readers:
                await (await reader).let_go()


@pytest.mark.more
async def test_a_writer_that_waits_keeps_its_position(
    lock: ReadWriteLock, far: ReadWriteLock, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_write_lock, "WRITER_ALIVE_SECONDS", 3.0)
    async with far.read_lock(), waiting_writer(lock, redis):
        ((owner, first),) = await entries(redis)

        async def is_later() -> bool:
            ((same, score),) = await entries(redis)
            assert same == owner
            return score > first + 2000

        await until_async(is_later)
        reader = asyncio.create_task(far.read_lock().try_acquire())
        assert await reader is None


async def test_a_holder_reenters_while_a_writer_waits(
    lock: ReadWriteLock, far: ReadWriteLock, redis: Redis
) -> None:
    async with far.read_lock(), waiting_writer(lock, redis):
        async with far.read_lock(), far.read_lock().hold(timeout=0):
            assert await far.read_lock().hold_count() == 3
    async with far.write_lock(), waiting_writer(lock, redis):
        async with far.read_lock().hold(timeout=0):
            assert await far.read_lock().owned()


async def test_as_members_of_a_multi_lock(
    client: Redisson, lock: ReadWriteLock, far: ReadWriteLock, redis: Redis
) -> None:
    both = client.get_multi_lock(lock.write_lock(), client.get_lock("other"))
    first = await held_by_another_task(far.read_lock())
    taking = asyncio.create_task(both.acquire())

    async def is_waiting() -> bool:
        return await waiting(redis) == 1

    await until_async(is_waiting)
    await first.let_go()
    await (await taking).release()
    assert await waiting(redis) == 0


async def test_another_word_is_refused(client: Redisson) -> None:
    with pytest.raises(ValueError, match="'readers' or 'writers', not 'nobody'"):
        client.get_read_write_lock("k", prefer="nobody")  # type: ignore[arg-type]
