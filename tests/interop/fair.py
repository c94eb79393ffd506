"""Java threads and Python tasks in one line for a fair lock."""

from __future__ import annotations

import asyncio
from typing import Any

from redisson_py import Redisson
from tests.interop.java import JavaObject
from tests.interop.same_steps import JavaLocks, OurLocks
from tests.interop.tasks import Tasks
from tests.support.fair_locks import until_queued
from tests.support.scripts.fair import FairScripts

#: Seconds: who gets in sooner than this was told; nobody asks so soon unasked.
SOON = 60
#: Of our clients: they ask every two hundred seconds.
LEASE = 600.0


async def java_fair(redisson: JavaObject) -> JavaLocks:
    """Return the lock `k` of a Redisson client."""
    return JavaLocks(lock=await redisson.get("getFairLock", "k"))


def our_fair(client: Redisson, tasks: Tasks) -> OurLocks:
    """Return the lock `k` of a client of ours."""
    return OurLocks(tasks, lock=client.get_fair_lock("k"))


class Visitor:
    """A thread or a task that wants the lock."""

    def __init__(self, locks: JavaLocks | OurLocks, who: str) -> None:
        self._locks = locks
        self.who = who
        self.waiting: asyncio.Future[Any]

    async def join(self, fair: FairScripts, seconds: float | None = None) -> None:
        """Begin to wait; return when Redis has it in the queue, as the last."""
        before = len(await fair.queued())
        self.waiting = self._locks.wait(self.who, seconds)
        await until_queued(fair, before + 1)

    async def gets_in(self) -> None:
        """Return when it has the lock."""
        async with asyncio.timeout(SOON):
            # Only a timed wait of Redisson's says no.
            assert await self.waiting is not False

    async def leaves(self) -> None:
        """Give the lock back."""
        assert await self._locks.release(self.who)


async def in_order(*visitors: Visitor) -> None:
    """Each gets in when the one before has left, and not before."""
    for number, visitor in enumerate(visitors, 1):
        await visitor.gets_in()
        assert not [each.who for each in visitors[number:] if each.waiting.done()]
        await visitor.leaves()
