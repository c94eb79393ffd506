"""What the tests of read-write locks need."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

from redisson_py import Lease, ReadLock, Redisson, WriteLock
from redisson_py._keys import Name
from redisson_py.locks.lock_like import LockLike
from redisson_py.locks.read_write_lock import ReadWriteLock
from tests.support.waiting import until


def read_write_lock(client: Redisson, name: Name = "k") -> ReadWriteLock:
    """Return the read-write lock `name` of a client."""
    return ReadWriteLock(client._context, name)


def whole(side: ReadLock | WriteLock) -> ReadWriteLock:
    """Return the lock that this is a side of."""
    return ReadWriteLock(side._context, side.name)


async def all_asleep(lock: ReadWriteLock, count: int) -> None:
    """Return when so many tasks of this lock's client wait, and none for an answer."""
    context = lock.read_lock()._context
    # One that watches all releases has a second seat.
    await until(
        lambda: (
            context.registry.waiting + context.waiters.total() == count
            and context.bus.table.seats >= count
            and not context.pending
        )
    )


async def fields(redis: Redis, name: str = "k") -> dict[str, str]:
    """Return the hash of a lock."""
    found: Any = await redis.hgetall(name)
    return {field.decode(): value.decode() for field, value in found.items()}


@dataclass
class Held:
    """A lock that another task holds, until it is told to let go."""

    lease: Lease
    may_go: asyncio.Event
    task: asyncio.Task[None]

    async def let_go(self) -> None:
        """Have it released; errors of the release are raised here."""
        self.may_go.set()
        await self.task


async def held_by_another_task(lock: LockLike, **options: float) -> Held:
    """Have a task of its own hold a lock, with the options of `acquire`."""
    may_go = asyncio.Event()
    got: asyncio.Future[Lease] = asyncio.get_running_loop().create_future()

    async def hold() -> None:
        try:
            got.set_result(await lock.acquire(timeout=10, **options))
        except BaseException as error:
            got.set_exception(error)
            return
        await may_go.wait()
        await lock.release()

    task = asyncio.create_task(hold())
    return Held(await got, may_go, task)
