"""The calls whose replies get lost, each with what it needs and what it leaves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from redis.asyncio import Redis

from redisson_py import FencedLock, Lease, Redisson, RLock
from tests.support import until

Lock = RLock | FencedLock
LOCKS: dict[str, Callable[[Redisson], Lock]] = {
    "lock": lambda client: client.get_lock("k"),
    "fenced_lock": lambda client: client.get_fenced_lock("k"),
}

LEASE = 30.0
EXTENDED = 20.0
WAIT = 2.0
#: Of the clients that lose replies: they notice after a sixth of it.
SHORT_LEASE = 1.8


@dataclass(frozen=True)
class Call:
    """One call of a lock.

    Attributes:
        make: Makes it, on a lock and with the leases held so far, which it brings up to date.
        before: How many holds it needs.
        after: How many are left.
        lease: Seconds of the lease after it; 0 if nothing is held.
        watched: Whether the holds are those of the watchdog, with its short lease.
    """

    make: Callable[[Redisson, Lock, list[Lease]], Awaitable[None]]
    before: int
    after: int
    lease: float = LEASE
    watched: bool = False

    async def prepare(self, lock: Lock) -> list[Lease]:
        """Get the holds it needs."""
        lease_time = None if self.watched else LEASE
        return [await lock.acquire(lease_time=lease_time) for _ in range(self.before)]


async def _acquire(client: Redisson, lock: Lock, leases: list[Lease]) -> None:
    leases.append(await lock.acquire(timeout=WAIT, lease_time=LEASE))


async def _release(client: Redisson, lock: Lock, leases: list[Lease]) -> None:
    await leases.pop().release()


async def _renew(client: Redisson, lock: Lock, leases: list[Lease]) -> None:
    renewals = client.statistics().renewals
    await until(lambda: client.statistics().renewals > renewals)
    leases[0].check()


async def _extend(client: Redisson, lock: Lock, leases: list[Lease]) -> None:
    await leases[0].extend(EXTENDED)


async def _force_release(client: Redisson, lock: Lock, leases: list[Lease]) -> None:
    assert await lock.force_release()


CALLS = {
    "acquire": Call(_acquire, before=0, after=1),
    "re-entry": Call(_acquire, before=1, after=2),
    "partial release": Call(_release, before=2, after=1),
    "final release": Call(_release, before=1, after=0, lease=0),
    "renewal": Call(_renew, before=1, after=1, lease=SHORT_LEASE, watched=True),
    "extend": Call(_extend, before=1, after=1, lease=EXTENDED),
    "force_release": Call(_force_release, before=1, after=0, lease=0),
}


async def holders(redis: Redis) -> dict[str, int]:
    """Return the hold count of each owner of the lock, as the server has it."""
    found: dict[bytes, bytes] = await redis.hgetall("k")  # type: ignore[assignment]  # not decoded
    return {owner.decode(): int(count) for owner, count in found.items()}
