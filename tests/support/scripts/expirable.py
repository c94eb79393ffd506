"""The scripts of a semaphore whose permits have ids, with the usual values."""

from __future__ import annotations

from typing import Any

from redisson_py import _keys
from redisson_py._scripts.source import Arg
from tests.support.scripts.calls import LEASE, TOMBSTONE, Scripts, ask
from tests.support.scripts.permits import RECLAIMS, PermitScripts


class ExpirableScripts(PermitScripts):
    """A semaphore of permits with ids."""

    folder = "expirable_semaphore"
    permits_suffix = b"timeout"

    def __init__(self, scripts: Scripts, key: bytes = b"semaphore") -> None:
        super().__init__(scripts, key)

    def tombstone(self, ids: bytes) -> bytes:
        """Return the key that refuses a late acquire of a list of ids."""
        return _keys.suffixed(self.key, b"redisson_py:tombstone:" + ids[:16].hex().encode())

    async def acquire(
        self,
        ids: bytes,
        *,
        units: Arg | None = None,
        lease_ms: Arg = LEASE,
        start_units: Arg = -1,
        reclaims: Arg = RECLAIMS,
        idle_ms: Arg = 0,
        compares: Arg = 0,
        client: Arg = "",
        yields: Arg = 0,
    ) -> int | None:
        """Ask for permits with these ids, one after the other in `ids`."""
        reply: int | None = await self.run(
            "acquire",
            permits=self.permits,
            tombstone=self.tombstone(ids),
            ids=ids,
            units=len(ids) // 16 if units is None else units,
            lease_ms=lease_ms,
            start_units=start_units,
            reclaims=reclaims,
            channel=self.channel,
            idle_ms=idle_ms,
            compares=compares,
            client=client,
            yields=yields,
        )
        return reply

    async def release(
        self,
        ids: bytes,
        client: str = "client-a",
        *,
        units: Arg | None = None,
        tombstone_ms: Arg = 0,
        calls: Arg | None = 0,
        receipt_ms: Arg = TOMBSTONE,
        batch: bytes | None = None,
    ) -> int | None:
        """Give back those that are there."""
        reply: int | None = await self.run(
            "release",
            permits=self.permits,
            tombstone=self.tombstone(batch or ids),
            ids=ids,
            units=len(ids) // 16 if units is None else units,
            channel=self.channel,
            tombstone_ms=tombstone_ms,
            **self.receipted(client, calls, receipt_ms),
        )
        return reply

    async def undo(self, ids: bytes, batch: bytes | None = None) -> int | None:
        """Give everything back and refuse what comes late, as an abandoned acquire does."""
        return await self.release(ids, tombstone_ms=TOMBSTONE, batch=batch)

    async def release_all(
        self,
        ids: bytes,
        client: str = "client-a",
        *,
        units: Arg | None = None,
        calls: Arg | None = None,
        receipt_ms: Arg = TOMBSTONE,
        reclaims: Arg = RECLAIMS,
    ) -> int:
        """Give back all of them or none."""
        return int(
            await self.run(
                "release_all",
                permits=self.permits,
                ids=ids,
                units=len(ids) // 16 if units is None else units,
                reclaims=reclaims,
                channel=self.channel,
                **self.receipted(client, calls, receipt_ms),
            )
        )

    async def add(
        self,
        units: Arg,
        client: str = "client-a",
        *,
        calls: Arg | None = None,
        receipt_ms: Arg = TOMBSTONE,
    ) -> int:
        """Add units."""
        return int(
            await self.run(
                "add",
                permits=self.permits,
                units=units,
                channel=self.channel,
                **self.receipted(client, calls, receipt_ms),
            )
        )

    async def set(
        self,
        units: Arg,
        client: str = "client-a",
        *,
        replaces: Arg = 0,
        life_ms: Arg = 0,
        calls: Arg | None = None,
        receipt_ms: Arg = TOMBSTONE,
        reclaims: Arg = RECLAIMS,
    ) -> int:
        """Make the semaphore, or give an existing one so many units."""
        return int(
            await self.run(
                "set",
                permits=self.permits,
                units=units,
                replaces=replaces,
                life_ms=life_ms,
                reclaims=reclaims,
                channel=self.channel,
                **self.receipted(client, calls, receipt_ms),
            )
        )

    async def available(self, reclaims: Arg = RECLAIMS) -> list[int]:
        """Read how many are available and how many taken."""
        found: list[int] = await self.run(
            "available", permits=self.permits, reclaims=reclaims, channel=self.channel
        )
        return found

    async def update_lease(
        self,
        permit: bytes,
        lease_ms: Arg = LEASE,
        reclaims: Arg = RECLAIMS,
        *,
        version: Arg = 0,
        version_ms: Arg = 0,
        idle_ms: Arg = 0,
    ) -> int:
        """Set what is left of the lease of anybody's permit."""
        return int(
            await self.run(
                "update_lease",
                permits=self.permits,
                id=permit,
                lease_ms=lease_ms,
                reclaims=reclaims,
                channel=self.channel,
                idle_ms=idle_ms,
                **self.versioned(permit, version, version_ms),
            )
        )

    async def lease_left(self, permit: bytes, reclaims: Arg = RECLAIMS) -> int:
        """Read what is left of the lease of anybody's permit."""
        return int(
            await self.run(
                "lease_left",
                permits=self.permits,
                id=permit,
                reclaims=reclaims,
                channel=self.channel,
            )
        )

    async def inspect(self, holders: Arg = 100) -> list[Any]:
        """Read which permits there are."""
        free, total, words, *rows = await self.run("inspect", permits=self.permits, holders=holders)
        assert words == len(rows), "nobody waits"
        return [free, total, *rows]

    async def ids(self) -> frozenset[bytes]:
        """Return the ids of the permits that are taken."""
        return frozenset(await ask(self.redis, "ZRANGE", self.permits, 0, -1))
