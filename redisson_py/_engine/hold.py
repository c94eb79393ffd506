"""A hold: what the server records for one owner on one name, and which task has it here.

Only this file writes a hold's fields, except `bucket` and `ends_row`, which `schedule.py` keeps.
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
  ended by themselves the newest `MOST_ENDED`. The number of leases that are still held equals the
  count on the server, less the unanswered re-entries, unless the hold is uncertain.
- It is renewed exactly while a held lease needs renewal: one without an end of its own, or with a
  `max_hold`. Renewals for a `max_hold` stop at its end.
- No lease is held when the hold is over.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Self, TypeVar, final

from redisson_py._answers import Change
from redisson_py._listener import LossReason, LostEvent, Teller
from redisson_py._owner import TaskRef
from redisson_py._time import KEPT_LESS, now
from redisson_py.errors import LeaseLostError

if TYPE_CHECKING:
    from redisson_py._engine.lease import Lease, Released
    from redisson_py._engine.ownership import Ownership
    from redisson_py._engine.server import Call

log = logging.getLogger("redisson_py")

#: Allowance for clock drift: a share of the lease, and a floor in seconds.
DRIFT = 0.01
DRIFT_FLOOR = 0.002

#: How many leases that ended inside a hold are kept to be reported by a release that names none.
#: No code nests acquisitions that deep.
MOST_ENDED = 100

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
    return sent_at + lease_time * (1 - DRIFT) - DRIFT_FLOOR


def max_hold_end(began: float, max_hold: float, lease_time: float) -> float:
    """Return the end of a hold limited to `max_hold` seconds, renewed to `lease_time` each time."""
    return began + max_hold - min(max_hold, lease_time) * DRIFT - DRIFT_FLOOR


def lease_for(ends_at: float, present: float) -> float:
    """Return the lease to ask for at `present` so that a holder may rely on it until `ends_at`."""
    return max(0.001, (ends_at - present + DRIFT_FLOOR) / (1 - DRIFT))


class Hold:
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
        "__weakref__",
        "_changes",
        "_forgotten",
        "_last_change",
        "_units_there",
        "asked_at",
        "batch",
        "bucket",
        "ends_at",
        "ends_row",
        "field",
        "granted_at",
        "guards",
        "id_known",
        "last_token",
        "lease_until",
        "leases",
        "max_held",
        "may_last_until",
        "next_token",
        "ownership",
        "parent",
        "reads",
        "reason",
        "reentries",
        "renewed",
        "state",
        "suspended",
        "task",
        "uncertain",
        "units",
    )

    def __init__(
        self,
        ownership: Ownership,
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
        self.ownership: Ownership = ownership
        self.batch: str | None = batch
        self.field: bytes = field
        self.task: TaskRef = task
        self.asked_at: float | None = sent_at if asked_at is None else asked_at
        self.max_held: bool = False
        self.ends_at: float = sent_at + lease_time * (1 - DRIFT) - DRIFT_FLOOR
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
        self._forgotten: list[LeaseRef] | None = None
        if uncertain and parent is not None:
            parent.became_uncertain()
        if units:
            ownership.context.watchdog.add(self, sent_at + lease_time / 3)
        else:
            # A hold without units has nothing on the server that could end.
            self.ends_at = float("inf")

    def __repr__(self) -> str:
        return (
            f"<hold of {self.ownership.kind} {self.ownership.name!r} by {self.owner}: {self.state}>"
        )

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
    def live(self) -> list[Lease]:
        """Its leases that are held and still referenced, oldest first."""
        return [lease for lease in self.known_leases() if lease._state == "held"]

    def known_leases(self) -> Sequence[Lease]:
        """Return its leases that are still referenced: held, or lost and not reported yet."""
        if self._forgotten is None:
            return self.leases
        return [lease for each in self._forgotten if (lease := each()) is not None]

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
        if self.capped and self.parent is not None:
            needed = min(needed, max(0.001, self.parent.lease_until - present))
        return needed

    def is_abandoned(self) -> bool:
        """Return whether it can no longer be released: its task ended, its leases are garbage."""
        task = self.task()
        if (task is not None and not task.done()) or self.reentries or self.id_known:
            return False
        if self._forgotten is None:
            # From here on only the user's references keep a lease alive.
            self._forgotten = [LeaseRef(lease) for lease in self.live]
            self.leases = ()
        for each in self._forgotten:
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

    def may_pass(self, turn: float, least_left: float) -> bool:
        """Return whether it may pass to another task of this client without asking the server."""
        present = now()
        return (
            self.state == "held"
            and self.renewed
            and not self.uncertain
            and not self._changes
            and not self.guards
            and not self.reads
            and self.ends_at - present >= least_left
            and present - self.granted_at < turn
            and (self.next_token is None or self.next_token <= self.last_token)
        )

    def guard(self) -> None:
        """Record that a transaction may be bound to it: its next holder is the server's choice."""
        self.guards = True

    def give_back(self) -> None:
        """Pass on or release a hold that no task took, without waiting."""
        self.ownership.give_back(self)

    def add_lease(self, lease: Lease) -> None:
        """Add the lease of one more acquisition by its task."""
        if self._forgotten is None:
            self.leases = (*self.leases, lease) if self.leases else (lease,)
        else:
            self._forgotten.append(LeaseRef(lease))
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

    def taken_by(self, task: TaskRef) -> None:
        """Make this task its holder."""
        self.task = task

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

    def drop(self, lease: Lease) -> int:
        """Remove a released lease, or one reported as lost; return the count left."""
        if self._forgotten is not None:
            self._forgotten = [each for each in self._forgotten if each() is not lease]
            self._review()
        elif lease in self.leases:
            self.leases = tuple(each for each in self.leases if each is not lease)
            if not self.leases:
                return self.reentries
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
        if self.state == "held" and self.lease_until - present > needed + lease_time * DRIFT:
            # If this process dies, the server must not keep it longer either.
            self.ownership.set_needed_lease(self)
            self.lease_maybe_set(present, needed)

    def over(self, moment: float) -> Reason | None:
        """Return why the whole hold is over at a moment, by the clock; None if some of it holds."""
        if self.ends_at <= moment and not self.renewed:
            return "ended"
        limits = [lease._limit for lease in self.live]
        last = moment if moment < self.ends_at else self.ends_at + KEPT_LESS
        if (
            limits
            and not self.reentries
            and all(each is not None and each <= last for each in limits)
        ):
            return "ended"
        return "expired" if self.ends_at <= moment else None

    def end_overdue(self, present: float) -> list[Lease]:
        """End the leases whose own time is over; return them."""
        over = [
            lease for lease in self.live if lease._limit is not None and lease._limit <= present
        ]
        for lease in over:
            lease._lose("ended")
        self.leases = without_oldest_ended(self.leases)
        if self._forgotten is not None:
            # Keep the leases whose loss is not recorded yet.
            self._forgotten = [each for each in self._forgotten if each() not in over]
        self._review()
        return over

    def reviewed(self) -> None:
        """Review renewal and the end after a lease's end has changed."""
        self._review()
        if self.state == "held":
            self.ownership.context.watchdog.mind_end(self)

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
        self.ownership.context.watchdog.mind_end(self)

    def lease_maybe_set(self, sent_at: float, lease_time: float) -> None:
        """Rely on the shorter lease, because the server may have set this one."""
        self.ends_at = min(self.ends_at, lease_end(sent_at, lease_time))
        self.lease_until = min(self.lease_until, sent_at + lease_time)
        self.ownership.context.watchdog.mind_end(self)

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
        # A composite that loses one of these releases the others, which changes the list.
        gone = [lease for lease in list(self.known_leases()) if lease._lose(reason)]
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

    def end_with_last_lease(self) -> None:
        """End it and its only lease, just before its release is sent."""
        self.leases = ()
        self.state = "released"
        self.ownership.context.watchdog.remove(self)

    def check(self) -> None:
        """Raise `AssertionError` if an invariant does not hold; for tests."""
        watchdog = self.ownership.context.watchdog
        known = self.known_leases()
        held = [lease for lease in known if lease._state == "held"]
        assert (self.state == "held" and self.units > 0) == (self in watchdog.holds), self
        assert all(lease._hold is self for lease in known), self
        assert not any(lease._told for lease in known), self
        if self.state != "held":
            assert not held, f"{self} has leases that hold"
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
    if len(ended) <= MOST_ENDED:
        return leases
    forgotten = set(ended[:-MOST_ENDED])
    return tuple(lease for lease in leases if lease not in forgotten)


@final
class LeaseRef(weakref.ref["Lease"]):
    """A weak reference to a lease, with the lease's acquisition number for listeners."""

    __slots__ = ("acquisition",)

    acquisition: int

    def __new__(cls, lease: Lease) -> Self:
        """Create the reference; number the acquisition if it has no number yet."""
        self = super().__new__(cls, lease)
        self.acquisition = lease._number()
        return self


def lost_error(ownership: Released, owner: str, held_for: float, reason: Reason) -> LeaseLostError:
    """Return the error for a loss."""
    return LeaseLostError(
        f"{ownership.kind} {ownership.name!r} was lost after {held_for:.3f} s ({REASONS[reason]})",
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
