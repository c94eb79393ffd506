"""This library."""

from __future__ import annotations

from benchmarks.rivals.side import LONG_LEASE, TaskSide
from redisson_py import Lease, Redisson, RLock


class Ours(TaskSide):
    """One client, one connection, default options: every lock is renewed by the watchdog."""

    renewed_after = 1 / 3

    async def open(self, url: str) -> None:
        """Make a client and connect."""
        self._url = url
        self.client = Redisson.from_url(url)
        self._renewing: Redisson | None = None
        self._leases: list[Lease] = []
        await self.client.ping()

    async def close(self) -> None:
        """Close the client."""
        await self.client.aclose()

    def lock(self, name: str) -> RLock:
        """Return a reentrant lock."""
        return self.client.get_lock(name)

    async def hold(self, name: str) -> None:
        """Acquire without renewal."""
        self._leases.append(await self.client.get_lock(name).acquire(lease_time=LONG_LEASE))

    async def hold_renewed(self, name: str, lease: float) -> None:
        """Acquire from a client whose watchdog has this lease."""
        if self._renewing is None:
            self._renewing = Redisson.from_url(self._url, lease_time=lease)
        self._leases.append(await self._renewing.get_lock(name).acquire())

    async def ping(self) -> None:
        """Make one round trip."""
        await self.client.ping()
