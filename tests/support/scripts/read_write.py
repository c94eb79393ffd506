"""The scripts of a read-write lock, with the values that most tests do not vary."""

from __future__ import annotations

from typing import Any, Literal

from redisson_py import _keys
from redisson_py._redis.scripts.source import Arg
from tests.support.scripts.calls import LEASE, TOMBSTONE, A, Scripts, ask

Side = Literal["read", "write"]

LONG = 1_000_000


class SideScripts:
    """One side of a read-write lock: what is asked and told is as in lock.*.

    Args:
        scripts: Where to run them.
        side: For reading or for writing.
        key: The lock.
    """

    def __init__(self, scripts: Scripts, side: Side, key: bytes = b"rw") -> None:
        self.scripts = scripts
        self.redis = scripts.redis
        self.side = side
        self.key = key
        self.channel = _keys.prefixed(b"redisson_rwlock", key)
        self.writers = _keys.waiting_writers(key)
        self.clients = _keys.waiting_clients(key)

    def field(self, owner: str = A) -> str:
        """Return what the hash calls an owner on this side."""
        return owner if self.side == "read" else owner + ":write"

    def tombstone(self, owner: str = A) -> bytes:
        """Return the key that refuses a late acquire of `owner` on this side."""
        return _keys.tombstone(self.key, self.field(owner))

    def receipt(self, request: str = "r1") -> bytes:
        """Return the key of the receipt of one forced release."""
        return _keys.suffixed(self.key, b"receipt:" + request.encode())

    async def run(self, verb: str, owner: str = A, **values: Arg) -> Any:
        """Run a script of this side for an owner."""
        known: dict[str, Arg] = {
            "lock": self.key,
            "tombstone": self.tombstone(owner),
            "version_key": _keys.version_key(self.key, self.field(owner)),
            "writers": self.writers,
            "clients": self.clients,
            "channel": self.channel,
            "owner": self.field(owner),
        }
        return await self.scripts.run(f"{self.side}_lock.{verb}", known, **values)

    async def acquire(
        self,
        owner: str = A,
        holds: Arg = 1,
        lease_ms: Arg = LEASE,
        *,
        waits: Arg = 0,
        yields: Arg = 0,
        **more: Arg,
    ) -> Any:
        """Ask for a hold count; `waits`: a reader yields, a writer counts as waiting (in ms).

        A `client` waits in the queue of clients.
        """
        more |= {"holds": holds, "lease_ms": lease_ms}
        more |= {"yields" if self.side == "read" else "alive_ms": waits}
        more |= {"defers" if self.side == "read" else "yields": yields}
        return await self.run("acquire", owner, **more)

    async def release(
        self,
        owner: str = A,
        holds: Arg = 0,
        lease_ms: Arg = LEASE,
        tombstone_ms: Arg = 0,
        **more: Arg,
    ) -> int | None:
        """Fall to a hold count; `waits`: a writer that may still count as waiting."""
        more |= {"holds": holds, "lease_ms": lease_ms, "tombstone_ms": tombstone_ms}
        reply: int | None = await self.run("release", owner, **more)
        return reply

    async def undo(self, owner: str = A) -> int | None:
        """Give back the whole hold and refuse what comes late, as an abandoned acquire does."""
        more = {"waits": 1} if self.side == "write" else {}
        return await self.release(owner, tombstone_ms=TOMBSTONE, **more)

    async def renew(self, owner: str = A, lease_ms: Arg = LEASE) -> int:
        """Renew this one hold."""
        (renewed,) = await self.scripts.run_batch(
            "read_lock.renew" if self.side == "read" else "lock.renew",
            [self.key],
            [self.field(owner)],
            lease_ms=lease_ms,
        )
        return int(renewed)

    async def set_lease(self, owner: str = A, lease_ms: Arg = LEASE, **more: Arg) -> int:
        """Set what is left of the lease."""
        return int(await self.run("set_lease", owner, lease_ms=lease_ms, **more))

    async def force_release(self, request: str = "r1", receipt_ms: Arg = TOMBSTONE) -> int:
        """Free this side whoever has it."""
        receipt = self.receipt(request)
        return int(await self.run("force_release", receipt=receipt, receipt_ms=receipt_ms))

    async def holds(self) -> dict[str, int]:
        """Return the hold counts; fail unless it is this side's, with a lease for each read."""
        found: dict[bytes, bytes] = await ask(self.redis, "HGETALL", self.key)
        mode = found.pop(b"mode", None)
        assert mode == (self.side.encode() if found else None)
        counts = {field.decode(): int(count) for field, count in found.items()}
        if self.side == "write":
            return {field.removesuffix(":write"): count for field, count in counts.items()}
        leases = [
            hold_key(self.key, owner, number + 1)
            for owner, count in counts.items()
            for number in range(count)
        ]
        assert sorted(await ask(self.redis, "KEYS", "*:rwlock_timeout:*")) == sorted(leases)
        return counts

    async def left(self) -> int:
        """Return the milliseconds left of the whole lock."""
        return int(await ask(self.redis, "PTTL", self.key))


def hold_key(key: bytes, owner: str, number: int) -> bytes:
    """Return the key whose expiry is the lease of one hold of a reader."""
    return _keys.suffixed(key, f"{owner}:rwlock_timeout:{number}".encode())


class ReadWriteScripts:
    """Both sides of one lock, and what there is to see of it."""

    def __init__(self, scripts: Scripts, key: bytes = b"rw") -> None:
        self.redis = scripts.redis
        self.scripts = scripts
        self.key = key
        self.read = SideScripts(scripts, "read", key)
        self.write = SideScripts(scripts, "write", key)
        self.channel = self.read.channel

    def hold_key(self, owner: str = A, number: int = 1) -> bytes:
        """Return the key whose expiry is the lease of one hold of a reader."""
        return hold_key(self.key, owner, number)

    async def fields(self) -> dict[str, str]:
        """Return the hash."""
        found: dict[bytes, bytes] = await ask(self.redis, "HGETALL", self.key)
        return {field.decode(): value.decode() for field, value in found.items()}

    async def left(self) -> int:
        """Return the milliseconds left of the whole lock."""
        return int(await ask(self.redis, "PTTL", self.key))

    async def hold_left(self, owner: str = A, number: int = 1) -> int:
        """Return the milliseconds left of one hold of a reader."""
        return int(await ask(self.redis, "PTTL", self.hold_key(owner, number)))

    async def hold_keys(self) -> list[bytes]:
        """Return the keys of all readers' holds."""
        return sorted(await ask(self.redis, "KEYS", "*:rwlock_timeout:*"))

    async def end_holds(self, owner: str, *numbers: int) -> None:
        """End leases of a reader, as time does."""
        for number in numbers or (1,):
            await self.redis.delete(self.hold_key(owner, number))

    async def inspect(self) -> list[Any]:
        """Read the lock."""
        found: list[Any] = await self.scripts.run(
            "read_write_lock.inspect", lock=self.key, clients=self.read.clients
        )
        return found
