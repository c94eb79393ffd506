"""Locks of both sides behind one face, and what differs after the same steps."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from redisson_py import LeaseLostError, NotHeldError, Redisson
from redisson_py.locks.lock import ServerLock
from tests.interop.java import MS, JavaError, JavaObject
from tests.interop.keyspace import Keyspace, Seen
from tests.interop.tasks import Tasks
from tests.support.kinds import CENTRAL, KINDS

Notes = dict[str, Seen]


class JavaLocks:
    """The locks of one name of Redisson, taken by named threads, without waiting or not."""

    def __init__(self, **locks: JavaObject) -> None:
        self._locks = locks

    def lock(self, side: str = "lock") -> JavaObject:
        """Return the lock, for what the others do not have."""
        return self._locks[side]

    async def acquire(self, who: str, side: str = "lock", lease: float | None = None) -> bool:
        lock = self._locks[side]
        if lease is None:
            return bool(await lock.call("tryLock", thread=who))
        return bool(await lock.call("tryLock", 0, round(lease * 1000), MS, thread=who))

    def wait(
        self, who: str, seconds: float | None = None, side: str = "lock"
    ) -> asyncio.Future[Any]:
        lock = self._locks[side]
        if seconds is None:
            return lock.call("lock", thread=who)
        return lock.call("tryLock", round(seconds * 1000), MS, thread=who)

    async def release(self, who: str, side: str = "lock") -> bool:
        try:
            await self._locks[side].call("unlock", thread=who)
        except JavaError as error:
            if error.kind != "IllegalMonitorStateException":
                raise
            return False
        return True

    async def force(self, side: str = "lock") -> bool:
        return bool(await self._locks[side].call("forceUnlock"))


class OurLocks:
    """The same of ours, taken by named tasks."""

    def __init__(self, tasks: Tasks, **locks: ServerLock) -> None:
        self._tasks = tasks
        self._locks = locks

    def lock(self, side: str = "lock") -> ServerLock:
        """Return the lock, for what the others do not have."""
        return self._locks[side]

    async def acquire(self, who: str, side: str = "lock", lease: float | None = None) -> bool:
        lock = self._locks[side]
        return bool(await self._tasks.call(who, lock.try_acquire, lease_time=lease))

    def wait(
        self, who: str, seconds: float | None = None, side: str = "lock"
    ) -> asyncio.Future[Any]:
        return self._tasks.call(who, self._locks[side].try_acquire, timeout=seconds)

    async def release(self, who: str, side: str = "lock") -> bool:
        try:
            await self._tasks.call(who, self._locks[side].release)
        except (NotHeldError, LeaseLostError):
            return False
        return True

    async def force(self, side: str = "lock") -> bool:
        freed = await self._locks[side].force_release()
        # What it has our own holder send goes before this.
        await self._locks[side].locked()
        return freed


def differences(java: Notes, ours: Notes) -> dict[str, Any]:
    """Return what differs, by note and key, Redisson's first."""
    assert java.keys() == ours.keys()
    found = {}
    for step, theirs in java.items():
        keys = theirs.keys() | ours[step].keys()
        pairs = {key: (theirs.get(key), ours[step].get(key)) for key in keys}
        different = {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}
        if different:
            found[step] = different
    return found


async def acquire_first(client: Redisson) -> None:
    """Acquire one of each kind, so that what only a client's first acquire sends is over.

    On Redis 6.2 that is a message which shows whether the user may publish.
    """
    for name in CENTRAL:
        async with KINDS[name].one(client):
            pass


#: Both have the same methods.
Locks = JavaLocks | OurLocks
Keyspaces = tuple[Keyspace, Keyspace]
Story = Callable[[Locks, Keyspace], Awaitable[Notes]]


async def both(
    story: Story, keyspaces: Keyspaces, java: JavaLocks, ours: OurLocks
) -> tuple[Notes, Notes]:
    """Have both sides take the same steps, each under a name of its own."""
    sides = story(java, keyspaces[0]), story(ours, keyspaces[1])
    theirs, mine = await asyncio.gather(*sides)
    return theirs, mine
