"""A hold and its leases: what the server records for one owner on one name, and who has it here.

A lease is the handle of one acquisition; its hold is what the server knows. Only this file writes
the fields of both, except `bucket` and `ends_row`, which `schedule.py` keeps.
Other parts refer to holds: the queue may offer one to the next task, the schedule says when one is
due, `Holds` finds the holds on a key, `TaskHolds` the hold of a task.

A hold has a lease for each acquisition of its task. It can be passed to another task of this
client, which gets a lease of its own on the same owner; the server notices nothing.

Times are those of `_time.now()`. `ends_at` counts from the moment before the granting or
renewing request was first written, less an allowance for clocks that run at different speeds,
so it always comes before the end that the server sees.

Invariants, checked by `check()` after every step of the lifecycle tests:

- A hold is held, released or lost; it never becomes held again. An end that has passed is not
  moved any more: whoever asked after `lost` may have seen it.
- A held hold is in the watchdog unless it has no units; one that is over is not.
- A held hold has a lease or an unanswered re-entry, or it is being passed or released. If the user
  has dropped all its leases, the watchdog detects that.
- Its leases are those that were neither released nor reported as lost, oldest first; of those that
  ended by themselves the newest `MOST_ENDED_LEASES`. The number of leases that are still held
  equals the count on the server, less the unanswered re-entries, unless the hold is uncertain.
- It is renewed exactly while a held lease needs renewal: one without an end of its own, or with a
  `max_hold`. Renewals for a `max_hold` stop at its end.
- No lease is held when the hold is over.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Coroutine, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, Self, TypeVar, final

from redisson_py._answers import Change, RefusedError, Taken
from redisson_py._arguments import explained
from redisson_py._engine.awaiting import AsyncOnly
from redisson_py._engine.block import Block
from redisson_py._engine.server import Call, lease_from
from redisson_py._keys import Name
from redisson_py._listener import (
    AcquiredEvent,
    LossReason,
    LostEvent,
    ReleasedEvent,
    Teller,
    new_acquisition,
)
from redisson_py._loop import Future, current_task, fail, new_future, wake
from redisson_py._owner import Owners, TaskRef
from redisson_py._time import KEPT_LESS_SECONDS, Duration, check_lease_time, now
from redisson_py.errors import LeaseLostError, NotHeldError

if TYPE_CHECKING:
    from redisson_py._engine.server import Server
    from redisson_py._options import OnLost, OnReleaseError, Options
    from redisson_py._statistics import Counts

log = logging.getLogger("redisson_py")

#: Allowance for clock drift: a share of the lease, and a floor in seconds.
DRIFT_SHARE = 0.01
DRIFT_FLOOR_SECONDS = 0.002

#: How many leases that ended inside a hold are kept to be reported by a release that names none.
#: No code nests acquisitions that deep.
MOST_ENDED_LEASES = 100

L = TypeVar("L", bound="Lease")

State = Literal["held", "released", "lost"]
Reason = Literal["expired", "ended", "taken", "forced"]

#: What each reason of a loss means, for messages.
REASONS: dict[Reason, str] = {
    "expired": "expired: no renewal was confirmed in time",
    "ended": "ended: its lease_time or max_hold is over",
    "taken": "taken: on the server another owner holds it, or nobody does",
    "forced": "forced: force_release freed it, or its client was closed",
}


def lease_end(sent_at: float, lease_time: float) -> float:
    """Return the moment until which a holder may rely on a lease requested at `sent_at`."""
    return sent_at + lease_time * (1 - DRIFT_SHARE) - DRIFT_FLOOR_SECONDS


def max_hold_end(began: float, max_hold: float, lease_time: float) -> float:
    """Return the end of a hold limited to `max_hold` seconds, renewed to `lease_time` each time."""
    return began + max_hold - min(max_hold, lease_time) * DRIFT_SHARE - DRIFT_FLOOR_SECONDS


def lease_for(ends_at: float, present: float) -> float:
    """Return the lease to ask for at `present` so that a holder may rely on it until `ends_at`."""
    return max(0.001, (ends_at - present + DRIFT_FLOOR_SECONDS) / (1 - DRIFT_SHARE))


class TaskHold(Generic[L]):
    """A hold that can go from task to task: one on a server, or one made of others.

    Attributes:
        ownership: Whose it is.
        task: The task that has it.
        granted_at: When it was granted, for turns; passing does not change it.
        leases: Its leases, oldest first; none once only the user's references keep them alive.
    """

    __slots__ = (
        "__weakref__",
        "_forgotten",
        "granted_at",
        "leases",
        "ownership",
        "state",
        "task",
    )

    ownership: Any
    task: TaskRef
    granted_at: float
    state: State
    leases: tuple[L, ...]
    _forgotten: list[LeaseRef[L]] | None

    def __repr__(self) -> str:
        return (
            f"<hold of {self.ownership.kind} {self.ownership.name!r} by {self.owner}: {self.state}>"
        )

    @property
    def owner(self) -> str:
        """Its owner: a client's id and a number."""
        raise NotImplementedError

    @property
    def valid(self) -> bool:
        """Whether its holder can still rely on it, by the local clock."""
        raise NotImplementedError

    def may_pass(self, longest: float, least_left: float) -> bool:
        """Return whether it may pass to another task of this client without asking a server."""
        raise NotImplementedError

    def pass_to(self, task: TaskRef) -> None:
        """Offer it to another task, which takes it."""
        raise NotImplementedError

    @property
    def live(self) -> list[L]:
        """Its leases that are held and still referenced, oldest first."""
        return [lease for lease in self.known_leases() if lease._state == "held"]

    @property
    def left_to_block(self) -> bool:
        """Whether a block will release one of its leases."""
        return any(lease._left_to_block for lease in self.live)

    def known_leases(self) -> Sequence[L]:
        """Return its leases that are still referenced: held, or lost and not reported yet."""
        if self._forgotten is None:
            return self.leases
        return [lease for each in self._forgotten if (lease := each()) is not None]

    @property
    def outside_blocks(self) -> list[L]:
        """Its leases that no block will release, oldest first."""
        return [lease for lease in self.known_leases() if lease._block is None]

    @property
    def acquired_at(self) -> float:
        """When its newest lease was acquired: later than its grant, if it was passed."""
        return self.known_leases()[-1]._granted_at

    def acquired_since(self, lease: Lease) -> L | None:
        """Return its newest lease outside blocks, if that is younger than another one."""
        newer = [each for each in self.outside_blocks if each._granted_at > lease._granted_at]
        return newer[-1] if newer else None

    def taken_by(self, task: TaskRef) -> None:
        """Make this task its holder."""
        self.task = task

    def give_back(self) -> None:
        """Pass on or release a hold that no task took, without waiting."""
        self.ownership.give_back(self)

    def is_abandoned(self) -> bool:
        """Return whether it can no longer be released: its task ended, its leases are garbage."""
        if self._has_task:
            return False
        self._let_go()
        return not self.known_leases()

    @property
    def _has_task(self) -> bool:
        task = self.task()
        return task is not None and not task.done()

    def _ref(self, lease: L) -> LeaseRef[L]:
        return LeaseRef(lease)

    def _let_go(self) -> None:
        """From now on let only the user's references keep its leases alive."""
        if self._forgotten is None:
            self._forgotten = [self._ref(lease) for lease in self.live]
            self.leases = ()

    def _add(self, lease: L) -> None:
        if self._forgotten is None:
            self.leases = (*self.leases, lease)
        else:
            self._forgotten.append(self._ref(lease))

    def _remove(self, lease: L) -> None:
        if self.leases == (lease,):
            self.leases = ()
        elif self._forgotten is None:
            self.leases = tuple(each for each in self.leases if each is not lease)
        else:
            self._forgotten = [each for each in self._forgotten if each() is not lease]

    def _lose_all(self, reason: Reason) -> list[L]:
        """Lose its leases; return those that were held."""
        # A composite that loses one of these releases the others, which changes the list.
        return [lease for lease in list(self.known_leases()) if lease._lose(reason)]

    def check(self) -> None:
        """Raise `AssertionError` if an invariant does not hold; for tests."""
        known = self.known_leases()
        assert all(lease._hold is self for lease in known), self
        assert not any(lease._spent for lease in known), self
        assert self.state == "held" or not self.live, f"{self} has leases that hold"


class Hold(TaskHold["Lease"]):
    """One owner's hold on one name.

    Args:
        ownership: The ownership that acquired it and releases it.
        field: Its field on the server: a form of its owner.
        task: The task that has it.
        sent_at: The time from which its lease counts.
        lease_time: Seconds that the server granted.
        renewed: The watchdog renews it.
        units: The number of units of a semaphore.
        granted_at: When the server granted it, for turns; passing does not change it. None: now.
        asked_at: The time just before the granted request was written; None: `sent_at`.

    Attributes:
        asked_at: The time just before the request for its newest lease was written; None after it
            was passed.
        max_held: One of its leases has, or had, a `max_hold`.
        taken_until: The name stays taken until then, however early it is released; 0: it does not.
        batch: The owner of the request that granted it, if one request can grant several permits;
            of a fair lock the name under which a late copy of that request may enter the queue.
        guards: A transaction of the user's keeps others from being granted it. It is not passed to
            another task, which the transaction could not stop.
        suspended: It is not renewed, because an operation under way may end it.
        id_known: The user has read the permit's id, and can release the permit with it.
        uncertain: A reply was lost, so a duplicate of some request may arrive late.
        lease_until: The server keeps it at least until then by our clock, without any allowance.
        may_last_until: The server may keep it until then: a request without an answer asked for
            that. A release is repeated until then.
        parent: The write hold whose owner this read uses.
        reentries: The number of unanswered re-entries.
        reads: The number of reads under its owner, unanswered requests included.
        next_token: The fencing token of its next holder; `last_token` is the last it can give.
        reason: Why it was lost, if it was.
        bucket: Where it is in the schedule, or None.
        ends_row: The moment in the schedule's row for its end, or None.
    """

    __slots__ = (
        "_changes",
        "_last_change",
        "_units_there",
        "asked_at",
        "batch",
        "bucket",
        "ends_at",
        "ends_row",
        "field",
        "guards",
        "id_known",
        "last_token",
        "lease_until",
        "max_held",
        "may_last_until",
        "next_token",
        "parent",
        "reads",
        "reason",
        "reentries",
        "renewed",
        "suspended",
        "taken_until",
        "uncertain",
        "units",
    )

    def __init__(
        self,
        ownership: Keeper,
        field: bytes,
        task: TaskRef,
        sent_at: float,
        lease_time: float,
        renewed: bool,
        *,
        units: int = 1,
        uncertain: bool = False,
        parent: Hold | None = None,
        batch: str | None = None,
        granted_at: float | None = None,
        asked_at: float | None = None,
    ) -> None:
        self.ownership: Keeper = ownership
        self.batch: str | None = batch
        self.field: bytes = field
        self.task: TaskRef = task
        self.asked_at: float | None = sent_at if asked_at is None else asked_at
        self.max_held: bool = False
        self.taken_until: float = 0.0
        self.ends_at: float = sent_at + lease_time * (1 - DRIFT_SHARE) - DRIFT_FLOOR_SECONDS
        self.lease_until: float = sent_at + lease_time
        self.may_last_until: float = self.lease_until
        self.renewed: bool = renewed
        self.units: int = units
        self.uncertain: bool = uncertain
        self.parent: Hold | None = parent
        self.granted_at: float = now() if granted_at is None else granted_at
        self.state: State = "held"
        self.leases: tuple[Lease, ...] = ()
        self.reads: int = 0
        self.next_token: int | None = None
        self.last_token: int = 0
        self.guards: bool = False
        self.id_known: bool = False
        self.suspended: bool = False
        self.reason: Reason = "expired"
        self.bucket: dict[Hold, None] | None = None
        self.ends_row: float | None = None
        self.reentries: int = 0
        self._changes = 0
        self._last_change = 0
        self._units_there = units
        self._forgotten = None
        if uncertain and parent is not None:
            parent.became_uncertain()
        if units:
            ownership.context.watchdog.add(self, sent_at + lease_time / 3)
        else:
            # A hold without units has nothing on the server that could end.
            self.ends_at = float("inf")

    @property
    def owner(self) -> str:
        """Its owner: the client's id and a number."""
        return self.ownership.commands.owner(self.field)

    # What it is now.

    @property
    def valid(self) -> bool:
        """Whether its holder can still rely on it, by the local clock."""
        return self.state == "held" and now() < self.ends_at

    @property
    def count(self) -> int:
        """The hold count that the server has, or is about to have."""
        if not self.leases and self._forgotten is None:
            return self.reentries
        return len(self.live) + self.reentries

    @property
    def asked_after(self) -> bool:
        """Whether the server is asked about it regularly: to renew it, or to look after it."""
        return not self.suspended and (self.renewed or self.ownership.commands.shares_lease)

    @property
    def in_passage(self) -> bool:
        """Whether it was passed to a task that has not taken it yet."""
        return not (self.leases or self.reentries) and self._forgotten is None

    @property
    def capped(self) -> bool:
        """Whether it reads under a write hold that ends by itself, which then limits its lease."""
        parent = self.parent
        return parent is not None and parent.state == "held" and not parent.renewed

    @property
    def keeps_parent(self) -> bool:
        """Whether the server may keep the write hold that it reads under longer than needed."""
        parent = self.parent
        if parent is None or not self.capped:
            return False
        return parent.is_changing or self.lease_until > parent.lease_until + KEPT_LESS_SECONDS

    @property
    def earliest_end(self) -> float:
        """The moment at which it, or the first of its leases, ends by itself."""
        limits = [lease._limit for lease in self.live]
        return min([self.ends_at, *(limit for limit in limits if limit is not None)])

    def lease_needed(self, renewing: float, present: float) -> float:
        """Return the seconds that its leases need now; a renewed lease needs `renewing` seconds."""
        needs = [lease._need(renewing, present) for lease in self.live]
        if self.reentries or not needs:
            needs.append(renewing)
        needed = max(needs)
        if self.taken_until > present:
            # Should nothing more be heard of this process, the server keeps it until then; a hold
            # that is renewed, for one lease.
            taken = self.taken_until - present
            needed = max(needed, min(taken, renewing) if self.renewed else taken)
        if self.capped and self.parent is not None:
            needed = min(needed, max(0.001, self.parent.lease_until - present))
        return needed

    def is_abandoned(self) -> bool:
        """Return whether it can no longer be released: its task ended, its leases are garbage."""
        if self._has_task or self.reentries or self.id_known:
            return False
        self._let_go()
        for each in self._forgotten or ():
            lease = each()
            if lease is None:
                continue
            if lease._composite is None:
                return False
            if (composite := lease._composite()) is not None:
                # The user may still release it with the composite, but not through its hold.
                composite._hold.is_abandoned()
            # Otherwise this name would keep the lease alive.
            del lease
        return not self.known_leases()

    # Leases: acquired, re-entered, ended.

    def may_pass(self, longest: float, least_left: float) -> bool:
        """Return whether it may pass to another task of this client without asking the server."""
        present = now()
        return (
            self.state == "held"
            and self.renewed
            and not self.uncertain
            and not self._changes
            and not self.guards
            and not self.reads
            and self.taken_until <= present
            and self.ends_at - present >= least_left
            and present - self.granted_at < longest
            and (self.next_token is None or self.next_token <= self.last_token)
        )

    def guard(self) -> None:
        """Record that a transaction may be bound to it: its next holder is the server's choice."""
        self.guards = True

    def keep_taken(self, moment: float) -> None:
        """Have the name stay taken until a moment, however early it is released."""
        self.taken_until = max(self.taken_until, moment)

    def stays_taken(self, present: float) -> Taken | None:
        """Return for how long the name stays taken if it ends now; None: it is free."""
        if self.taken_until <= present:
            return None
        # With a change under way it is not known which lease the server has.
        unknown = self.uncertain or self._changes > 0
        return Taken(self.taken_until, None if unknown else self.taken_until - self.lease_until)

    def add_lease(self, lease: Lease) -> None:
        """Add the lease of one more acquisition by its task."""
        if self._forgotten is None and not self.leases:
            self.leases = (lease,)
        else:
            self._add(lease)
        if lease._limit is None:
            if not self.renewed:
                self._set_renewed(True)
        else:
            # It may be the only lease left; the lease that it re-entered was renewed.
            self.reviewed()

    def pass_to(self, task: TaskRef) -> None:
        """Offer it to another task, which takes it and adds a lease of its own."""
        self.ownership.forget(self)
        if self._forgotten is not None:
            self._tell_garbage("abandoned")
            self._forgotten = None
        self.task = task
        self.leases = ()
        self.id_known = False
        self.asked_at = None
        self.max_held = False
        self.taken_until = 0.0

    def begin_reentry(self, lease_time: float) -> tuple[int, Change]:
        """Begin a re-entry; return the hold count that it asks for."""
        self.reentries += 1
        remembered = self._begin(lease_time)
        number = self.ownership.context.owners.new_number()
        return self.count, Change(number, remembered)

    def reentered(self, asked_at: float, sent_at: float, lease_time: float, change: Change) -> bool:
        """Record that a re-entry was granted, with a lease that counts from `sent_at`.

        Return whether that lease counts. It does not if a later change, as of a release beside it,
        has set another lease.
        """
        self.asked_at = asked_at
        if self.changed_since(change):
            return False
        self.renewal_confirmed(lease_end(sent_at, lease_time), sent_at + lease_time)
        return True

    def end_reentry(self, uncertain: bool) -> None:
        """Record that a re-entry was answered, or that it will not be."""
        if not self.valid:
            self.ownership.context.watchdog.end_overdue(self)
        self.reentries -= 1
        self._changes -= 1
        if uncertain:
            self.became_uncertain()

    def bring_tokens(self, first: int, number: int) -> None:
        """Record the fencing tokens of a grant: one for each task that holds it in turn."""
        self.next_token = first
        self.last_token = first + number - 1

    @property
    def token(self) -> int | None:
        """The fencing token of its present holder."""
        return None if self.next_token is None else self.next_token - 1

    def take_token(self) -> int | None:
        """Return the fencing token of its next holder."""
        token = self.next_token
        if token is not None:
            self.next_token = token + 1
        return token

    def settle(self, lease: Lease) -> int:
        """Record that a lease was released, or its loss reported; return the count left."""
        # As `Lease._settle`, without the cost of a call.
        lease._spent = True
        if lease._state == "held":
            lease._state = "released"
        if self.leases == (lease,):
            self.leases = ()
            return self.reentries
        self._remove(lease)
        self._review()
        return self.count

    def release_refused(self, lease: Lease) -> None:
        """Take back a released lease, because the server has refused to lower the count.

        So a second release gives back this lease, and not the one around it. Not for a block that
        ends, or a composite, which would not release it again: there the next change of the hold
        lowers the count.
        """
        if self.state == "held" and lease._state == "released":
            lease._unsettle()
            self.add_lease(lease)

    def limit_renewals(self, max_hold: float, lease: Lease) -> None:
        """Renew it for this lease until at most `max_hold` seconds after its grant.

        The last lease on the server also ends by then if clocks drift no more than allowed for.
        """
        lease_time = self.ownership.context.options.lease_time
        began = lease._granted_at if self.asked_at is None else self.asked_at
        self.keep_until(max_hold_end(began, max_hold, lease_time), lease)

    def keep_until(self, moment: float, lease: Lease) -> None:
        """Renew it for this lease until a moment, at which the lease ends."""
        self.max_held = True
        lease._set_limit(moment, renewed=True)
        self.reviewed()
        lease_time, present = self.ownership.context.options.lease_time, now()
        needed = self.lease_needed(lease_time, present)
        if self.state == "held" and self.lease_until - present > needed + lease_time * DRIFT_SHARE:
            # If this process dies, the server must not keep it longer either.
            self.ownership.set_needed_lease(self)
            self.lease_maybe_set(present, needed)

    def end_reason(self, moment: float) -> Reason | None:
        """Return why the whole hold is over at a moment, by the clock; None if some of it holds."""
        if self.ends_at <= moment and not self.renewed:
            return "ended"
        limits = [lease._limit for lease in self.live]
        last = moment if moment < self.ends_at else self.ends_at + KEPT_LESS_SECONDS
        if (
            limits
            and not self.reentries
            and all(each is not None and each <= last for each in limits)
        ):
            return "ended"
        return "expired" if self.ends_at <= moment else None

    def end_overdue(self, present: float) -> list[Lease]:
        """End the leases whose own time is over; return them."""
        overdue = [
            lease for lease in self.live if lease._limit is not None and lease._limit <= present
        ]
        for lease in overdue:
            lease._lose("ended")
        self.leases = without_oldest_ended(self.leases)
        if self._forgotten is not None:
            # Keep the leases whose loss is not recorded yet.
            self._forgotten = [each for each in self._forgotten if each() not in overdue]
        self._review()
        return overdue

    def reviewed(self) -> None:
        """Review renewal and the end after a lease's end has changed."""
        self._review()
        if self.state == "held":
            self.ownership.context.watchdog.watch_end(self)

    def _review(self) -> None:
        """Renew it exactly if one of its leases needs that."""
        if self.state == "held" and (live := self.live):
            self._set_renewed(any(lease._is_renewed for lease in live))

    def _set_renewed(self, renewed: bool) -> None:
        if renewed != self.renewed:
            self.renewed = renewed
            self.ownership.context.watchdog.reconsider(self)

    # What the server keeps of it.

    def renewal_sent(self, lease_until: float) -> None:
        """Record that the server may keep it until then, whatever becomes of the answer."""
        if self.may_last_until < lease_until:
            self.may_last_until = lease_until

    def renewal_confirmed(self, ends_at: float, lease_until: float) -> None:
        """Record a renewal, which never shortens the lease."""
        if self.ends_at < ends_at:
            self.ends_at = ends_at
        if self.lease_until < lease_until:
            self.lease_until = lease_until
        self.renewal_sent(lease_until)

    def lease_set(self, sent_at: float, lease_time: float) -> None:
        """Record that the server set its lease, longer or shorter."""
        self.ends_at = lease_end(sent_at, lease_time)
        self.lease_until = sent_at + lease_time
        if not self._changes or self.may_last_until < self.lease_until:
            # No older request counts on the server any more.
            self.may_last_until = self.lease_until
        self.ownership.context.watchdog.watch_end(self)

    def lease_maybe_set(self, sent_at: float, lease_time: float) -> None:
        """Rely on the shorter lease, because the server may have set this one."""
        self.ends_at = min(self.ends_at, lease_end(sent_at, lease_time))
        self.lease_until = min(self.lease_until, sent_at + lease_time)
        self.ownership.context.watchdog.watch_end(self)

    def begin_change(self, lease_time: float = 0.0) -> Change:
        """Begin a change; `lease_time` is the lease that it sets, if it sets one."""
        remembered = self._begin(lease_time)
        self._last_change = number = self.ownership.context.owners.new_number()
        return Change(number, remembered)

    def _begin(self, lease_time: float) -> bool:
        keep = self.uncertain or self._changes > 0
        self._changes += 1
        # The server may execute it as late as its deadline.
        end = now() + self.ownership.context.options.command_timeout + lease_time
        if lease_time and self.may_last_until < end:
            self.may_last_until = end
        return keep

    def begin_read_change(self) -> Change:
        """Begin the release of a read under this write hold."""
        self._changes += 1
        return Change(self.ownership.context.owners.new_number(), remembered=True)

    @property
    def unsettled(self) -> bool:
        """Whether an older request under its owner may still arrive."""
        return self.uncertain or self._changes > 0 or self.reads > 0

    def changed_since(self, change: Change) -> bool:
        """Return whether a change of its lease was sent after this one."""
        return change.number < self._last_change

    def is_last_change(self, change: Change) -> bool:
        """Return whether no other change of its lease was sent after this one."""
        return change.number == self._last_change

    def end_change(self, call: Call) -> None:
        """Record that a change was answered, or that its answer is no longer awaited."""
        self._changes -= 1
        future = call.future
        if call.uncertain or future.cancelled() or future.exception() is not None:
            self.became_uncertain()

    @property
    def is_changing(self) -> bool:
        """Whether a change of it, such as a re-entry, is under way."""
        return self._changes > 0

    def became_uncertain(self) -> None:
        """Record that some request under its owner may arrive twice, or late."""
        self.uncertain = True
        if self.parent is not None:
            self.parent.uncertain = True

    def count_read(self, change: int) -> None:
        """Add to the number of reads under its owner, unanswered requests included."""
        self.reads += change

    def id_read(self) -> None:
        """Record that the permit's id was read: it can be released with that id."""
        self.id_known = True

    def suspend(self) -> None:
        """Stop renewing it while an operation that may end it is under way."""
        self.suspended = True
        self.ownership.context.watchdog.reconsider(self)

    def resume(self) -> None:
        """Renew it again, if it is still held."""
        self.suspended = False
        if self.state == "held":
            self.ownership.context.watchdog.reconsider(self)

    def units_fell(self, units: int) -> None:
        """Record that this number of its units was released."""
        self.units -= units

    def units_lowered(self, units: int) -> None:
        """Record that the server has this number of its units now."""
        self._units_there = units

    def units_refused(self, change: Change) -> None:
        """Record that the server has refused this change, and has the units that it had before.

        If another change is under way, its answer decides.
        """
        if self.is_last_change(change) or not self.is_changing:
            self.units = self._units_there

    # Its end.

    def lose(self, reason: Reason) -> list[Lease]:
        """End it without its holder's release; return the leases that were lost with it."""
        if self.state != "held":
            return []
        held_for = now() - self.granted_at
        self._tell_garbage(reason)
        self.end("lost")
        self.reason = reason
        if reason in ("taken", "forced"):
            # It is not there any more, or somebody wants the name free.
            self.taken_until = 0.0
        gone = self._lose_all(reason)
        # The holder itself set the end of an "ended" lease.
        log.log(
            logging.DEBUG if reason == "ended" else logging.WARNING,
            "lost %s %r: %s (owner %s, held for %.3f s)",
            self.ownership.kind,
            self.ownership.name,
            REASONS[reason],
            self.owner,
            held_for,
        )
        self.ownership.lost(self)
        return gone

    def abandon(self) -> None:
        """End it because nobody can release it any more; its lease on the server runs out."""
        self.end("lost")
        log.warning(
            "%s %r is no longer renewed: its task ended without releasing it, and nothing else can"
            " release it (owner %s)",
            self.ownership.kind,
            self.ownership.name,
            self.owner,
        )
        self.ownership.lost(self)

    def end(self, state: State) -> None:
        """End it: its release is about to be sent, or it was lost."""
        if self._forgotten is not None:
            self._tell_garbage("abandoned")
        self.state = state
        self.ownership.context.watchdog.remove(self)
        if self.parent is not None:
            self.parent.count_read(-1)

    def _tell_garbage(self, reason: LossReason) -> None:
        """Report each garbage-collected lease as lost, once."""
        if self._forgotten is None:
            return
        garbage = [each for each in self._forgotten if each() is None]
        self._forgotten = [each for each in self._forgotten if each not in garbage]
        context, held_for = self.ownership.context, now() - self.granted_at
        for each in garbage:
            context.counts.losses[reason] += 1
            if context.teller is not None:
                number = each.acquisition
                tell_lost(context.teller, self, self.token, held_for, reason, number)

    def check(self) -> None:
        """Raise `AssertionError` if an invariant does not hold; for tests."""
        super().check()
        watchdog, held = self.ownership.context.watchdog, self.live
        assert (self.state == "held" and self.units > 0) == (self in watchdog.holds), self
        if self.state != "held":
            assert self.bucket is None, self
            assert self.ends_row is None, self
            return
        if held and self._forgotten is None:
            assert self.renewed == any(lease._is_renewed for lease in held), self
            assert self.max_held or not any(
                lease._is_renewed and lease._limit is not None for lease in held
            ), self
        assert (self.bucket is not None) == (self.units > 0 and self.asked_after), self
        assert self.reentries >= 0, self
        assert self._changes >= 0, self
        assert self.reads >= 0, self


def without_oldest_ended(leases: tuple[L, ...]) -> tuple[L, ...]:
    """Return leases without those that ended first, if too many have ended and were not reported.

    Their tasks never released them, so nobody asks, and the hold around them may go on for long.
    """
    ended = [lease for lease in leases if lease._state == "lost"]
    if len(ended) <= MOST_ENDED_LEASES:
        return leases
    forgotten = set(ended[:-MOST_ENDED_LEASES])
    return tuple(lease for lease in leases if lease not in forgotten)


@final
class LeaseRef(weakref.ref[L]):
    """A weak reference to a lease, with the lease's acquisition number for listeners."""

    __slots__ = ("acquisition",)

    acquisition: int

    def __new__(cls, lease: L, collected: Callable[[object], None] | None = None) -> Self:
        """Create the reference; number the acquisition if it has no number yet."""
        self = super().__new__(cls, lease, collected)
        self.acquisition = lease._number()
        return self


def lost_error(
    ownership: Released, owner: str, held_for: float, reason: Reason, why: str = ""
) -> LeaseLostError:
    """Return the error for a loss; with `why`, of a hold that this client never had."""
    what = f"{ownership.kind} {ownership.name!r}"
    text = f"{why} {what} was lost" if why else f"{what} was lost after {held_for:.3f} s"
    return LeaseLostError(
        f"{text} ({REASONS[reason]})",
        ownership.name,
        owner,
        held_for,
        reason,
    )


def tell_lost(
    teller: Teller,
    hold: Hold,
    token: int | None,
    held_for: float,
    reason: LossReason,
    acquisition: int,
) -> None:
    """Tell a listener that a lease of a hold was lost."""
    name, kind = hold.ownership.name, hold.ownership.kind
    event = LostEvent(name, kind, hold.owner, token, held_for, reason, acquisition)
    teller.tell("lost", event)


#: Seconds for which the server keeps a lease beyond its `max_hold`, so that the reason of its end
#: is "ended" and not "expired".
_MARGIN_SECONDS = 0.001


class Begun(Protocol):
    """A release under way."""

    def wait(self) -> Coroutine[Any, Any, None]:
        """Wait for its answer; raise the error that this means. It is carried out if cancelled."""
        ...


class Released(Protocol):
    """Releases an acquisition and sets its lease."""

    def begin_release(self, lease: Lease, future: Future[Any] | None = None) -> Begun | None:
        """Send the release of an acquisition; None: it was passed on, or was not on the server.

        `future` gets the answer, if the whole hold ends and nothing late can arrive for it.
        """
        ...

    async def extend(self, lease: Lease, lease_time: float) -> None: ...
    async def hand_over(self, lease: Lease, lease_time: float | None) -> str: ...

    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> Name: ...
    @property
    def on_lost(self) -> OnLost: ...
    @property
    def on_release_error(self) -> OnReleaseError: ...


class KeptKind(Protocol):
    """What a hold knows of its kind; see `Commands`."""

    @property
    def key(self) -> bytes: ...
    @property
    def shares_lease(self) -> bool: ...
    def owner(self, field: bytes, /) -> str: ...


class Renewing(Protocol):
    """What a hold tells the watchdog; see `Watchdog`."""

    @property
    def holds(self) -> Iterable[Hold]: ...
    def add(self, hold: Hold, due: float) -> None: ...
    def remove(self, hold: Hold) -> None: ...
    def reconsider(self, hold: Hold) -> None: ...
    def watch_end(self, hold: Hold) -> None: ...
    def end_overdue(self, hold: Hold) -> None: ...
    def lose(self, hold: Hold, reason: Reason) -> object: ...


class KeepersClient(Protocol):
    """What a hold needs of its client; see `Context`."""

    @property
    def options(self) -> Options: ...
    @property
    def executor(self) -> Server: ...
    @property
    def owners(self) -> Owners: ...
    @property
    def watchdog(self) -> Renewing: ...
    @property
    def counts(self) -> Counts: ...
    @property
    def teller(self) -> Teller | None: ...
    @property
    def system(self) -> str: ...


class Keeper(Released, Protocol):
    """Keeps a hold: what a hold tells, and asks, its `Ownership`."""

    @property
    def commands(self) -> KeptKind: ...
    @property
    def context(self) -> KeepersClient: ...
    def forget(self, hold: Hold) -> None: ...
    def give_back(self, hold: Hold) -> None: ...
    def lost(self, hold: Hold) -> None: ...
    def undo_late(self, hold: Hold) -> None: ...
    def set_needed_lease(self, hold: Hold) -> None: ...
    def send_set_lease(self, hold: Hold, lease_time: float, change: Change) -> Call: ...
    def refusal(self, hold: Hold, lease: Lease, call: Call, error: RefusedError) -> Exception: ...
    def lower(self, hold: Hold) -> Call: ...
    def warn_of_long_waits(self, hold: Hold, present: float, long: float) -> None: ...
    def check_tasks_view(self, hold: Hold) -> None: ...


class Composed(Protocol):
    """A lease made of member leases, which refer to it weakly so that it can be abandoned."""

    @property
    def _hold(self) -> TaskHold[Any]: ...
    @property
    def _block(self) -> Block | None: ...
    def _member_lost(self, reason: Reason) -> None: ...


class Lease(AsyncOnly):
    """A time-limited right, from one acquisition to its release or its loss.

    Use it as `async with lock as lease`, or keep it and call `release` yourself, from any
    task. It is always true, so that `if await lock.try_acquire():` works; `lost` says whether you
    can no longer rely on it.

    When the lease is lost inside an `async with` block, the body is cancelled and the block raises
    `LeaseLostError`, once. An exception of the body is never masked: it propagates with the loss
    as a note. With `on_lost="raise"` the body runs on and the error is raised at its end.

    Not promised: that no code of the body runs after the loss. A body that blocks the event
    loop, or that was about to resume, notices at its next await; `check()` raises at once. Only
    the fencing token, checked by the protected resource, is safe against a paused body.
    """

    __slots__ = (
        "__weakref__",
        "_acquisition",
        "_block",
        "_composite",
        "_ended_at",
        "_granted_at",
        "_hold",
        "_limit",
        "_lost_waiters",
        "_reason",
        "_renewed",
        "_spent",
        "_state",
        "_token",
        "_unreleased",
        "_wanted",
    )

    #: Whether its losses are counted. Those of composites are not; their members' are.
    _counts: ClassVar[bool] = True

    def __init__(
        self, hold: Hold, limit: float | None, token: int | None, granted_at: float
    ) -> None:
        self._hold = hold
        #: The moment at which it ends by itself, or None.
        self._limit = limit
        #: It is renewed until that moment: it has a `max_hold`.
        self._renewed = False
        #: The moment at which it will end once the server confirms the extension under way.
        self._wanted: float | None = None
        self._granted_at = granted_at
        self._state: State = "held"
        self._reason: Reason = "taken"
        #: It was released, or its loss was reported: no call may use it any more.
        self._spent = False
        self._unreleased = ""  # why its release failed, if it did
        self._ended_at: float | None = None
        self._lost_waiters: list[Future[None]] | None = None
        #: The `async with` block that it belongs to.
        self._block: Block | None = None
        #: The composite lease of which this is a member; it learns of a loss at once.
        self._composite: weakref.ref[Composed] | None = None
        self._token = token
        #: Its number for a listener; 0 until one is needed.
        self._acquisition = 0

    def __repr__(self) -> str:
        state = f"{self.remaining:.3f} s left" if self._state == "held" else self._state
        return f"<{type(self).__name__} of {self._hold.ownership.kind} {self.name!r}: {state}>"

    def __bool__(self) -> bool:
        return True

    @property
    def name(self) -> Name:
        """The resource name."""
        return self._hold.ownership.name

    @property
    def owner(self) -> str:
        """The owner on the server: the client's id and a number."""
        return self._hold.owner

    @property
    def token(self) -> int | None:
        """The fencing token of a fenced lock, else None. No I/O."""
        return self._token

    @property
    def _ends_at(self) -> float:
        """The moment, by the library's clock, until which the holder may rely on it."""
        if self._limit is None:
            return self._hold.ends_at
        return min(self._limit, self._hold.ends_at)

    @property
    def remaining(self) -> float:
        """Seconds for which the holder may still rely on it; 0.0 once lost or released. No I/O.

        By the local monotonic clock, counted from before the last granting request was sent.
        """
        return max(0.0, self._ends_at - now()) if self._state == "held" else 0.0

    @property
    def lost(self) -> bool:
        """Whether it ended before its release. No I/O."""
        return self._state == "lost" or (self._state == "held" and now() >= self._ends_at)

    def check(self) -> None:
        """Raise `LeaseLostError` if it is lost, and nothing after a release. No I/O.

        Raises:
            LeaseLostError: The holder can no longer rely on it.
        """
        if self.lost:
            raise self._loss()

    async def wait_lost(self) -> None:
        """Return when the lease is lost; wait forever if it is released. Cancelling is harmless.

        Raises:
            ClientClosedError: The client was closed.
        """
        if self.lost:
            return
        if self._lost_waiters is None:
            self._lost_waiters = []
        future = new_future()
        self._lost_waiters.append(future)
        try:
            await future
        finally:
            self._lost_waiters.remove(future)
            # A traceback must not keep the future alive.
            del future

    @explained
    async def extend(self, lease_time: Duration) -> None:
        """Set the lease to end `lease_time` seconds from now.

        The watchdog then stops renewing it, and a `max_hold` no longer applies: the new end may be
        before or after it. A cancelled call is still carried out.

        Raises:
            LeaseLostError: The lease was already lost.
            NotHeldError: The lease was released.
            ConnectionLostError: The server did not answer; the old or the new lease is in force.
            ValueError: `lease_time` is not a positive, finite time.
        """
        seconds = check_lease_time(lease_time)
        if self._state == "released":
            raise NotHeldError(f"{self._hold.ownership!r} was already released")
        self.check()
        await self._hold.ownership.extend(self, seconds)

    @explained
    async def hand_over(self, *, lease_time: Duration | None = None) -> str:
        """Give the hold to another process; return the token with which `client.adopt` takes it.

        This lease is over then: nothing here renews it, its block ends without releasing the name,
        and `release` raises `NotHeldError`. The name stays taken for `lease_time` seconds. Within
        these the first `adopt` gets the hold, with the same fencing token; if there is none, the
        name becomes free. Who has the token can take the hold: send it as you would a password.

        If this call is cancelled or raises an error, no token exists, and the lease goes on as
        before, except after `LeaseLostError` and `NotHeldError`.

        Not promised: that a token is adopted; that the adopter gets it in time. A caller that is
        cancelled, or dies, before it has passed the token on, leaves the name taken for
        `lease_time`.

        Args:
            lease_time: Seconds from now that the adopter has; never less than the lease has left.
                Default: the client's `lease_time`.

        Raises:
            LeaseLostError: The lease was already lost.
            NotHeldError: It was released, or handed over before.
            RuntimeError: It cannot be handed over: its task has acquired it more than once, it has
                a `max_hold`, or a `min_hold` that is not over, it belongs to a `MultiLock` or
                `RedLock`, it is a permit or one side of a read-write lock, or the client is not one
                of Redis. It is still held.
            ConnectionLostError: The server did not answer. It is still held, and renewed.
            ValueError: `lease_time` is not a positive, finite time.
        """
        seconds = None if lease_time is None else check_lease_time(lease_time)
        if self._spent:
            raise self._not_held()
        self.check()
        return await self._hold.ownership.hand_over(self, seconds)

    async def release(self) -> None:
        """Release this acquisition. A cancelled release is still carried out.

        If its end has passed but the server still has it, the release may succeed without an error.

        Raises:
            NotHeldError: It was already released, or its release failed: the text says which.
            LeaseLostError: It was already lost; nothing is held.
            ReleaseFailedError: The server did not answer for `command_timeout`. The release is
                repeated until the lease has run out.
        """
        if self._spent:
            raise self._not_held()
        begun = self._hold.ownership.begin_release(self)
        if begun is not None:
            await begun.wait()

    async def __aenter__(self) -> Self:
        if self._spent:
            raise self._not_held()
        self.check()
        Block(None).begin(self, current_task())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        block = self._block
        if block is None or block.is_of_source:
            # No block was entered with it, but this exit must release it.
            if self._spent:
                return
            block = Block(None)
            block.begin(self, current_task())
        await block.exit(kind, error, trace)

    # For the library.

    def _not_held(self) -> NotHeldError:
        """Return the error of a call that needs it, after its release or its reported loss."""
        text = "was lost, as reported before" if self._state == "lost" else "was already released"
        if self._unreleased:
            text = f"cannot be released again: {self._unreleased}"
        return NotHeldError(f"{self._hold.ownership.kind} {self.name!r} {text}")

    def _lose(self, reason: Reason) -> bool:
        """Mark it lost and cancel its block; return whether it was held."""
        if self._state != "held":
            return False
        self._lost(reason)
        if self._block is not None and self._hold.ownership.on_lost == "cancel":
            self._block.cancel(f"{self._hold.ownership.kind} {self.name!r} was lost ({reason})")
        return True

    def _lost(self, reason: Reason) -> None:
        is_new = self._state != "lost"
        self._state = "lost"
        self._reason = reason
        self._ended_at = present = now()
        if is_new:
            context = self._hold.ownership.context
            if self._counts:
                context.counts.losses[reason] += 1
            if context.teller is not None:
                held_for = present - self._granted_at
                number = self._acquisition
                tell_lost(context.teller, self._hold, self.token, held_for, reason, number)
        for waiter in self._lost_waiters or ():
            wake(waiter)
        if (composite := composite_of(self)) is not None:
            composite._member_lost(reason)

    def _settle(self) -> None:
        """Mark it released, or its loss reported; a lost lease stays lost."""
        self._spent = True
        if self._state == "held":
            self._state = "released"

    def _unsettle(self) -> None:
        self._state, self._spent, self._unreleased = "held", False, ""

    def _close(self, error: BaseException) -> None:
        """End it because its client closes, and stop its block."""
        for waiter in self._lost_waiters or ():
            fail(waiter, error)
        self._lose("forced")

    def _number(self) -> int:
        """Return the number of this acquisition, unique in this process."""
        if not self._acquisition:
            self._acquisition = new_acquisition()
        return self._acquisition

    def _set_limit(
        self, limit: float | None, wanted: float | None = None, *, renewed: bool = False
    ) -> None:
        """Set its end, its end once the server confirms an extension, and whether it is renewed."""
        self._limit = limit
        self._wanted = wanted
        self._renewed = renewed

    def _keep_for(self, max_hold: float) -> None:
        """Have it renewed until at most `max_hold` seconds after its grant."""
        self._hold.limit_renewals(max_hold, self)

    def _keep_until(self, moment: float) -> None:
        """Have it renewed until `moment`, at which it ends."""
        self._hold.keep_until(moment, self)

    def _keep_taken_for(self, min_hold: float) -> None:
        """Have the name stay taken until `min_hold` seconds after its grant."""
        self._keep_taken(self._granted_at + min_hold)

    def _keep_taken(self, moment: float) -> None:
        """Have the name stay taken until `moment`, however early it is released."""
        self._hold.keep_taken(moment)

    @property
    def _is_renewed(self) -> bool:
        """Whether the watchdog renews it, with an end or without one."""
        return self._limit is None or self._renewed

    def _need(self, renewing: float, present: float) -> float:
        """Return the seconds of lease that it needs; a renewed one needs `renewing` seconds."""
        if self._limit is None:
            return renewing
        if self._renewed:
            return min(renewing, lease_for(self._limit + _MARGIN_SECONDS, present))
        return lease_for(self._wanted_until, present)

    @property
    def _wanted_until(self) -> float:
        """The moment until which the server must keep a lease that has a limit."""
        return max(self._limit or 0.0, self._wanted or 0.0)

    @property
    def _left_to_block(self) -> bool:
        """Whether a block will release it: its own, or that of its composite."""
        composite = composite_of(self)
        return self._block is not None or (composite is not None and composite._block is not None)

    @property
    def _overdue_reason(self) -> Reason:
        """The reason of its loss when it is over by the clock."""
        if self._limit is None or (
            self._renewed and self._hold.ends_at + KEPT_LESS_SECONDS < self._limit
        ):
            return "expired"
        return "ended"

    def _loss(self) -> LeaseLostError:
        """Return the error for its loss."""
        if self._state == "held":
            # It is over by the clock; the timer is late.
            self._reason = self._overdue_reason
        held_for = (self._ended_at or now()) - self._granted_at
        return lost_error(self._hold.ownership, self.owner, held_for, self._reason)


class FencedLease(Lease):
    """The lease of a `FencedLock`, with a fencing token."""

    __slots__ = ()

    @property
    def token(self) -> int:
        """The fencing token: greater than that of every earlier holder. No I/O."""
        assert self._token is not None
        return self._token


# Users have a `Lease`, so what only the library asks it is no method of it.


def hold_of(lease: Lease) -> Hold:
    """Return the hold of a lease."""
    return lease._hold


def held_of(leases: Iterable[L]) -> list[L]:
    """Return those of these leases that were neither released nor lost, whatever the clock says."""
    return [lease for lease in leases if lease._state == "held"]


def lost_of(leases: Iterable[L]) -> list[L]:
    """Return those of these leases that were lost."""
    return [lease for lease in leases if lease._state == "lost"]


def is_lost(lease: Lease) -> bool:
    """Return whether a lease was lost, whatever the clock says."""
    return lease._state == "lost"


def is_settled(lease: Lease) -> bool:
    """Return whether a lease was released, or its loss reported."""
    return lease._spent


def has_max_hold(lease: Lease) -> bool:
    """Return whether a lease is renewed until a moment at which it ends."""
    return lease._renewed and lease._limit is not None


def to_release(leases: Iterable[L]) -> list[tuple[Hold, L]]:
    """Return with their holds those that were not released, and whose loss was not reported."""
    return [(lease._hold, lease) for lease in leases if not lease._spent]


def reason_of(lease: Lease) -> Reason:
    """Return why a lease was lost."""
    return lease._reason


def composite_of(lease: Lease) -> Composed | None:
    """Return the lease of a composite that relies on this one."""
    return None if lease._composite is None else lease._composite()


def rely_on(leases: Iterable[Lease], composite: Composed) -> None:
    """Make leases the members of a composite, which then learns of the loss of one at once."""
    reference = weakref.ref(composite)
    for lease in leases:
        lease._composite = reference


class LeaseExtension:
    """One `extend`, which is carried out whether or not its caller waits for the answer.

    Otherwise a cancelled call would leave a lease on the server that this client does not know.
    Until the answer the holder can rely only on the shorter of the old and the new lease.
    """

    def __init__(self, ownership: Keeper, hold: Hold, lease: Lease, lease_time: float) -> None:
        self._ownership = ownership
        self._hold = hold
        self._lease = lease
        self._lease_time = lease_time
        self._old_limit = lease._limit
        self._was_renewed = lease._renewed
        self.answer: Future[None] = new_future()

    async def done(self) -> None:
        """Send it, and return when the server has answered.

        Raises:
            LeaseLostError: The lease was lost.
        """
        self.send()
        await self.answer
        if self._hold.state != "held" or self._lease._state == "lost":
            raise self._lease._loss()

    def send(self) -> None:
        """Ask the server to set the lease; `answer` is done when the server has answered."""
        hold, lease = self._hold, self._lease
        self._sent_at = now()
        self._ends_at = lease_end(self._sent_at, self._lease_time)
        self._needed = self._needed_by_all()
        self._change = hold.begin_change(self._needed)
        self._call = self._ownership.send_set_lease(hold, self._needed, self._change)
        lease._set_limit(min(lease._ends_at, self._ends_at), self._ends_at)
        if len(hold.live) > 1:
            # The other leases get no limit from this, but may rely on the shorter lease only.
            hold.lease_maybe_set(self._sent_at, self._needed)
        hold.reviewed()
        self._call.future.add_done_callback(lambda _: self._answered(self._call))

    def _needed_by_all(self) -> float:
        """Return the lease to ask for, long enough for the other leases of the hold too."""
        others = [other for other in self._hold.live if other is not self._lease]
        lease_time = self._ownership.context.options.lease_time
        # Never shorten what another lease of this hold relies on.
        needed = [self._lease_time, *(each._need(lease_time, self._sent_at) for each in others)]
        # Nor the time for which the name is taken.
        needed.append(self._hold.taken_until - self._sent_at)
        return max(needed)

    def _answered(self, call: Call) -> None:
        hold, lease = self._hold, self._lease
        error = call.future.exception()
        self._ownership.context.watchdog.end_overdue(hold)
        hold.end_change(call)
        # It does not count after a later extension or a release.
        counts = lease._state == "held" and lease._wanted == self._ends_at
        if error is not None:
            if counts:
                self._restore()
            if call.uncertain or not isinstance(error, RefusedError):
                # An earlier copy without an answer may have set it.
                hold.lease_maybe_set(self._sent_at, self._needed)
            if isinstance(error, RefusedError):
                error = self._ownership.refusal(hold, lease, call, error)
            fail(self.answer, error)
            return
        if not call.future.result():
            self._ownership.context.watchdog.lose(hold, "taken")
        elif hold.state == "held":
            if hold.is_last_change(self._change):
                hold.lease_set(lease_from(call, self._sent_at), self._needed)
            if counts:
                lease._set_limit(self._ends_at)
                hold.reviewed()
        wake(self.answer)

    def _restore(self) -> None:
        """Rely on the shorter of the two leases: the server may not have set the new one."""
        limit = self._old_limit
        if limit is not None and not self._was_renewed:
            limit = min(limit, self._ends_at)
        self._lease._set_limit(limit, renewed=self._was_renewed)
        self._hold.reviewed()


def tell_acquired(teller: Teller, lease: Lease, waited: float) -> None:
    """Tell a listener of a lease that a caller acquired after `waited` seconds."""
    ownership, name, token = lease._hold.ownership, lease.name, lease.token
    number, system = lease._number(), ownership.context.system
    event = AcquiredEvent(name, ownership.kind, lease.owner, token, waited, number, system)
    teller.tell("acquired", event)


# What a release does with a lease. Users have a `Lease`, so these are not methods of it.


def loss_of(lease: Lease) -> LeaseLostError:
    """Return the error for the loss of a lease."""
    return lease._loss()


def lose_late(lease: Lease, reason: Reason | None = None) -> LeaseLostError:
    """Mark a released lease as lost, because its release found it gone; return the error.

    Without a reason it was over by the clock.
    """
    lease._lost(lease._overdue_reason if reason is None else reason)
    return lease._loss()


def release_failed(lease: Lease, why: str) -> None:
    """Record that the server refused the release of a lease, or did not answer it."""
    lease._unreleased = why


def tell_released(lease: Lease, moment: float) -> None:
    """Call the listener: a lease was released at `moment`, unless it was lost by then."""
    hold = lease._hold
    teller = hold.ownership.context.teller
    if teller is not None and lease._state == "released" and hold.units:
        name, kind = lease.name, hold.ownership.kind
        held_for, number = moment - lease._granted_at, lease._acquisition
        event = ReleasedEvent(name, kind, lease.owner, lease.token, held_for, number)
        teller.tell("released", event)
