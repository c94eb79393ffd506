"""The scripts of a plain semaphore, and what both kinds share, with the usual values."""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis

from redisson_py import _keys
from redisson_py._redis.scripts.source import Arg
from tests.support.scripts.calls import LEASE, TOMBSTONE, A, Scripts, ask

RECLAIMS = 100

#: Redisson's score of a permit that never ends.
NEVER = 922337203685477


class PermitScripts:
    """What both kinds have in common: a counter, a sorted set beside it, a channel, receipts."""

    folder = ""
    permits_suffix = b""

    def __init__(self, scripts: Scripts, key: bytes) -> None:
        self.scripts = scripts
        self.redis: Redis = scripts.redis
        self.key = key
        self.channel = _keys.prefixed(b"redisson_sc", key)
        self.permits = _keys.suffixed(key, self.permits_suffix)
        self._calls: dict[str, int] = {}

    def known(self) -> dict[str, Arg]:
        """Return what scripts are told of this semaphore."""
        return {
            "counter": self.key,
            "permits": self.permits,
            "counts": self.side,
            "total": self.total,
            "clients": _keys.waiting_clients(self.key),
            "channel": self.channel,
        }

    async def run(self, verb: str, **values: Arg) -> Any:
        """Run a script of this folder."""
        return await self.scripts.run(f"{self.folder}.{verb}", self.known(), **values)

    async def change(self, verb: str, client: str, calls: Arg | None = None, **values: Arg) -> Any:
        """Run a script that leaves a receipt: the next call of a client, or an earlier one."""
        if calls is None:
            calls = self._calls[client] = self._calls.get(client, 0) + 1
        return await self.run(verb, calls=calls, receipt=self.receipt(client), **values)

    @property
    def total(self) -> bytes:
        """Return the key that notes how many permits a plain semaphore was given."""
        return _keys.suffixed(self.key, b"redisson_py:total")

    def receipt(self, client: str = "client-a") -> bytes:
        """Return the key of the receipt of a client."""
        return _keys.suffixed(self.key, b"redisson_py:receipt:" + client.encode())

    async def value(self) -> int | None:
        """Return Redisson's counter."""
        found = await self.redis.get(self.key)
        return None if found is None else int(found)

    async def start(self, units: int) -> None:
        """Make the semaphore as an old friend: without a script."""
        await self.redis.set(self.key, units)

    async def left(self, mark: bytes | str) -> float:
        """Return the milliseconds until a lease ends, below zero if it is over."""
        seconds, micros = await ask(self.redis, "TIME")
        score = await ask(self.redis, "ZSCORE", self.permits, mark)
        assert score is not None
        return float(score) - int(seconds) * 1000 - int(micros) // 1000

    async def end(self, *marks: bytes | str) -> None:
        """Let leases be over since long ago."""
        for mark in marks:
            assert await ask(self.redis, "ZADD", self.permits, "XX", "CH", 1000, mark) == 1

    async def renew(
        self, field: bytes | str, lease_ms: Arg = LEASE, *, idle_ms: Arg | None = None
    ) -> int:
        """Renew one lease; with `idle_ms` as a client that also says where the counter is."""
        fields: list[Any] = [field]
        keys = [self.permits] if idle_ms is None else [self.permits, self.key, self.side]
        (renewed,) = await self.scripts.run_batch(
            "permit.renew", keys, fields, lease_ms=lease_ms, idle_ms=idle_ms or 0
        )
        return int(renewed)

    @property
    def side(self) -> bytes:
        """Return the last key beside the counter that scripts of both kinds take."""
        return self.permits

    async def set_lease(self, field: bytes | str, lease_ms: Arg = LEASE, **more: Arg) -> int:
        """Set what is left of one lease."""
        more |= {"field": field, "lease_ms": lease_ms, "version_key": self.version_key(field)}
        return int(await self.scripts.run("permit.set_lease", self.known(), **more))

    def version_key(self, field: bytes | str) -> bytes:
        """Return the key that says which change of the hold of `field` was the last."""
        return _keys.version_key(self.key, field if isinstance(field, str) else field.hex())

    async def delete(self) -> None:
        """Remove the counter, as an operator does, and nothing beside it."""
        await self.redis.delete(self.key)


class SemaphoreScripts(PermitScripts):
    """A plain semaphore."""

    folder = "semaphore"
    permits_suffix = b"redisson_py:permits"

    def __init__(self, scripts: Scripts, key: bytes = b"semaphore") -> None:
        super().__init__(scripts, key)
        self.counts = _keys.suffixed(key, b"redisson_py:units")

    @property
    def side(self) -> bytes:
        """Return the units of the holders."""
        return self.counts

    def tombstone(self, owner: str = A) -> bytes:
        """Return the key that refuses a late acquire of `owner`."""
        return _keys.tombstone(self.key, owner)

    async def acquire(self, owner: str = A, units: Arg = 1, **more: Arg) -> int | None:
        """Ask for units."""
        more |= {"owner": owner, "units": units, "tombstone": self.tombstone(owner)}
        reply: int | None = await self.run("acquire", **more)
        return reply

    async def release(
        self, owner: str = A, units: Arg = 0, *, had: Arg = 1, **more: Arg
    ) -> int | None:
        """Fall to a number of units."""
        more |= {"owner": owner, "units": units, "had_units": had}
        more |= {"tombstone": self.tombstone(owner), "version_key": self.version_key(owner)}
        reply: int | None = await self.run("release", **more)
        return reply

    async def undo(self, owner: str = A) -> int | None:
        """Give everything back and refuse what comes late, as an abandoned acquire does."""
        return await self.release(owner, tombstone_ms=TOMBSTONE)

    async def add(
        self, units: Arg, client: str = "client-a", *, creates: Arg = 1, **more: Arg
    ) -> int | None:
        """Add units."""
        reply: int | None = await self.change("add", client, units=units, creates=creates, **more)
        return reply

    async def set(self, units: Arg, client: str = "client-a", **more: Arg) -> int:
        """Make the semaphore unless there is one, or with `replaces` set how many there are."""
        return int(await self.change("set", client, units=units, **more))

    async def remove(self, client: str = "client-a", **more: Arg) -> int:
        """Delete the semaphore by its script."""
        return int(await self.change("delete", client, **more))

    async def drain(self, client: str = "client-a", **more: Arg) -> int:
        """Take all that is available away."""
        return int(await self.change("drain", client, **more))

    async def available(self, reclaims: Arg = RECLAIMS) -> int:
        """Read what is available."""
        return int(await self.run("available", reclaims=reclaims))

    async def inspect(self, holders: Arg = 100) -> list[Any]:
        """Read who has what."""
        free, total, words, *rows = await self.run("inspect", holders=holders)
        assert words == len(rows), "nobody waits"
        return [free, total, *rows]

    async def held(self) -> dict[str, int]:
        """Return who has how many units; fails if the two side keys do not agree."""
        units: dict[bytes, bytes] = await ask(self.redis, "HGETALL", self.counts)
        owners: list[bytes] = await ask(self.redis, "ZRANGE", self.permits, 0, -1)
        assert {*units} == {*owners}
        return {owner.decode(): int(count) for owner, count in units.items()}
