"""The holds and leases of composite locks.

One acquisition of a composite is a lease that is made of leases of its members. The members'
own clients keep those; the composite holds as long as enough of them do. A lost member tells the
composite at once. The servers and the watchdog do not know the composite.

Only this file writes the fields of a composite hold. Invariants, checked by `check()`:

- A hold is held, released or lost; it never becomes held again.
- A member lease belongs to one composite lease, which it references weakly. So the watchdogs of
  the members detect an acquisition that can no longer be released.
- Held: enough member leases of its oldest lease hold, or the loss is about to be noticed.
- No lease holds when the hold is over.
"""

from __future__ import annotations

import logging
import math
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from redisson_py._engine.hold import (
    Hold,
    Lease,
    LeaseRef,
    Reason,
    State,
    TaskHold,
    composite_of,
    held_of,
    hold_of,
    lost_of,
    max_hold_end,
    reason_of,
    rely_on,
    tell_acquired,
    without_oldest_ended,
)
from redisson_py._engine.task_ownership import TaskOwnership
from redisson_py._keys import Name
from redisson_py._listener import LostEvent, Teller
from redisson_py._loop import Task, running_loop
from redisson_py._owner import TaskRef
from redisson_py._time import now
from redisson_py.composite._gather import Gather
from redisson_py.composite._member import Pending, hand_over, is_waited_for, release_all

if TYPE_CHECKING:
    from redisson_py.composite._ownership import CompositeOwnership

log = logging.getLogger("redisson_py")


class CompositeLease(Lease):
    """One acquisition of a composite lock.

    Args:
        hold: The hold it belongs to.
        members: The leases it is made of.
        needed: How many of them must hold.
    """

    __slots__ = ("_garbage", "_members", "_needed", "_renewed_until", "_taken_until")
    _counts = False

    def __init__(self, hold: CompositeHold, members: list[Lease], needed: int) -> None:
        super().__init__(cast("Hold", hold), None, None, now())
        self._members = members
        self._needed = needed
        #: Tells the listener when it can no longer be released.
        self._garbage: weakref.finalize[..., CompositeLease] | None = None
        #: The end of renewals for a member that joins later; None: as long as it is needed.
        self._renewed_until: float | None = None
        #: Until when the names of its members stay taken; 0: they do not.
        self._taken_until: float = 0.0
        rely_on(members, self)

    def add(self, member: Lease) -> None:
        """Rely on one more lease."""
        rely_on([member], self)
        self._members.append(member)
        if self._renewed_until is not None:
            member._keep_until(self._renewed_until)
        if self._taken_until:
            member._keep_taken(self._taken_until)

    def _keep_for(self, max_hold: float) -> None:
        """Have all members renewed for no longer than this, from when enough were granted."""
        lease_time = min(
            hold_of(each).ownership.context.options.lease_time for each in self._members
        )
        self._keep_until(max_hold_end(self._granted_at, max_hold, lease_time))

    def _keep_until(self, moment: float) -> None:
        """Have all members renewed until a moment, those that join later too."""
        self._renewed_until = moment
        for member in self.held_members:
            member._keep_until(moment)

    def _keep_taken(self, moment: float) -> None:
        """Have the names of all members stay taken until a moment, of those that join later too."""
        self._taken_until = max(self._taken_until, moment)
        for member in self.held_members:
            member._keep_taken(moment)

    def stop_renewals(self) -> None:
        """Stop renewals, because it was extended and now expires."""
        self._renewed_until = None

    @property
    def held_members(self) -> list[Lease]:
        """The leases of members that are held."""
        return held_of(self._members)

    @property
    def _ends_at(self) -> float:
        return end_of(self._members, self._needed)

    @property
    def _overdue_reason(self) -> Reason:
        end, members = self._ends_at, self.held_members
        overdue = [member for member in members if member._ends_at <= end] or members
        reasons = {member._overdue_reason for member in overdue} or {
            reason_of(each) for each in self._members
        }
        return "ended" if "ended" in reasons else "expired"

    def _member_lost(self, reason: Reason) -> None:
        if self._state != "held" or len(self.held_members) >= self._needed:
            return
        hold = cast("CompositeHold", self._hold)
        if all(other is self for other in hold.live):
            hold.lose(reason)
        elif self._lose(reason):
            log.log(
                logging.DEBUG if reason == "ended" else logging.WARNING,
                "a lease of %s %r is over",
                hold.ownership.kind,
                hold.ownership.name,
            )
            hold.lease_ended()
            self.release_remaining()

    def tell_acquired(self, teller: Teller, waited: float) -> None:
        """Tell a listener that it was acquired, and later if it is garbage-collected."""
        tell_acquired(teller, self, waited)
        ownership, loop = self._hold.ownership, running_loop()
        number = self._number()

        def tell(name: Name, kind: str, owner: str, granted_at: float) -> None:
            if not loop.is_closed():
                # Not called here: the garbage collector runs anywhere.
                held_for = now() - granted_at
                event = LostEvent(name, kind, owner, None, held_for, "abandoned", number)
                loop.call_soon_threadsafe(teller.tell, "lost", event)

        self._garbage = weakref.finalize(
            self, tell, ownership.name, ownership.kind, self.owner, self._granted_at
        )
        self._garbage.atexit = False

    def _lost(self, reason: Reason) -> None:
        self._detach_garbage()
        super()._lost(reason)

    def _settle(self) -> None:
        self._detach_garbage()
        super()._settle()

    def _detach_garbage(self) -> None:
        if self._garbage is not None:
            self._garbage.detach()

    def release_remaining(self) -> None:
        """Release the members left after a loss, unless the end of its block does that."""
        if self._block is None:
            release_all(self._members)


class CompositeHold(TaskHold[CompositeLease]):
    """A task's hold on a composite lock.

    It refers to the leases of its members through its own leases only, so that it does not keep a
    lease alive that the user has dropped.

    Args:
        ownership: Whose hold it is.
        members: The leases it is made of.
        needed: How many of them must hold.
        task: The task that has it.

    Attributes:
        pending: Its unanswered requests.
        late: The round of these requests, until all servers have answered.
    """

    __slots__ = ("_needed", "_owner", "late", "pending")
    units = 1

    def __init__(
        self, ownership: CompositeOwnership, members: list[Lease], needed: int, task: TaskRef
    ) -> None:
        self.ownership: CompositeOwnership = ownership
        self._owner = members[0].owner
        self.task: TaskRef = task
        self.granted_at: float = now()
        self.state: State = "held"
        self.leases: tuple[CompositeLease, ...] = ()
        self.pending: Pending = {}
        self.late: Gather[Lease] | None = None
        self._needed = needed
        self._forgotten = None
        self.add_lease(members)

    # What it is now.

    @property
    def owner(self) -> str:
        """The owner of its first member."""
        return self._owner

    @property
    def ends_at(self) -> float:
        """The moment until which its holder may rely on it."""
        for lease in self.live:
            return lease._ends_at
        return -math.inf

    @property
    def valid(self) -> bool:
        """Whether its holder can still rely on it, by the local clock."""
        return self.state == "held" and now() < self.ends_at

    def _ref(self, lease: CompositeLease) -> LeaseRef[CompositeLease]:
        return LeaseRef(lease, self._collected)

    def _collected(self, _: object) -> None:
        """Handle the garbage collection of a lease, and with it of its members' leases."""
        if self.state == "held" and not self.known_leases():
            self.state = "lost"
            self.ownership.hold_ended(self)

    # Leases.

    def add_lease(self, members: list[Lease]) -> CompositeLease:
        """Return the lease of one more acquisition by its task."""
        lease = CompositeLease(self, members, self._needed)
        self._add(lease)
        return lease

    def lease_ended(self) -> None:
        """Note that one of several leases is over."""
        self.leases = without_oldest_ended(self.leases)

    def settle(self, lease: CompositeLease) -> None:
        """Record that a lease was released, or its loss reported."""
        lease._settle()
        self._remove(lease)

    def may_pass(self, longest: float, least_left: float) -> bool:
        """Return whether it may pass to another task of this client without asking a server."""
        leases = self.known_leases()
        if self.state != "held" or not self.ownership.passable or len(leases) != 1:
            return False
        holds = [hold_of(member) for member in leases[0].held_members]
        present = now()
        return (
            # Not if its task has entered a member by itself as well.
            all(
                hold.count == 1
                and hold.renewed
                and not hold.uncertain
                and hold.taken_until <= present
                for hold in holds
            )
            and end_of(leases[0]._members, self._needed) - present >= least_left
            and present - self.granted_at < longest
        )

    def pass_to(self, task: TaskRef) -> None:
        """Offer it to another task, with the holds of its members."""
        self.ownership.forget(self)
        (passed,) = self.known_leases()
        passed._settle()
        release_all(lost_of(passed._members))
        self.leases, self._forgotten, self.task = (), None, task
        taker = cast("Task", task())
        self.add_lease([hand_over(member, taker) for member in passed.held_members])

    def wait_for(self, pending: Pending, late: Gather[Lease] | None) -> None:
        """Keep the unanswered requests that may still be granted."""
        self.pending, self.late = pending, late

    def all_answered(self) -> None:
        """Forget the round: all servers have answered."""
        # The round refers to this hold; a hold in a reference cycle could not be abandoned.
        self.late = None

    def join(self, member: Lease) -> None:
        """Add the lease of a member that granted it late."""
        hold, task = hold_of(member), self.task()
        ownership = cast("TaskOwnership", hold.ownership)
        if not self.valid or task is None or is_waited_for(ownership):
            # Also if the task itself waits for the member, unaware that it holds it.
            release_all([member])
            return
        self.live[0].add(member if hold.task == self.task else hand_over(member, task))

    # Its end.

    def release(self) -> None:
        """End it just before its release is sent."""
        self.state = "released"

    def lose(self, reason: Reason) -> list[CompositeLease]:
        """End it without its holder's release; return the leases that went with it."""
        if self.state != "held":
            return []
        self.state = "lost"
        gone = self._lose_all(reason)
        if gone and self._needed < len(gone[0]._members):
            # Otherwise the log has it: the loss of any member is that of the composite.
            log.log(
                logging.DEBUG if reason == "ended" else logging.WARNING,
                "lost %s %r: too few of its members are left (%s, owner %s, held for %.3f s)",
                self.ownership.kind,
                self.ownership.name,
                reason,
                self.owner,
                now() - self.granted_at,
            )
        for lease in gone:
            lease.release_remaining()
        self.ownership.hold_ended(self)
        return gone

    def check(self) -> None:
        """Raise `AssertionError` if an invariant does not hold; for tests."""
        super().check()
        for lease in self.known_leases():
            for member in lease._members:
                assert cast("object", composite_of(member)) is lease, self
        assert all(len(each.held_members) >= self._needed for each in self.live), self


def end_of(members: Sequence[Lease], needed: int) -> float:
    """Return the moment until which at least `needed` of these leases are reliable."""
    ends = [member._ends_at for member in held_of(members)]
    if len(ends) < needed:
        return -math.inf
    ends.sort()
    return ends[-needed]


def live_leases(owners: Sequence[TaskOwnership], hold_key: bytes) -> set[CompositeLease]:
    """Return the leases of a composite that are held, to which those of its members refer."""
    made: set[CompositeLease] = set()
    leases = [lease for owner in owners for hold in owner.all_holds() for lease in hold.live]
    while leases:
        made.update(each for each in leases if isinstance(each, CompositeLease))
        # A composite may be a member too.
        above = map(composite_of, leases)
        leases = [cast("Lease", each) for each in above if each is not None]
    return {
        lease
        for lease in held_of(made)
        # A lock may be a member of several composites.
        if cast("CompositeHold", hold_of(lease)).ownership.hold_key == hold_key
    }
