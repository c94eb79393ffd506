"""The two sides of one read-write lock, as Java and as Python have them."""

from __future__ import annotations

import asyncio
from typing import Any

from redis.asyncio import Redis

from redisson_py import Redisson
from tests.interop.java import JavaObject
from tests.interop.same_steps import JavaLocks, OurLocks
from tests.interop.tasks import Tasks
from tests.interop.waits import until_asleep
from tests.support.waiting import until_listening, until_waiting

CHANNEL = "redisson_rwlock:{k}"
#: Seconds: who gets in sooner than this was told, as leases are longer.
SOON = 60


async def java_sides(redisson: JavaObject) -> JavaLocks:
    """Return both sides of the lock `k` of a Redisson client."""
    both = await redisson.get("getReadWriteLock", "k")
    return JavaLocks(read=await both.get("readLock"), write=await both.get("writeLock"))


def our_sides(client: Redisson, tasks: Tasks) -> OurLocks:
    """Return both sides of the lock `k` of a client of ours."""
    both = client.get_read_write_lock("k")
    return OurLocks(tasks, read=both.read_lock(), write=both.write_lock())


class Shared:
    """The lock `k` of one client on each side.

    Attributes:
        java: Redisson's.
        ours: Ours.
    """

    def __init__(self, redis: Redis, java: JavaLocks, client: Redisson, tasks: Tasks) -> None:
        self.redis = redis
        self.java = java
        self.ours = our_sides(client, tasks)
        self._client = client

    def sides(self, ours_first: bool) -> tuple[JavaLocks | OurLocks, JavaLocks | OurLocks]:
        """Return both, in that order."""
        return (self.ours, self.java) if ours_first else (self.java, self.ours)

    async def waiting(
        self, locks: JavaLocks | OurLocks, who: str, side: str
    ) -> asyncio.Future[Any]:
        """Have somebody wait; return when it sleeps, and nobody else of its client did."""
        assert not await locks.acquire(who, side)
        found = locks.wait(who, None, side)
        if locks is self.java:
            await until_asleep(self.java.lock(side), who)
        else:
            await until_waiting(self._client, 1)
            await until_listening(self._client)
        return found

    async def fields(self) -> dict[str, str]:
        """Return the hash in Redis."""
        found: Any = await self.redis.hgetall("k")
        return {field.decode(): value.decode() for field, value in found.items()}

    async def left(self) -> float:
        """Return the seconds that Redis keeps the lock."""
        return await self.redis.pttl("k") / 1000


async def gets_in(waiting: asyncio.Future[Any]) -> None:
    """Return when who waits has got it."""
    async with asyncio.timeout(SOON):
        await waiting
