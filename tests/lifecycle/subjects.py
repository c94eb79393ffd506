"""The subjects of the state machine: how to acquire each, and how to read it on the server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from redis.asyncio import Redis

from redisson_py import Lease, Redisson

#: Permits of each semaphore.
PERMITS = 3

#: What stands beside the owners in the hash of a lock.
BESIDE_OWNERS = (b"mode", b"token", b"value", b"number")


class Subject:
    """A lock-like thing on the key `k`.

    Attributes:
        sides: Its sides; most have one. Locks named "read" are shared.
        keys: The keys of the locks it is made of.
        leases: How many leases of locks one acquisition takes.
        counts_holds: Whether the server counts the holds of an owner.
        releases: Whether it has a `release()` that ends the newest hold of the task.
        most_units: The most units that one acquisition takes.
        spares_reads_of_writers: A forced release of the read side leaves what a writer reads.
    """

    sides: tuple[str, ...] = ("",)
    keys: tuple[str, ...] = ("k",)
    most_units = 1
    is_semaphore = False
    takes_lease_time = True
    counts_holds = True
    releases = True
    spares_reads_of_writers = True

    def __init__(self, make: Callable[[Any, str], Any], **attributes: Any) -> None:
        self.make = make
        vars(self).update(attributes)

    @property
    def leases(self) -> int:
        return len(self.keys)

    def options(self, lease_time: float | None, units: int) -> dict[str, Any]:
        """Return the options of an acquisition."""
        return {} if lease_time is None else {"lease_time": lease_time}

    async def acquire(
        self, target: Any, lease_time: float | None, units: int, *, once: bool
    ) -> Lease | None:
        """Acquire it without a block; None: it is busy."""
        method = target.try_acquire if once else target.acquire
        lease: Lease | None = await method(**self.options(lease_time, units))
        return lease

    def hold(
        self, target: Any, lease_time: float | None, units: int
    ) -> AbstractAsyncContextManager[Lease]:
        """Return a block with options."""
        block: AbstractAsyncContextManager[Lease] = target.hold(**self.options(lease_time, units))
        return block

    async def prepare(self, observer: Redisson) -> None:
        """Make what must be there before the first use."""

    async def taken(self, redis: Redis, observer: Redisson) -> list[int]:
        """Return how many holds the server counts, for each key."""
        counts = []
        for key in self.keys:
            found: Any = await redis.hgetall(key)
            counts.append(sum(int(found[field]) for field in _owners_in(found)))
        return counts

    async def lease_ends(
        self, redis: Redis, observer: Redisson, leases: list[Lease]
    ) -> list[tuple[Lease, float]]:
        """Return each lease with the seconds for which the server still keeps it."""
        left = [await redis.pttl(key) / 1000 for key in self.keys]
        return [(lease, min(left)) for lease in leases]

    async def owners(self, redis: Redis, keys: Sequence[str]) -> set[str]:
        """Return the owners that the server has under some keys; none of permits."""
        found: list[Any] = [await redis.hgetall(key) for key in keys]
        owners = [field.decode() for each in found for field in _owners_in(each)]
        return {owner.removesuffix(":write") for owner in owners}

    async def delete(self, redis: Redis, observer: Redisson) -> None:
        """Delete it on the server, held or not."""
        await redis.delete(self.keys[0])


class SemaphoreSubject(Subject):
    """Either semaphore, with `PERMITS` permits."""

    is_semaphore = True

    def __init__(self, make: Callable[[Redisson, str], Any], **attributes: Any) -> None:
        super().__init__(make, keys=("semaphore",), **attributes)

    def options(self, lease_time: float | None, units: int) -> dict[str, Any]:
        options = super().options(lease_time, units)
        return options if units == 1 else options | {"n": units}

    async def prepare(self, observer: Redisson) -> None:
        assert await self.make(observer, "").try_set_permits(PERMITS)

    async def taken(self, redis: Redis, observer: Redisson) -> list[int]:
        return [PERMITS - await self.make(observer, "").available()]

    async def lease_ends(
        self, redis: Redis, observer: Redisson, leases: list[Lease]
    ) -> list[tuple[Lease, float]]:
        seen = await self.make(observer, "").inspect()
        names = seen.permit_ids or [holder.owner for holder in seen.holders]
        left = dict(zip(names, [holder.remaining for holder in seen.holders], strict=True))
        return [(lease, left.get(lease.id, -2.0)) for lease in leases]  # type: ignore[attr-defined]

    async def owners(self, redis: Redis, keys: Sequence[str]) -> set[str]:
        return set()

    async def delete(self, redis: Redis, observer: Redisson) -> None:
        await redis.delete(self.keys[0])
        # Of two deletions at the same time, one makes it again.
        await self.make(observer, "").try_set_permits(PERMITS)


def _owners_in(content: dict[bytes, bytes]) -> list[bytes]:
    return [field for field in content if field not in BESIDE_OWNERS]


def _side(client: Redisson, side: str) -> Any:
    lock = client.get_read_write_lock("k")
    return lock.read_lock() if side == "read" else lock.write_lock()


def _two(client: Redisson, side: str) -> Any:
    return client.get_multi_lock(client.get_lock("k"), client.get_lock("k-2"))


SUBJECTS: dict[str, Subject] = {
    "lock": Subject(lambda client, side: client.get_lock("k")),
    "fair_lock": Subject(lambda client, side: client.get_fair_lock("k")),
    "fenced_lock": Subject(lambda client, side: client.get_fenced_lock("k")),
    "non_reentrant_lock": Subject(lambda client, side: client.get_lock("k", reentrant=False)),
    "election": Subject(lambda client, side: client.get_election("k")._candidate(b"first")),
    "read_write_lock": Subject(_side, sides=("write", "read")),
    "multi_lock": Subject(_two, keys=("k", "k-2")),
    "semaphore": SemaphoreSubject(
        lambda client, side: client.get_semaphore("semaphore"),
        most_units=2,
        takes_lease_time=False,
    ),
    "permit_expirable_semaphore": SemaphoreSubject(
        lambda client, side: client.get_permit_expirable_semaphore("semaphore"),
        releases=False,
    ),
}
