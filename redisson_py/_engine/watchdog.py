"""Renews what is held, and detects losses in time.

One timer serves all leases of a client. It never sleeps longer than a second while something is
held, because the event loop's clock stops while the machine is suspended and a lease does not.

A renewal without an answer is unknown, not lost: it is repeated, sooner. Only the server ("not the
owner") and the local clock decide a loss. A batch that the server refuses because of a key is
halved, so that one refused key does not cost the others their leases. The timer's callback marks
losses and cancels blocks without a task in between, so after the event loop was blocked a loss
comes before any task that has to be woken in the same turn.

A server that was unreachable may have lost its data, or another server may have replaced it. So on
a new connection, or after keys have moved to another master, all holds there are checked at once
(`ask_now`), including those that are never renewed: a loss is found then, not a third of a lease
later.
"""

from __future__ import annotations

import itertools
import logging
import math
import random
from collections import defaultdict
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from redisson_py._answers import RefusedError
from redisson_py._engine.hold import Hold, Reason, lease_end
from redisson_py._engine.holds import Holds
from redisson_py._engine.refused_renewals import RefusedRenewals
from redisson_py._engine.schedule import LeaseSchedule
from redisson_py._engine.server import Call, Server, lease_from
from redisson_py._listener import RenewedLateEvent
from redisson_py._loop import Timer, call_later
from redisson_py._statistics import Counts
from redisson_py._time import now
from redisson_py.errors import RedissonError

if TYPE_CHECKING:
    from redisson_py._engine.hold import Hold
    from redisson_py._loop import Future

log = logging.getLogger("redisson_py")

#: Holds renewed by one request.
BATCH_HOLDS = 100

#: Holds that are all due at one moment are renewed over this share of the period.
_SPREAD_SHARE = 0.25

#: Shortest pause in seconds between two turns that renew, so that other callbacks can run.
_PAUSE_SECONDS = 0.005

#: Most holds renewed in one iteration of the event loop: a few milliseconds of work.
_MOST_HOLDS_AT_ONCE = 10 * BATCH_HOLDS

#: Shortest sleep in seconds before something is due. uvloop's timers count whole milliseconds: a
#: shorter timer would fire at once, again and again, until the moment has come.
_SHORTEST_SLEEP_SECONDS = 0.001

#: Longest sleep while something is held, in seconds.
_LONGEST_SLEEP_SECONDS = 1.0


class Watchdog:
    """Keeps the leases of one client.

    Args:
        executor: Runs the renewals.
        lease_time: Seconds for which holds without a lease time of their own are kept.
        while_holding: Called with the time at a first hold, and at each tick while any is held.
        counts: Counts late renewals.

    Attributes:
        holds: All holds in force, whoever of the client's tasks has them.
        renewals: The number of batches that were renewed.
    """

    def __init__(
        self,
        executor: Server,
        lease_time: float,
        while_holding: Callable[[float], None] = lambda present: None,
        counts: Counts | None = None,
    ) -> None:
        self._executor = executor
        self._while_holding = while_holding
        self.lease_time = lease_time
        self._schedule = LeaseSchedule(lease_time / 3)
        self._timer: Timer | None = None
        self._armed_for = 0.0
        self._closed = False
        self.holds: Holds = Holds()
        #: The holds to check now, whenever they are due.
        self._at_once: dict[Hold, None] = {}
        #: The holds of each unanswered batch.
        self._unanswered: dict[Future[list[int | None]], list[Hold]] = {}
        self._refused = RefusedRenewals()
        self.renewals: int = 0
        self._counts = counts or Counts()

    def add(self, hold: Hold, due: float) -> None:
        """Keep a new hold: first renew it at `due`, and end it when its time is over."""
        holds, key = self.holds, hold.ownership.commands.key
        if holds.more or key in holds.first:
            holds.add(hold)
        else:
            # As `Holds.add`, without the cost of a call.
            holds.first[key] = hold
        if self._timer is None:
            self._while_holding(hold.granted_at)
        if hold.renewed or hold.asked_after:
            if not hold.renewed:
                # `due` follows its own lease, which may be long; it is checked as often as others.
                due = min(due, now() + self._schedule.period)
            self._schedule.put(hold, due)
            if hold.ends_at < due + self._schedule.period:
                self._schedule.watch_end(hold, hold.ends_at)
            if self._timer is None or due < self._armed_for:
                self._arm(min(due, hold.ends_at))
        else:
            self.watch_end(hold)

    def remove(self, hold: Hold) -> None:
        """Stop keeping a hold that is over."""
        holds, first, key = self.holds, self.holds.first, hold.ownership.commands.key
        if key in first and first[key] is hold:
            # As `Holds.remove`, without the cost of a call.
            del first[key]
        elif holds.more and hold in holds:
            holds.remove(hold)
        else:
            return
        self._schedule.forget(hold)
        if self._refused.holds:
            self._refused.forget(hold)
        if self._at_once:
            self._at_once.pop(hold, None)

    def reconsider(self, hold: Hold) -> None:
        """Start or stop renewing a hold, if it is kept."""
        if hold not in self.holds:
            # It has no units.
            return
        if hold.asked_after:
            if hold.bucket is None:
                due = now() + self._schedule.period
                self._schedule.put(hold, due)
                self._arm(due)
        else:
            self._schedule.drop(hold)
        self.watch_end(hold)

    def watch_end(self, hold: Hold) -> None:
        """Note that the end of a hold, or of one of its leases, has changed."""
        if hold in self.holds:
            end = hold.earliest_end
            self._schedule.watch_end(hold, end)
            self._arm(end)

    def ask_now(self, concerns: Callable[[bytes], bool]) -> None:
        """Check the holds on some keys at once, because their master or its connection is new.

        Unanswered checks reach it anyway, so they are not sent twice.
        """
        if self._closed:
            return
        asked = set(itertools.chain.from_iterable(self._unanswered.values()))
        for hold in self.holds:
            if hold not in asked and concerns(hold.ownership.commands.key):
                self._at_once[hold] = None
        if self._at_once:
            self._arm(now())

    def lose(self, hold: Hold, reason: Reason) -> None:
        """End a hold that is gone, and tell its holder."""
        hold.lose(reason)

    def close(self) -> None:
        """Stop for good; later answers change nothing."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def reset(self) -> None:
        """Start again in another event loop, with nothing held."""
        self.close()
        self._closed = False
        self.holds.clear()
        self._at_once.clear()
        self._unanswered.clear()
        self._refused = RefusedRenewals()
        self._schedule = LeaseSchedule(self.lease_time / 3)

    def _arm(self, moment: float) -> None:
        if self._timer is not None:
            if moment >= self._armed_for:
                return
            self._timer.cancel()
        present = now()
        delay = min(max(0.0, moment - present), _LONGEST_SLEEP_SECONDS)
        if 0.0 < delay < _SHORTEST_SLEEP_SECONDS:
            delay = _SHORTEST_SLEEP_SECONDS
        self._armed_for = present + delay
        self._timer = call_later(delay, self._tick)

    def _tick(self) -> None:
        self._timer = None
        moment = now()
        late = moment - self._armed_for
        if late > self.lease_time / 3:
            log.warning("the event loop was blocked, or the machine suspended, for %.3f s", late)
        following = -math.inf
        try:
            self._refused.tell()
            for hold in self._schedule.take_ended(moment):
                self.end_overdue(hold)
            if self._at_once:
                self._ask_at_once(moment)
                pause = _PAUSE_SECONDS if self._at_once else 0.0
            else:
                pause = self._renew_what_is_due(moment)
            if pause:
                following = now() + pause
            if self.holds:
                self._while_holding(moment)
        finally:
            # After any error (the event loop logs it) the holds must still be watched.
            event = self._schedule.next_event(following)
            if self._at_once:
                event = following if event is None else min(event, following)
            if event is not None and not self._closed:
                self._arm(event)

    def end_overdue(self, hold: Hold) -> None:
        """End what is over of a hold, also before the timer does, or before an end is moved."""
        if hold.state != "held":
            return
        moment = now()
        if (reason := hold.end_reason(moment)) is not None:
            self.lose(hold, reason)
            return
        overdue = hold.end_overdue(moment)
        for _ in overdue:
            log.debug("a lease of %s %r is over", hold.ownership.kind, hold.ownership.name)
        if overdue:
            hold.ownership.lower(hold)
        self.watch_end(hold)

    def _renew_what_is_due(self, moment: float) -> float:
        """Renew part of what is due; return how long to pause if there may be more."""
        a_second = len(self.holds) / (_SPREAD_SHARE * self._schedule.period)
        at_once = BATCH_HOLDS * min(
            math.ceil(a_second * _PAUSE_SECONDS / BATCH_HOLDS) or 1,
            _MOST_HOLDS_AT_ONCE // BATCH_HOLDS,
        )
        taken = self._schedule.take_due(moment, BATCH_HOLDS, at_once)
        self._ask(taken, moment)
        return at_once / a_second if len(taken) == at_once else 0.0

    def _ask_at_once(self, moment: float) -> None:
        """Check part of the holds in `_at_once`."""
        taken: list[Hold] = []
        groups: set[Hashable] = set()
        for hold in itertools.islice(self._at_once, _MOST_HOLDS_AT_ONCE):
            taken.append(hold)
            groups.add(self._executor.group(hold.ownership.commands))
            if len(groups) == BATCH_HOLDS:
                # Each group is a call of its own.
                break
        for hold in taken:
            del self._at_once[hold]
        self._schedule.asked([hold for hold in taken if hold.bucket is not None], moment)
        # A suspended hold may be released by now.
        self._ask([hold for hold in taken if not hold.suspended], moment)

    def _ask(self, taken: list[Hold], moment: float) -> None:
        """Renew holds, or check that they are there."""
        groups: defaultdict[tuple[Hashable, float, int], list[Hold]] = defaultdict(list)
        group = self._executor.group
        for hold in taken:
            task = hold.task()
            if hold.renewed and (task is None or task.done()) and hold.is_abandoned():
                hold.abandon()
                continue
            hold.ownership.warn_of_long_waits(hold, moment, 1.5 * self._schedule.period)
            plain = hold.renewed and hold.parent is None and not hold.max_held
            lease_time = self.lease_time if plain else self._lease_of(hold)
            most = self._refused.batch(hold, BATCH_HOLDS) if self._refused.holds else BATCH_HOLDS
            groups[group(hold.ownership.commands), lease_time, most].append(hold)
        for (_, lease_time, most), holds in groups.items():
            for start in range(0, len(holds), most):
                self._renew(holds[start : start + most], lease_time, moment)

    def _lease_of(self, hold: Hold) -> float:
        """Return the lease to renew a hold to; 0 only checks that it is there."""
        if not hold.renewed:
            return 0.0
        if hold.capped:
            # Not longer than the write hold that it reads under.
            assert hold.parent is not None
            return max(0.001, hold.parent.lease_until - now())
        if hold.max_held:
            # Not beyond the end of the last lease.
            return min(self.lease_time, hold.lease_needed(self.lease_time, now()))
        return self.lease_time

    def _renew(
        self, holds: list[Hold], lease_time: float, sent: float, again: bool = False
    ) -> None:
        # Given up after a sixth of the lease, which leaves time to ask again before it ends.
        try:
            splits = len(holds) > 1 and not again
            call = self._executor.renew(holds, lease_time, self.lease_time / 6, splits=splits)
        except RedissonError as error:
            log.warning("renewal failed: %s", error)
            self._retry(holds)
            return
        self._unanswered[call.future] = holds
        for hold in holds if lease_time else ():
            # The server may execute it as late as its deadline.
            hold.renewal_sent(sent + self.lease_time / 6 + lease_time)
        call.future.add_done_callback(
            lambda done: self._answered(call, holds, lease_time, sent, splits, done)
        )

    def _answered(
        self,
        call: Call,
        holds: list[Hold],
        lease_time: float,
        sent_at: float,
        splits: bool,
        done: Future[list[int | None]],
    ) -> None:
        # Always retrieved: asyncio warns about exceptions that were never retrieved.
        error = None if done.cancelled() else done.exception()
        self._unanswered.pop(done, None)
        if self._closed:
            return
        refused = error if isinstance(error, RefusedError) else None
        if splits and refused is not None and refused.means_moving:
            # Key by key, so that keys that are served do not wait for those that move.
            of_keys: defaultdict[bytes, list[Hold]] = defaultdict(list)
            for hold in holds:
                of_keys[hold.ownership.commands.key].append(hold)
            for some in of_keys.values():
                self._renew(some, lease_time, now(), again=True)
            return
        if refused is not None and self._refused.is_of_one(holds, refused):
            middle = len(holds) // 2
            self._renew(holds[:middle], lease_time, now())
            self._renew(holds[middle:], lease_time, now())
            return
        if done.cancelled() or error is not None:
            if refused is not None:
                why = str(call.refusal(refused))
                self._retry(holds, self._refused.add(holds, refused, why))
                return
            # The outage has a log record of its own.
            log.debug("%d leases are not renewed yet; trying again: %s", len(holds), error)
            self._retry(holds)
            return
        answers = done.result()
        if None in answers:
            self._retry(
                [hold for hold, renewed in zip(holds, answers, strict=True) if renewed is None]
            )
        else:
            self.renewals += lease_time > 0
        sent_at = lease_from(call, sent_at)
        ends_at, lease_until = lease_end(sent_at, lease_time), sent_at + lease_time
        present, third = now(), self.lease_time / 3
        # Only full renewals count as late: a capped read may be renewed to less than a third.
        late_below = present + third if lease_time == self.lease_time else 0.0
        first = self.holds.first
        for hold, renewed in zip(holds, answers, strict=True):
            if renewed is None:
                continue
            # First without the cost of a call.
            if first.get(hold.ownership.commands.key) is not hold and hold not in self.holds:
                continue
            if self._refused.holds:
                self._refused.renewed(hold)
            if not renewed:
                self.lose(hold, "taken")
            elif lease_time and hold.ends_at <= present:
                # The timer is late, but the holder may have seen the end already.
                self.end_overdue(hold)
                hold.ownership.undo_late(hold)
            elif lease_time:
                if hold.lease_until < late_below:
                    tell_late_renewal(hold, present, hold.lease_until - 2 * third)
                    self._counts.late_renewals += 1
                hold.renewal_confirmed(ends_at, lease_until)

    def _retry(self, holds: list[Hold], refused: int = 0) -> None:
        """Ask again about holds whose renewal had no usable answer; later, the more refusals."""
        pause = self.lease_time / 30
        if refused:
            pause = min(pause * 2.0**refused, self.lease_time / 6) * random.uniform(0.5, 1.0)
        retry_at = now() + pause
        for hold in holds:
            if hold in self.holds and hold.asked_after:
                self._schedule.put(hold, retry_at)
                self._schedule.watch_end(hold, hold.earliest_end)
        self._arm(retry_at)

    def check(self) -> None:
        """Raise `AssertionError` if an invariant does not hold; for tests."""
        self.holds.check()
        self._schedule.check(self.holds)
        assert self._closed or not self.holds or self._timer is not None, "held, and no timer"


def tell_late_renewal(hold: Hold, present: float, due: float) -> None:
    """Tell the listener of a renewal confirmed with less than a third of the lease left."""
    ownership = hold.ownership
    if (teller := ownership.context.teller) is not None:
        left = max(0.0, hold.ends_at - present)
        name, kind = ownership.name, ownership.kind
        event = RenewedLateEvent(name, kind, hold.owner, present - due, left)
        teller.tell("renewed_late", event)
