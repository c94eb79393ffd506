"""This library."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from time import perf_counter
from typing import Any, ClassVar

from benchmarks.rivals import kinds
from benchmarks.rivals.side import LONG_LEASE, TaskSide
from redisson_py import Lease, Redisson, RLock


class Ours(TaskSide):
    """One client, one connection, default options: every lock is renewed by the watchdog."""

    renewed_after = 1 / 3
    options: ClassVar[dict[str, Any]] = {}

    async def open(self, url: str) -> None:
        """Make a client for each URL and connect."""
        self._url = url
        # A URL may name several servers.
        urls = re.split(r",(?=[a-z+]+://)", url)
        self.url = urls[0]
        self.clients = [Redisson.from_url(one, **self.options) for one in urls]
        self.client = self.clients[0]
        self._renewing: Redisson | None = None
        self._leases: list[Lease] = []
        for client in self.clients:
            await client.ping()

    async def close(self) -> None:
        """Close the clients."""
        for client in self.clients:
            await client.aclose()

    def lock(self, name: str) -> RLock:
        """Return a reentrant lock."""
        return self.client.get_lock(name)

    def made(self, kind: str, name: str) -> AbstractAsyncContextManager[Any]:
        """Return any primitive; a red lock is of all servers, the others are of the first."""
        if kind == kinds.RED:
            return self.client.get_red_lock(*[client.get_lock(name) for client in self.clients])
        return kinds.make(self.client, kind, name)

    async def pairs(self, name: str, end: float, kind: str = kinds.LOCK) -> int:
        """As every side, by the line that a user writes: each pair gets its lock by its name."""
        get = kinds.getter(self.client, kind)
        done = 0
        while not done or perf_counter() < end:
            async with get(name):
                done += 1
        return done

    async def limiter(self, name: str, rate: int, per: float) -> Callable[[], Awaitable[object]]:
        """Return its call that waits."""
        return self.client.get_rate_limiter(name, rate, per).acquire

    async def hold(self, name: str) -> None:
        """Acquire without renewal."""
        self._leases.append(await self.client.get_lock(name).acquire(lease_time=LONG_LEASE))

    async def take(self, kind: str, name: str) -> None:
        """As `hold`, of another kind; permits are renewed, so this process must live."""
        if kind == kinds.SEMAPHORE:
            semaphore = self.client.get_semaphore(name, kinds.PERMITS)
            self._leases.append(await semaphore.acquire(kinds.PERMITS))
        else:
            assert kind == kinds.FAIR
            lock = self.client.get_fair_lock(name)
            self._leases.append(await lock.acquire(lease_time=LONG_LEASE))

    async def hold_renewed(self, name: str, lease: float) -> None:
        """Acquire from a client whose watchdog has this lease."""
        if self._renewing is None:
            self._renewing = Redisson.from_url(self._url, lease_time=lease)
        self._leases.append(await self._renewing.get_lock(name).acquire())

    async def ping(self) -> None:
        """Make one round trip."""
        await self.client.ping()

    async def keep(self, name: str) -> Callable[[], Awaitable[bool]]:
        """Hold `name`; return what says whether Redis still agrees."""
        lock = self.client.get_lock(name)
        lease = await lock.acquire()
        owner = lease.owner

        async def is_held() -> bool:
            return any(holder.owner == owner for holder in (await lock.inspect()).holders)

        self._leases.append(lease)
        return is_held

    async def lend(self, name: str) -> Callable[[], Awaitable[object]]:
        """Hold `name` in another client until what is returned is called."""
        client = Redisson.from_url(self.url, **self.options)
        self.clients.append(client)
        lease = await client.get_lock(name).acquire()
        return lease.release

    @property
    def reported(self) -> int:
        """How many of all leases here were said to be lost."""
        return sum(lease.lost for lease in self._leases)


class OursUnsynced(Ours):
    """The same; no replica confirms anything."""

    options: ClassVar[dict[str, Any]] = {"sync_replicas": 0}
