"""The scripts of a semaphore whose permits have ids, with the usual values."""

from __future__ import annotations

from typing import Any

from redisson_py import _keys
from redisson_py._redis.scripts.source import Arg
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

    async def acquire(self, ids: bytes, *, units: Arg | None = None, **more: Arg) -> int | None:
        """Ask for permits with these ids, one after the other in `ids`."""
        more |= {"ids": ids, "units": len(ids) // 16 if units is None else units}
        reply: int | None = await self.run("acquire", tombstone=self.tombstone(ids), **more)
        return reply

    async def release(
        self,
        ids: bytes,
        client: str = "client-a",
        *,
        units: Arg | None = None,
        calls: Arg | None = 0,
        batch: bytes | None = None,
        **more: Arg,
    ) -> int | None:
        """Give back those that are there."""
        more |= {"ids": ids, "units": len(ids) // 16 if units is None else units}
        more["tombstone"] = self.tombstone(batch or ids)
        reply: int | None = await self.change("release", client, calls, **more)
        return reply

    async def undo(self, ids: bytes, batch: bytes | None = None) -> int | None:
        """Give everything back and refuse what comes late, as an abandoned acquire does."""
        return await self.release(ids, tombstone_ms=TOMBSTONE, batch=batch)

    async def release_all(
        self, ids: bytes, client: str = "client-a", *, units: Arg | None = None, **more: Arg
    ) -> int:
        """Give back all of them or none."""
        more |= {"ids": ids, "units": len(ids) // 16 if units is None else units}
        return int(await self.change("release_all", client, **more))

    async def add(self, units: Arg, client: str = "client-a", **more: Arg) -> int:
        """Add units."""
        return int(await self.change("add", client, units=units, **more))

    async def set(self, units: Arg, client: str = "client-a", **more: Arg) -> int:
        """Make the semaphore, or give an existing one so many units."""
        return int(await self.change("set", client, units=units, **more))

    async def available(self, reclaims: Arg = RECLAIMS) -> list[int]:
        """Read how many are available and how many taken."""
        found: list[int] = await self.run("available", reclaims=reclaims)
        return found

    async def update_lease(self, permit: bytes, lease_ms: Arg = LEASE, **more: Arg) -> int:
        """Set what is left of the lease of anybody's permit."""
        more |= {"id": permit, "lease_ms": lease_ms, "version_key": self.version_key(permit)}
        return int(await self.run("update_lease", **more))

    async def lease_left(self, permit: bytes) -> int:
        """Read what is left of the lease of anybody's permit."""
        return int(await self.run("lease_left", id=permit))

    async def inspect(self, holders: Arg = 100) -> list[Any]:
        """Read which permits there are."""
        free, total, words, *rows = await self.run("inspect", holders=holders)
        assert words == len(rows), "nobody waits"
        return [free, total, *rows]

    async def ids(self) -> frozenset[bytes]:
        """Return the ids of the permits that are taken."""
        return frozenset(await ask(self.redis, "ZRANGE", self.permits, 0, -1))
