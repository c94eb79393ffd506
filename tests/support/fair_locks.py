"""Fair locks under test, and their state in Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from redis.asyncio import Redis

from redisson_py import FairLock, Redisson
from redisson_py.testing import FaultProxy
from tests.support.scripts.calls import Scripts
from tests.support.scripts.fair import FairScripts
from tests.support.waiting import until_async

T = TypeVar("T")

#: A thread of Redisson, which the tests play themselves: see `FairScripts`.
JAVA = "0a1b2c3d-4e5f-4071-8293-a4b5c6d7e8f9:31"


def fair_lock(client: Redisson, name: str = "k", *, reentrant: bool = True) -> FairLock:
    """Return a fair lock of a client."""
    return client.get_fair_lock(name, reentrant=reentrant)


async def server_side(redis: Redis, name: str = "k") -> FairScripts:
    """Return the same lock as Redis has it and as Redisson uses it."""
    return FairScripts(await Scripts.on(redis), name.encode())


async def until_queued(fair: FairScripts, count: int) -> None:
    """Return when this many owners wait."""

    async def as_many() -> bool:
        return len(await fair.queued()) == count

    # A process starts slowly on a busy machine.
    await until_async(as_many, 30)


async def one_by_one(fair: FairScripts, *working: Coroutine[Any, Any, T]) -> list[asyncio.Task[T]]:
    """Start each when the one before it waits in the queue."""
    tasks: list[asyncio.Task[T]] = []
    before = len(await fair.queued())
    for each in working:
        tasks.append(asyncio.create_task(each))
        await until_queued(fair, before + len(tasks))
    return tasks


async def nothing_left(fair: FairScripts) -> bool:
    """Return whether Redis has forgotten the lock and its queue."""
    keys = [fair.key, fair.queue, fair.timeouts, fair.waiters]
    return not await fair.redis.exists(*keys)


def die(link: FaultProxy) -> None:
    """Cut the client behind a proxy off without a message, as if its process was killed."""
    link.refuse()
    link.cut()
