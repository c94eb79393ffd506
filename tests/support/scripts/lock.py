"""The scripts of one lock, plain or fenced, with the usual values."""

from __future__ import annotations

from typing import Any

from redisson_py import _keys
from redisson_py._scripts.source import Arg
from tests.support.scripts.calls import LEASE, TOMBSTONE, A, Scripts, ask, versioned


class LockScripts:
    """The scripts of one lock, plain or fenced, with the values that most tests do not vary."""

    def __init__(self, scripts: Scripts, *, fenced: bool = False, key: bytes = b"k") -> None:
        self.scripts = scripts
        self.redis = scripts.redis
        self.fenced = fenced
        self.key = key
        self.channel = _keys.lock_channel(key)
        self.token_key = _keys.fencing_token(key)
        self.clients = _keys.waiting_clients(key)

    def tombstone(self, owner: str) -> bytes:
        """Return the key that refuses a late acquire of `owner`."""
        return _keys.tombstone(self.key, owner)

    def versioned(self, field: str, version: Arg, version_ms: Arg) -> dict[str, Arg]:
        """Return what says which change of the hold of `field` this is."""
        return versioned(self.key, field, version, version_ms)

    async def acquire(
        self,
        owner: str = A,
        holds: Arg = 1,
        lease_ms: Arg = LEASE,
        tokens: Arg = 4,
        *,
        version: Arg = 0,
        version_ms: Arg = 0,
    ) -> int | None:
        """Ask for a hold; None is granted, everything else as in the header of lock.acquire."""
        if not self.fenced:
            reply: int | None = await self.scripts.run(
                "lock.acquire",
                lock=self.key,
                tombstone=self.tombstone(owner),
                clients=self.clients,
                owner=owner,
                holds=holds,
                lease_ms=lease_ms,
                channel=self.channel,
                **self.versioned(owner, version, version_ms),
            )
            return reply
        code, value = await self.acquire_fenced(
            owner, holds, lease_ms, tokens, version=version, version_ms=version_ms
        )
        return {1: None, 0: value}.get(code, code)

    async def acquire_fenced(
        self,
        owner: str = A,
        holds: Arg = 1,
        lease_ms: Arg = LEASE,
        tokens: Arg = 4,
        *,
        version: Arg = 0,
        version_ms: Arg = 0,
        idle_ms: Arg = 0,
        client: Arg = "",
        yields: Arg = 0,
    ) -> list[int]:
        """Ask for a hold with tokens; the reply as in the header of fenced_lock.acquire."""
        reply: list[int] = await self.scripts.run(
            "fenced_lock.acquire",
            lock=self.key,
            tombstone=self.tombstone(owner),
            token=self.token_key,
            clients=self.clients,
            owner=owner,
            holds=holds,
            lease_ms=lease_ms,
            tokens=tokens,
            idle_ms=idle_ms,
            channel=self.channel,
            client=client,
            yields=yields,
            **self.versioned(owner, version, version_ms),
        )
        return reply

    async def release(
        self,
        owner: str = A,
        holds: Arg = 0,
        lease_ms: Arg = LEASE,
        tombstone_ms: Arg = 0,
        *,
        version: Arg = 0,
        version_ms: Arg = 0,
    ) -> int | None:
        """Fall to a hold count."""
        reply: int | None = await self.scripts.run(
            "lock.release",
            lock=self.key,
            tombstone=self.tombstone(owner),
            clients=self.clients,
            owner=owner,
            holds=holds,
            lease_ms=lease_ms,
            channel=self.channel,
            tombstone_ms=tombstone_ms,
            **self.versioned(owner, version, version_ms),
        )
        return reply

    async def undo(self, owner: str = A) -> int | None:
        """Give back the whole hold and refuse what comes late, as an abandoned acquire does."""
        return await self.release(owner, tombstone_ms=TOMBSTONE)

    async def renew(self, owner: str = A, lease_ms: Arg = LEASE) -> int:
        """Renew this one lock."""
        (renewed,) = await self.scripts.run_batch(
            "lock.renew", [self.key], [owner], lease_ms=lease_ms
        )
        return int(renewed)

    async def set_lease(
        self, owner: str = A, lease_ms: Arg = LEASE, *, version: Arg = 0, version_ms: Arg = 0
    ) -> int:
        """Set what is left of the lease."""
        return int(
            await self.scripts.run(
                "lock.set_lease",
                lock=self.key,
                clients=self.clients,
                owner=owner,
                lease_ms=lease_ms,
                channel=self.channel,
                **self.versioned(owner, version, version_ms),
            )
        )

    async def renew_fenced(self, owner: str = A, lease_ms: Arg = LEASE, *, idle_ms: Arg) -> int:
        """Renew this one fenced lock, and its counter of tokens."""
        keys = [self.key, self.token_key]
        (renewed,) = await self.scripts.run_batch(
            "fenced_lock.renew", keys, [owner], lease_ms=lease_ms, idle_ms=idle_ms
        )
        return int(renewed)

    async def set_lease_fenced(
        self,
        owner: str = A,
        lease_ms: Arg = LEASE,
        *,
        idle_ms: Arg,
        version: Arg = 0,
        version_ms: Arg = 0,
    ) -> int:
        """Set what is left of the lease, and let the counter of tokens outlive it."""
        return int(
            await self.scripts.run(
                "fenced_lock.set_lease",
                lock=self.key,
                clients=self.clients,
                token=self.token_key,
                owner=owner,
                lease_ms=lease_ms,
                channel=self.channel,
                idle_ms=idle_ms,
                **self.versioned(owner, version, version_ms),
            )
        )

    async def force_release(self, request: str = "r1", receipt_ms: Arg = TOMBSTONE) -> int:
        """Free the lock whoever has it."""
        return int(
            await self.scripts.run(
                "lock.force_release",
                lock=self.key,
                receipt=self.receipt(request),
                clients=self.clients,
                channel=self.channel,
                receipt_ms=receipt_ms,
            )
        )

    def receipt(self, request: str = "r1") -> bytes:
        """Return the key of the receipt of one forced release."""
        return _keys.suffixed(self.key, b"receipt:" + request.encode())

    async def inspect(self) -> list[Any]:
        """Read the lock."""
        found: list[Any] = await self.scripts.run(
            "lock.inspect", lock=self.key, clients=self.clients
        )
        return found

    async def holds(self) -> dict[str, int]:
        """Return the hash: owners and hold counts."""
        found: dict[bytes, bytes] = await ask(self.redis, "HGETALL", self.key)
        return {owner.decode(): int(count) for owner, count in found.items()}

    async def left(self) -> int:
        """Return the milliseconds left of the lease."""
        return int(await ask(self.redis, "PTTL", self.key))
