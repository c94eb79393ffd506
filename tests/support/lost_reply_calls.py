"""The calls whose replies are lost, each with the holds before and after it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest
from redis.asyncio import Redis

from redisson_py import Lease, Redisson
from redisson_py._options import Options
from redisson_py.locks.lock import ServerLock
from tests.support import kinds
from tests.support.leases import renewed_at_once

#: The locks whose replies are lost.
KINDS = {
    name: kinds.KINDS[name]
    for name in ("lock", "fenced_lock", "fair_lock", "write_lock", "read_lock")
}

LEASE = 30.0
EXTENDED = 20.0
WAIT = 20.0
#: The lease that the watchdog keeps: far from its end, however busy the machine is.
WATCHED = 12.0


@dataclass(frozen=True)
class Call:
    """One call of a lock.

    Attributes:
        make: Makes it, on a lock and with the leases held so far, which it brings up to date.
        before: How many holds it needs.
        after: How many are left.
        lease: Seconds of the lease after it; 0 if nothing is held.
        watched: Whether the holds are those of the watchdog, with its own lease.
    """

    make: Callable[[Redisson, ServerLock, list[Lease]], Awaitable[None]]
    before: int
    after: int
    lease: float = LEASE
    watched: bool = False

    async def prepare(self, lock: ServerLock) -> list[Lease]:
        """Get the holds it needs."""
        lease_time = None if self.watched else LEASE
        return [await lock.acquire(lease_time=lease_time) for _ in range(self.before)]


async def _acquire(client: Redisson, lock: ServerLock, leases: list[Lease]) -> None:
    leases.append(await lock.acquire(timeout=WAIT, lease_time=LEASE))


async def _release(client: Redisson, lock: ServerLock, leases: list[Lease]) -> None:
    await leases.pop().release()


async def _renew(client: Redisson, lock: ServerLock, leases: list[Lease]) -> None:
    await renewed_at_once(client)
    leases[0].check()


def notice_soon(monkeypatch: pytest.MonkeyPatch, seconds: float = 0.2) -> None:
    """Have clients drop a silent connection after this time, and not after a sixth of a lease."""
    monkeypatch.setattr(Options, "reply_timeout", seconds)


async def _extend(client: Redisson, lock: ServerLock, leases: list[Lease]) -> None:
    await leases[0].extend(EXTENDED)


async def _force_release(client: Redisson, lock: ServerLock, leases: list[Lease]) -> None:
    assert await lock.force_release()


CALLS = {
    "acquire": Call(_acquire, before=0, after=1),
    "re-entry": Call(_acquire, before=1, after=2),
    "partial release": Call(_release, before=2, after=1),
    "final release": Call(_release, before=1, after=0, lease=0),
    "renewal": Call(_renew, before=1, after=1, lease=WATCHED, watched=True),
    "extend": Call(_extend, before=1, after=1, lease=EXTENDED),
    "force_release": Call(_force_release, before=1, after=0, lease=0),
}


async def holders(redis: Redis) -> dict[str, int]:
    """Return the hold count of each owner of the lock, as the server has it."""
    found: dict[bytes, bytes] = await redis.hgetall("k")  # type: ignore[assignment]  # not decoded
    found.pop(b"mode", None)
    return {field.decode().removesuffix(":write"): int(count) for field, count in found.items()}
