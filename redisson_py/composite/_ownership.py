"""The part that MultiLock and RedLock share: release, extension and inspection of members."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Coroutine, Sequence
from itertools import chain
from typing import Any, Generic, NamedTuple, Self, TypeVar

from redisson_py._engine import acquiring
from redisson_py._engine.acquiring import Attempt
from redisson_py._engine.context import Context, TaskHolds
from redisson_py._engine.decorating import Fill
from redisson_py._engine.hold import (
    Lease,
    hold_of,
    is_lost,
    lose_late,
    loss_of,
    lost_error,
    lost_of,
    reason_of,
    release_failed,
    tell_released,
)
from redisson_py._engine.local_queue import LocalQueue
from redisson_py._engine.ownership import Begun, cannot_be_handed_over, report
from redisson_py._engine.snapshots import LockSnapshot
from redisson_py._engine.task_ownership import TaskOwnership, not_held
from redisson_py._engine.wait import Wait
from redisson_py._keys import Name
from redisson_py._loop import Task, current_task
from redisson_py._options import OnLost, OnReleaseError
from redisson_py._statistics import PrimitiveStatistics
from redisson_py._time import now
from redisson_py.composite._gather import Gather
from redisson_py.composite._hold import CompositeHold, CompositeLease, live_leases
from redisson_py.composite._member import extend_all, release_all, release_pending
from redisson_py.composite._snapshot import JointSnapshot
from redisson_py.errors import (
    BackendError,
    ConnectionLostError,
    LeaseLostError,
    RedissonError,
)
from redisson_py.locks.lock_like import LockLike, ownership_of

#: Seconds to wait for the other servers after enough have answered a query.
LOOK_GRACE_SECONDS = 0.1

T = TypeVar("T")
Own = TypeVar("Own", bound="CompositeOwnership")


class CompositeOwnership:
    """The holds of this process's tasks on one composite lock.

    Args:
        kind: The kind, in words for messages.
        members: Its members, in an order that depends on names and servers only.
        owners: The single-server locks of which the members are made.
        needed: How many members make the composite.
    """

    #: Whether its holds can go from task to task.
    passable = False

    def __init__(
        self,
        kind: str,
        members: Sequence[LockLike],
        owners: Sequence[TaskOwnership],
        needed: int,
    ) -> None:
        self.kind = kind
        self.members: tuple[LockLike, ...] = tuple(members)
        self.owners: tuple[TaskOwnership, ...] = tuple(owners)
        self.needed = needed
        self.context: Context = owners[0].context
        #: The timeout of an acquire that names none: the shortest that a member's client has.
        timeouts = [owner.acquire_timeout for owner in owners]
        self.acquire_timeout: float | None = min(
            [each for each in timeouts if each is not None], default=None
        )
        self.name: Name = ", ".join(dict.fromkeys(_text(member.name) for member in members))
        # Not a key on a server: it tells of what names the composite is made.
        self.key: bytes = b"\0".join(
            database_of(each).encode() + b"\0" + each.commands.key for each in owners
        )
        # That of a read side and that of a write side are two, and so are that of a red lock and
        # that of its members.
        keys = [_hold_key(member) for member in members]
        kinds = b"".join(b"%d:" % len(key) + key for key in keys)
        self.hold_key: bytes = kind.encode() + b":" + self.key + b"\0" + kinds
        self.holds: TaskHolds[CompositeHold] = self.context.registry.holds["composite"].get(
            self.hold_key, TaskHolds
        )

    def __repr__(self) -> str:
        return f"{self.kind} {self.name!r}"

    @property
    def stay_taken(self) -> bool:
        """Whether the servers of all members can keep their names taken after a release."""
        return all(owner.stay_taken for owner in self.owners)

    @property
    def on_lost(self) -> OnLost:
        """What a loss does to a block."""
        return self.context.options.on_lost

    @property
    def on_release_error(self) -> OnReleaseError:
        """What a block does if its release gets no answer."""
        return self.context.options.on_release_error

    def check_clients(self) -> None:
        """Raise if the client of a member must not be used now or here."""
        for owner in self.owners:
            owner.context.check()

    # Acquiring.

    def begin(self, loop: object, task: Task) -> None:
        """Return nothing: a composite takes more than one round trip."""

    def first_lease(self, begun: Begun, task: Task, reply: object) -> None:
        """Return nothing: it begins no request."""

    def abandon(self, begun: Begun) -> None:
        """Do nothing: it begins no request."""

    async def attempt(
        self, task: Task, deadline: float | None, once: bool, lease_time: float | None
    ) -> CompositeAttempt[Any]:
        """Return how a task acquires it."""
        raise NotImplementedError

    async def acquire(
        self,
        task: Task,
        deadline: float | None = None,
        once: bool = False,
        lease_time: float | None = None,
        begun: Begun | None = None,
        outer: Wait | None = None,
    ) -> Lease | None:
        """Return a lease, or None when the deadline has passed (or it is busy, with `once`)."""
        attempt = await self.attempt(task, deadline, once, lease_time)
        return await acquiring.acquire(attempt, outer)

    def held_by(self, task: Task) -> CompositeHold | None:
        """Return the hold that a task has, if it can enter it again."""
        hold = self.holds.of(task)
        if hold is None or hold.state != "held" or not hold.live:
            return None
        return hold

    def new_hold(self, leases: list[Lease], task: Task) -> CompositeHold:
        """Return the hold that is made of these leases."""
        return CompositeHold(self, leases, self.needed, weakref.ref(task))

    def take(self, hold: CompositeHold, task: Task, waited: float) -> Lease:
        """Give a new or passed hold to the current task."""
        self.holds.put(task, hold)
        return self._announced(hold.leases[-1], waited)

    def _announced(self, lease: CompositeLease, waited: float) -> Lease:
        if (teller := self.context.teller) is not None:
            lease.tell_acquired(teller, waited)
        return lease

    def reentered(
        self, hold: CompositeHold, leases: list[Lease], task: Task, waited: float
    ) -> Lease:
        """Return the lease of an acquisition inside another of the same task."""
        if hold.state == "released":
            # Another task has released the outer one meanwhile: make a hold of its own.
            made = self.new_hold(leases, task)
            if made.valid:
                return self.take(made, task, waited)
            loss = loss_of(made.leases[-1])
            self.give_back(made)
            raise loss
        if hold.state == "lost":
            release_all(leases)
            known = hold.known_leases()
            if known:
                raise loss_of(known[-1])
            # Perhaps another task has released the outer one, and was told of the loss.
            raise lost_error(self, hold.owner, now() - hold.granted_at, "taken")
        lease = hold.add_lease(leases)
        if lease.lost:
            # Granted, but over before it could be used.
            loss = loss_of(lease)
            hold.settle(lease)
            release_all(leases)
            raise loss
        return self._announced(lease, waited)

    # Releasing.

    async def release_newest(self) -> None:
        """Give back the newest hold of the current task.

        All members are released, also if one of them fails; then the first error is raised.

        Raises:
            NotHeldError: It has none.
            LeaseLostError: It had one and lost it; raised once.
            ReleaseFailedError: Too few servers answered; the release is repeated.
        """
        self.context.check()
        lease = self.holds.newest_lease(current_task())
        if lease is None:
            raise not_held(self, self.owners[0].all_holds())
        await lease.release()

    def begin_release(self, lease: Lease, future: object = None) -> CompositeRelease | None:
        """Send the releases of the members; return None if the hold was passed on here."""
        hold = hold_of(lease)
        assert isinstance(lease, CompositeLease)
        assert isinstance(hold, CompositeHold)
        was_lost, let_go_at = is_lost(lease), now()
        if hold.state == "held" and hold.live == [lease]:
            return self.begin_whole_release(hold, lease, let_go_at)
        hold.settle(lease)
        if hold.state != "held" and not hold.known_leases():
            self.forget(hold)
        return CompositeRelease(self, hold, lease, let_go_at, was_lost=was_lost)

    def begin_whole_release(
        self, hold: CompositeHold, lease: CompositeLease, let_go_at: float
    ) -> CompositeRelease | None:
        """Send the release of the whole hold; return None if it was passed on here."""
        hold.settle(lease)
        self.end(hold)
        return CompositeRelease(self, hold, lease, let_go_at, whole=True)

    def ended(self) -> None:
        """End the release of a whole hold."""

    def end(self, hold: CompositeHold) -> None:
        """End a hold just before its release is sent."""
        hold.release()
        self.forget(hold)

    async def settle(self, operations: Gather[Any]) -> None:
        """Wait until operations on all members have ended."""
        await operations.wait()

    def check_enough(self, operations: Gather[Any]) -> None:
        """Raise the first error, unless enough operations succeeded."""
        if (error := self.failure(operations)) is not None:
            raise error

    def failure(self, operations: Gather[Any]) -> BaseException | None:
        """Return the first error, unless enough operations succeeded."""
        few = len(operations.results) < self.needed
        for _, error in sorted(operations.errors.items()):
            if few or not isinstance(error, RedissonError):
                return error
        return None

    def give_back(self, hold: CompositeHold) -> None:
        """Release a hold that no task wants, without waiting."""
        if hold.state != "held":
            return
        for lease in list(hold.known_leases()):
            hold.settle(lease)
            self.end(hold)
            release_all(lease._members)
        release_pending(hold.pending)

    def forget(self, hold: CompositeHold) -> None:
        """Remove a hold from its task."""
        self.holds.remove(hold)

    def hold_ended(self, hold: CompositeHold) -> None:
        """Handle the loss of a hold."""
        release_pending(hold.pending)

    # While it is held.

    async def extend(self, lease: Lease, lease_time: float) -> None:
        """Set when a lease ends; see `Lease.extend`."""
        assert isinstance(lease, CompositeLease)
        self.check_clients()
        lease.stop_renewals()
        settings = extend_all(lease.held_members, lease_time)
        await self.settle(settings)
        if is_lost(lease):
            raise loss_of(lease)
        self.check_enough(settings)

    async def hand_over(self, lease: Lease, lease_time: float | None) -> str:
        """Refuse to give a hold to another process: its members would go one after the other."""
        raise cannot_be_handed_over(
            self, "it is made of several locks; hand over one of one server"
        )

    # Looking.

    async def locked(self) -> bool:
        """Return whether too few of its members are free to acquire it now."""
        held = await self.ask_members(lambda member: member.locked())
        return len(held) - sum(held) < self.needed

    async def hold_count(self) -> int:
        """Return how many holds the current task has, as the servers see it."""
        self.check_clients()
        hold = self.held_by(current_task())
        if hold is None:
            return 0
        counts = await self.ask_members(lambda member: member.hold_count())
        return min(len(hold.live), sorted(counts)[-self.needed])

    async def remaining(self) -> float | None:
        """Return the seconds until enough members are free if no holder renews them."""
        lefts = await self.ask_members(lambda member: member.remaining())
        return sorted(each or 0.0 for each in lefts)[self.needed - 1] or None

    async def force_release(self) -> bool:
        """Free all members whoever holds them; return whether any was held."""
        self.check_clients()
        releases = Gather(member.force_release() for member in self.members)
        await self.settle(releases)
        self.check_enough(releases)
        return any(releases.results.values())

    async def inspect(self) -> JointSnapshot:
        """Return who holds the members."""
        self.check_clients()
        looks = Gather(member.inspect() for member in self.members)
        await self.settle_look(looks)
        found = [look for _, look in sorted(looks.results.items())]
        members: dict[str, LockSnapshot | str] = {
            f"{_text(member.name)} at {server_of(member)}": looks.results.get(number)
            or str(looks.errors.get(number, "no answer yet"))
            for number, member in enumerate(self.members)
        }
        looks.cancel()
        waiters = [each.waiters for each in found if each.waiters is not None]
        # Of one that did not answer nothing is known either.
        known = len(waiters) == len(self.members)
        return JointSnapshot(
            tuple(holder for each in found for holder in each.holders),
            tuple(chain.from_iterable(waiters)) if known else None,
            tuple(key for each in found for key in each.keys),
            members,
            waiting=tuple(chain.from_iterable(each.waiting for each in found)),
        )

    def statistics(self) -> PrimitiveStatistics:
        """Return local counters: tasks that wait for it or a member, and its leases."""
        return PrimitiveStatistics(
            waiters=sum(member.statistics().waiters for member in self.members),
            held_leases=len(live_leases(self.owners, self.hold_key)),
        )

    async def ask_members(self, look: Callable[[LockLike], Coroutine[Any, Any, T]]) -> list[T]:
        """Return the answers of the members.

        Raises:
            ConnectionLostError: Too few servers answered in time.
        """
        self.check_clients()
        looks = Gather(look(member) for member in self.members)
        try:
            await self.settle_look(looks)
        finally:
            looks.cancel()
        answered = len(looks.results)
        if answered < self.needed:
            errors = [each for _, each in sorted(looks.errors.items())]
            for error in errors:
                if not isinstance(error, ConnectionLostError) and isinstance(error, Exception):
                    raise error
            raise ConnectionLostError(
                f"{self!r}: only {answered} of {len(self.members)} servers answered in time,"
                f" but {self.needed} must answer",
                maybe_held=False,
            )
        return list(looks.results.values())

    async def settle_look(self, looks: Gather[Any]) -> None:
        """Wait for the answers to queries that change nothing."""
        await looks.wait()


def _hold_key(member: LockLike) -> bytes:
    """Return what tells the holds of a member from all others on its client."""
    ownership = ownership_of(member)
    if isinstance(ownership, CompositeOwnership):
        return ownership.hold_key
    assert isinstance(ownership, TaskOwnership)
    commands = ownership.commands
    return commands.hold_kind.encode() + b":" + commands.key


class CompositeRelease:
    """The release of one acquisition of a composite, on its way.

    Args:
        composite: Whose it is.
        hold: Its hold.
        lease: The lease.
        let_go_at: When its holder let go of it.
        was_lost: It was lost before.
        whole: It ends the hold.
    """

    def __init__(
        self,
        composite: CompositeOwnership,
        hold: CompositeHold,
        lease: CompositeLease,
        let_go_at: float,
        *,
        was_lost: bool = False,
        whole: bool = False,
    ) -> None:
        self._composite = composite
        self._lease = lease
        self._was_lost = was_lost
        self._whole = whole
        self._let_go_at = let_go_at
        self._held = lease.held_members
        self._releases = release_all(lease._members)
        if hold.state != "held":
            release_pending(hold.pending)

    async def wait(self) -> None:
        """Wait for the answers; raise if too few of the members held."""
        try:
            await self._composite.settle(self._releases)
        except BaseException:
            self._releases.when_ended(lambda: report(self._judge()))
            raise
        finally:
            if self._whole:
                self._composite.ended()
        problem = self._judge()
        if problem is not None:
            raise problem

    def _judge(self) -> BaseException | None:
        """Record what the answers of the members mean; return the error to raise, if any."""
        lease, composite, found_lost = self._lease, self._composite, lost_of(self._held)
        problem: BaseException | None = None
        if self._was_lost:
            problem = loss_of(lease)
        elif len(self._held) - len(found_lost) < composite.needed:
            problem = lose_late(lease, reason_of(found_lost[-1]) if found_lost else "taken")
        elif (failure := composite.failure(self._releases)) is not None:
            if isinstance(failure, BackendError):
                release_failed(lease, str(failure))
            problem = failure
        if composite.context.teller is not None:
            tell_released(lease, self._let_go_at)
        return problem


class CompositeGrant(NamedTuple):
    """What an attempt at a composite has brought.

    Attributes:
        hold: The hold: a new one, one that a task here has passed, or the one entered again.
        again: The leases of the members with which it is entered again.
    """

    hold: CompositeHold
    again: list[Lease] | None = None


class CompositeAttempt(Attempt[CompositeGrant, Lease], Generic[Own]):
    """A task's acquisition of a composite; a kind says how it asks for the members."""

    def __init__(
        self,
        ownership: Own,
        queue: LocalQueue[CompositeHold] | None,
        task: Task,
        deadline: float | None,
        once: bool,
        lease_time: float | None,
    ) -> None:
        context, kind, name = ownership.context, ownership.kind, ownership.name
        super().__init__(context, kind, name, queue, task, deadline, once, lease_time)
        self._composite: Own = ownership

    def is_behind(self) -> bool:
        """Return False: what comes first is asked with the members."""
        return False

    def is_good(self, grant: CompositeGrant) -> bool:
        """Return whether a new or passed hold is in force; one entered again decides itself."""
        return grant.again is not None or grant.hold.valid

    def take(self, grant: CompositeGrant, waited: float) -> Lease:
        """Give a hold to the task, or enter its own once more."""
        if grant.again is not None:
            return self._composite.reentered(grant.hold, grant.again, self.task, waited)
        return self._composite.take(grant.hold, self.task, waited)

    def give_back(self, grant: CompositeGrant) -> None:
        """Pass on or release a hold that was over before it could be used."""
        self._composite.give_back(grant.hold)

    def loss(self, grant: CompositeGrant) -> LeaseLostError:
        """Return the error of a hold that was over before it could be used."""
        return loss_of(grant.hold.leases[-1])


class CompositeLock(LockLike):
    """Base of the locks that are made of other locks."""

    _ownership: CompositeOwnership  # type: ignore[mutable-override]  # set once

    def __init__(self, ownership: CompositeOwnership) -> None:
        super().__init__(ownership, ownership.key)

    @property
    def key(self) -> bytes:
        """A key made from its members and their servers; it does not exist on any server."""
        return self._key

    @property
    def _members(self) -> tuple[LockLike, ...]:
        return self._ownership.members

    @property
    def _names(self) -> Sequence[Name]:
        return [name for member in self._members for name in member._names]

    def _filled(self, fill: Fill) -> Self:
        filled = [member._filled(fill) for member in self._members]
        unchanged = all(one is other for one, other in zip(filled, self._members, strict=True))
        return self if unchanged else self._of(filled)

    def _named(self, name: Name) -> Self:
        return self._of([member._named(name) for member in self._members])

    def _of(self, members: Sequence[Any]) -> Self:
        """Return a lock of this kind that is made of others."""
        return type(self)(*members)

    async def inspect(self) -> JointSnapshot:
        """Return a snapshot of the members' holders, for people. Decide nothing from it."""
        return await self._ownership.inspect()


def database_of(owner: TaskOwnership) -> str:
    """Return the address and database where a member is."""
    return owner.context.database


def server_of(member: LockLike) -> str:
    """Return the address and database of a member, or of the first that it is made of."""
    return database_of(owners_of(member)[0])


def owners_of(member: LockLike) -> Sequence[TaskOwnership]:
    """Return the locks of single servers that a member is made of, or itself."""
    ownership = ownership_of(member)
    if isinstance(ownership, CompositeOwnership):
        return ownership.owners
    assert isinstance(ownership, TaskOwnership)
    return [ownership]


def _text(name: Name) -> str:
    return name if isinstance(name, str) else name.decode(errors="replace")
