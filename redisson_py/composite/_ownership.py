"""Locks made of locks: what MultiLock and RedLock share beside their holds (`joint_hold.py`)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from redisson_py._keys import Name
from redisson_py._lease.hold import Hold
from redisson_py._lease.lease import Lease
from redisson_py._owner import TaskRef
from redisson_py._primitives.context import Mine
from redisson_py._primitives.decorating import Fill
from redisson_py._primitives.hold_lock import RENEW
from redisson_py._primitives.joint_hold import JointHold, JointLease, release_all, release_pending
from redisson_py._primitives.lock_like import LockLike
from redisson_py._primitives.looking import LockSnapshot
from redisson_py._primitives.together import Together
from redisson_py._scripts.source import Script
from redisson_py._statistics import PrimitiveStatistics
from redisson_py._time import now
from redisson_py.errors import LeaseLostError, NotHeldError, RedissonError

#: How long those who look wait for the others when enough have answered, in seconds.
_LOOK = 0.1

#: Grants in a row that were over before they could be used, after which it is no use to go on.
STALE_GRANTS = 3

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class JointSnapshot(LockSnapshot):
    """A lock made of locks, as Redis had it a moment ago.

    Attributes:
        members: What each member's server said, by name and server; an error as its text.
    """

    members: dict[str, LockSnapshot | str]


class JointLock(LockLike):
    """Base of the locks that are made of others.

    Args:
        members: What it is made of, each once, in an order that all processes agree on.
        needed: How many of them make the whole.
    """

    _renewal: Script = RENEW
    _cut_by_others = False

    def __init__(self, members: Sequence[LockLike], needed: int) -> None:
        names = [_text(member.name) for member in members]
        self._members = tuple(members)
        self._needed = needed
        self._context = members[0]._context
        self._name: Name = ", ".join(dict.fromkeys(names))
        # Of no use in Redis: it tells locks of the same members from others, in this process.
        self._key = b"\0".join(database_of(each).encode() + b"\0" + each.key for each in members)
        self._line_key = self._hold_key = self.kind.encode() + b":" + self._key

    @property
    def name(self) -> Name:
        """The names of its members, each once."""
        return self._name

    @property
    def key(self) -> bytes:
        """Of its members and their servers; there is no such key in Redis."""
        return self._key

    # Decorators.

    @property
    def _names(self) -> Sequence[Name]:
        return [name for member in self._members for name in member._names]

    def _filled(self, fill: Fill) -> Self:
        filled = [member._filled(fill) for member in self._members]
        unchanged = all(one is other for one, other in zip(filled, self._members, strict=True))
        return self if unchanged else self._of(filled)

    def _named(self, name: Name) -> Self:
        return self._of([member._named(name) for member in self._members])

    @abstractmethod
    def _of(self, members: Sequence[LockLike]) -> Self:
        """Return a lock of this kind made of others."""

    # Acquiring.

    def _check(self) -> None:
        for member in self._members:
            member._context.check()

    def _mines(self) -> list[Mine]:
        """Return what the current task holds with the client of each member."""
        return [member._context.owners.of_current_task() for member in self._members]

    def _held_by(self, mine: Mine) -> JointHold | None:
        """Return what the current task holds of the whole."""
        hold = mine.holds.get(self._hold_key)
        if isinstance(hold, JointHold) and hold.state == "held" and hold.all_leases():
            return hold
        return None

    def _hold(self, parts: list[Lease], lease_time: float | None, task: TaskRef) -> JointHold:
        on_lost = self._context.options.on_lost
        return JointHold(self, parts, self._needed, lease_time is None, task, on_lost)

    def _take(self, hold: JointHold, mine: Mine) -> Lease:
        """Make a hold the current task's."""
        mine.holds[self._hold_key] = hold
        return hold.leases[-1]

    def _reentered(self, hold: JointHold, parts: list[Lease]) -> Lease:
        """Return the lease of an acquisition inside another of the same task."""
        if hold.state != "held":
            release_all(parts)
            raise loss(self, hold)
        hold.count += 1
        return hold.add_lease(parts, self._context.options.on_lost)

    # Releasing.

    async def release(self) -> None:
        """Give back one hold of the current task: the newest. A cancelled release is carried out.

        All members are released, also if one of them fails; then the first error is raised.

        Raises:
            NotHeldError: The current task has no hold.
            LeaseLostError: It had one and lost it; said once.
            ConnectionLostError: Too few servers answered; it is free after one lease at most.
        """
        self._context.check()
        hold = self._context.owners.of_current_task().holds.get(self._hold_key)
        if hold is None or not hold.all_leases():
            raise NotHeldError(f"{self.kind} {self.name!r} is not held by the current task")
        await self._release_lease(hold.all_leases()[-1])

    async def _release_lease(self, lease: Lease) -> None:
        """Give back one acquisition; see `Lease.release`."""
        hold = lease._hold
        assert isinstance(lease, JointLease)
        assert isinstance(hold, JointHold)
        was_lost = lease._state == "lost"
        lease._end()
        hold.drop(lease)
        hold.count -= 1
        if hold.count <= 0 or hold.state != "held":
            self._context.owners.forget(hold.task, self._hold_key, hold)
        if hold.count <= 0 and hold.state == "held" and not was_lost:
            await self._release_last(hold, lease)
        else:
            await self._release_parts(hold, lease, was_lost)

    async def _release_last(self, hold: JointHold, lease: JointLease) -> None:
        """Give the whole hold back, or to somebody else here."""
        hold.state = "released"
        await self._release_parts(hold, lease, was_lost=False)

    async def _release_parts(self, hold: JointHold, lease: JointLease, was_lost: bool) -> None:
        gone = sum(part._ended for part in lease._parts)
        releases = release_all(lease._parts)
        if hold.count <= 0:
            release_pending(hold.pending)
        await self._settle(releases)
        gone += sum(isinstance(error, LeaseLostError) for error in releases.errors.values())
        if not was_lost and len(lease._parts) - gone < self._needed:
            lease._lose_late()
            was_lost = True
        if was_lost:
            raise lease._loss()
        self._check_enough(releases)

    @abstractmethod
    async def _settle(self, operations: Together[Any], grace: float = 0) -> None:
        """Wait until operations on the members have come to their end, or enough of them."""

    def _check_enough(self, operations: Together[Any]) -> None:
        few = len(operations.results) < self._needed
        for _, error in sorted(operations.errors.items()):
            if few or not isinstance(error, RedissonError):
                raise error

    def _give_back(self, hold: Hold) -> None:
        """Nobody wants this hold: release it without waiting."""
        assert isinstance(hold, JointHold)
        if hold.state == "held":
            hold.state = "released"
            release_all(hold.parts)
            release_pending(hold.pending)

    def _hold_ended(self, hold: Hold) -> None:
        """A hold was lost."""
        assert isinstance(hold, JointHold)
        release_pending(hold.pending)

    # While it is held.

    async def _set_lease(self, lease: Lease, lease_time: float) -> None:
        """Set when a lease ends; see `Lease.extend`."""
        assert isinstance(lease, JointLease)
        self._check()
        # Whoever it could be passed to wants to be renewed.
        lease._hold.watched = False
        held = [part for part in lease._parts if part._state == "held"]
        settings = Together(part._hold.resource._set_lease(part, lease_time) for part in held)
        await self._settle(settings)
        if lease._state == "lost":
            raise lease._loss()
        self._check_enough(settings)

    # Looking.

    async def locked(self) -> bool:
        """Return whether it could not be had now: too few of its members are free."""
        held = await self._of_members(lambda member: member.locked())
        return len(held) - sum(held) < self._needed

    async def owned(self) -> bool:
        """Return whether the current task holds it now, as Redis sees it."""
        return await self.hold_count() > 0

    async def hold_count(self) -> int:
        """Return how many holds the current task has, as Redis sees it."""
        self._check()
        hold = self._held_by(self._context.owners.of_current_task())
        if hold is None:
            return 0
        counts = await self._of_members(lambda member: member.hold_count())
        return min(len(hold.all_leases()), sorted(counts)[-self._needed])

    async def remaining(self) -> float | None:
        """Return after how many seconds enough members are free if nobody renews them.

        None when it can be had now.
        """
        lefts = await self._of_members(lambda member: member.remaining())
        left = sorted(each or 0.0 for each in lefts)[self._needed - 1]
        return left or None

    async def force_release(self) -> bool:
        """Free all its members whoever holds them; return whether any was held. For operators."""
        return any(await self._of_members(lambda member: member.force_release()))

    async def inspect(self) -> JointSnapshot:
        """Return who holds its members, as a snapshot for people."""
        self._check()
        looks = Together(member.inspect() for member in self._members)
        await self._settle(looks, _LOOK)
        found = list(looks.results.values())
        members: dict[str, LockSnapshot | str] = {
            f"{_text(member.name)} at {database_of(member)}": looks.results.get(number)
            or str(looks.errors.get(number, "no answer yet"))
            for number, member in enumerate(self._members)
        }
        return JointSnapshot(
            tuple(holder for each in found for holder in each.holders),
            tuple(waiter for each in found for waiter in each.waiters),
            tuple(key for each in found for key in each.keys),
            members,
        )

    def statistics(self) -> PrimitiveStatistics:
        """Return local counters: who waits for it or a member here, and its leases. No I/O."""
        line = self._context.lines.find(self._line_key)
        waiters = sum(member.statistics().waiters for member in self._members)
        return PrimitiveStatistics(
            waiters + (line.waiting if line is not None else 0), len(self._leases())
        )

    def _leases(self) -> set[JointLease]:
        parts = [
            part
            for context in {id(each._context): each._context for each in self._members}.values()
            for hold in context.watchdog.holds
            for part in hold.all_leases()
        ]
        wholes = [part._whole() for part in parts if part._whole is not None]
        return {
            whole
            for whole in wholes
            if isinstance(whole, JointLease)
            and whole._state == "held"
            and whole._hold.resource._hold_key == self._hold_key
        }

    async def _of_members(self, look: Callable[[LockLike], Coroutine[Any, Any, T]]) -> list[T]:
        """Return what the members that count say."""
        self._check()
        looks = Together(look(member) for member in self._members)
        await self._settle(looks, _LOOK)
        self._check_enough(looks)
        return list(looks.results.values())


def database_of(lock: LockLike) -> str:
    """Return where the keys of a lock are, or of the first of those that it is made of."""
    return lock._context.database


def loss(lock: JointLock, hold: Hold) -> LeaseLostError:
    """Return the error that tells of the loss of a hold."""
    held_for = now() - hold.granted_at
    return LeaseLostError(
        f"{lock.kind} {lock.name!r} was lost after {held_for:.3f} s",
        lock.name,
        hold.owner,
        held_for,
    )


def _text(name: Name) -> str:
    return name if isinstance(name, str) else name.decode(errors="replace")
