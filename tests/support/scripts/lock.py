"""The scripts of one lock, plain or fenced, with the usual values."""

from __future__ import annotations

from typing import Any

from redisson_py import _keys
from redisson_py._redis.scripts.source import Arg
from tests.support.scripts.calls import LEASE, TOMBSTONE, A, Scripts, ask


class LockScripts:
    """The scripts of one lock, plain or fenced; more arguments are named as in their headers."""

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

    def receipt(self, request: str = "r1") -> bytes:
        """Return the key of the receipt of one forced release."""
        return _keys.suffixed(self.key, b"receipt:" + request.encode())

    def known(self, owner: str) -> dict[str, Arg]:
        """Return what scripts are told of this lock and of an owner."""
        return {
            "lock": self.key,
            "tombstone": self.tombstone(owner),
            "version_key": _keys.version_key(self.key, owner),
            "token": self.token_key,
            "clients": self.clients,
            "channel": self.channel,
            "owner": owner,
        }

    async def run(self, name: str, owner: str = A, **values: Arg) -> Any:
        """Run a script for an owner."""
        return await self.scripts.run(name, self.known(owner), **values)

    async def acquire(
        self,
        owner: str = A,
        holds: Arg = 1,
        lease_ms: Arg = LEASE,
        tokens: Arg = 4,
        **more: Arg,
    ) -> int | None:
        """Ask for a hold; None is granted, everything else as in the header of lock.acquire."""
        more |= {"holds": holds, "lease_ms": lease_ms}
        if not self.fenced:
            reply: int | None = await self.run("lock.acquire", owner, **more)
            return reply
        code, value = await self.run("fenced_lock.acquire", owner, tokens=tokens, **more)
        answer: int | None = {1: None, 0: value}.get(code, code)
        return answer

    async def acquire_fenced(
        self,
        owner: str = A,
        holds: Arg = 1,
        lease_ms: Arg = LEASE,
        tokens: Arg = 4,
        **more: Arg,
    ) -> list[int]:
        """Ask for a hold with tokens; the reply as in the header of fenced_lock.acquire."""
        more |= {"holds": holds, "lease_ms": lease_ms, "tokens": tokens}
        reply: list[int] = await self.run("fenced_lock.acquire", owner, **more)
        return reply

    async def release(
        self,
        owner: str = A,
        holds: Arg = 0,
        lease_ms: Arg = LEASE,
        tombstone_ms: Arg = 0,
        **more: Arg,
    ) -> int | None:
        """Fall to a hold count."""
        more |= {"holds": holds, "lease_ms": lease_ms, "tombstone_ms": tombstone_ms}
        reply: int | None = await self.run("lock.release", owner, **more)
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

    async def renew_fenced(self, owner: str = A, lease_ms: Arg = LEASE, *, idle_ms: Arg) -> int:
        """Renew this one fenced lock, and its counter of tokens."""
        keys = [self.key, self.token_key]
        (renewed,) = await self.scripts.run_batch(
            "fenced_lock.renew", keys, [owner], lease_ms=lease_ms, idle_ms=idle_ms
        )
        return int(renewed)

    async def set_lease(self, owner: str = A, lease_ms: Arg = LEASE, **more: Arg) -> int:
        """Set what is left of the lease."""
        return int(await self.run("lock.set_lease", owner, lease_ms=lease_ms, **more))

    async def set_lease_fenced(self, owner: str = A, lease_ms: Arg = LEASE, **more: Arg) -> int:
        """Set what is left of the lease, and let the counter of tokens outlive it."""
        return int(await self.run("fenced_lock.set_lease", owner, lease_ms=lease_ms, **more))

    async def hand_over(
        self, owner: str = A, lease_ms: Arg = LEASE, secret: Arg = "s", **more: Arg
    ) -> int:
        """Have a hold kept for whoever adopts it."""
        more |= {"lease_ms": lease_ms, "secret": secret, "tombstone_ms": TOMBSTONE}
        return int(await self.run("lock.hand_over", owner, **more))

    async def hand_over_fenced(self, owner: str = A, lease_ms: Arg = LEASE, **more: Arg) -> int:
        """Have a hold kept, and let the counter of tokens outlive it."""
        more |= {"lease_ms": lease_ms, "secret": "s", "tombstone_ms": TOMBSTONE}
        return int(await self.run("fenced_lock.hand_over", owner, **more))

    async def adopt(
        self, owner: str, giver: str = A, lease_ms: Arg = LEASE, until_ms: Arg = 1, **more: Arg
    ) -> int:
        """Ask for the hold of another owner."""
        more = {"secret": "s", **more, "lease_ms": lease_ms, "until_ms": until_ms}
        more |= {"adopted_ms": TOMBSTONE}
        adopted = self.tombstone(giver)
        return int(await self.run("lock.adopt", owner, giver=giver, adopted=adopted, **more))

    async def force_release(self, request: str = "r1", receipt_ms: Arg = TOMBSTONE) -> int:
        """Free the lock whoever has it."""
        receipt = self.receipt(request)
        return int(await self.run("lock.force_release", receipt=receipt, receipt_ms=receipt_ms))

    async def inspect(self) -> list[Any]:
        """Read the lock."""
        found: list[Any] = await self.run("lock.inspect")
        return found

    async def holds(self) -> dict[str, int]:
        """Return the hash: owners and hold counts."""
        found: dict[bytes, bytes] = await ask(self.redis, "HGETALL", self.key)
        return {owner.decode(): int(count) for owner, count in found.items()}

    async def left(self) -> int:
        """Return the milliseconds left of the lease."""
        return int(await ask(self.redis, "PTTL", self.key))
