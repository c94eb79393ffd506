"""Renewing what is held, and knowing in time what is lost.

One timer for all leases of a client. It never sleeps longer than a second while something is
held, because the event loop's clock stands still while the machine is suspended and a lease
does not.

A renewal without an answer is unknown, not lost: it is asked again, sooner. Only Redis
("not the owner") and the local clock say lost. The timer's callback marks and cancels without
going through a task, so after the event loop was blocked the loss comes before anything that
had to be woken in the same turn.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable

from redisson_py._lease.hold import Hold, lease_end
from redisson_py._lease.lease import Lease
from redisson_py._lease.schedule import LeaseSchedule
from redisson_py._loop import Future, Timer, call_later
from redisson_py._scripts.executor import Executor
from redisson_py._scripts.source import Script
from redisson_py._time import milliseconds, now
from redisson_py.errors import RedissonError

log = logging.getLogger("redisson_py")

#: Holds renewed by one script.
BATCH = 100

#: Longest sleep while something is held, in seconds.
_LONGEST_SLEEP = 1.0


class Watchdog:
    """Keeps the leases of one client.

    Args:
        executor: Runs the renewals.
        lease_time: Seconds for which holds without a lease time of their own are kept.
        while_holding: Called now and then, with the time, while something is held.
    """

    def __init__(
        self,
        executor: Executor,
        lease_time: float,
        while_holding: Callable[[float], None] = lambda present: None,
    ) -> None:
        self._executor = executor
        self._while_holding = while_holding
        self.lease_time = lease_time
        self._schedule = LeaseSchedule(lease_time / 3)
        self._timer: Timer | None = None
        self._armed_for = 0.0
        self._closed = False
        self.holds: dict[Hold, None] = {}
        self.renewals = 0
        self.losses = 0

    def add(self, hold: Hold) -> None:
        """Keep a new hold, and end it when its time is over."""
        self.holds[hold] = None
        if hold.asked_after:
            self._watch(hold, hold.granted_at)

    def remove(self, hold: Hold) -> None:
        """Keep a hold no more: it is about to be released, or it is lost."""
        self.holds.pop(hold, None)
        self._schedule.unwatch(hold)

    def limit(self, lease: Lease, ends_at: float) -> None:
        """End a lease at a moment, whatever the hold does."""
        lease._set_limit(ends_at)
        self._schedule.limit(lease, ends_at)
        self._arm(ends_at)

    def set_watched(self, hold: Hold, watched: bool) -> None:
        """Begin or stop to renew a hold that is kept already."""
        if watched != hold.watched:
            hold.watched = watched
            self._schedule.unwatch(hold)
            if hold.asked_after:
                self._watch(hold, now())

    def set_end(self, hold: Hold, ends_at: float) -> None:
        """A hold ends at another moment than before, perhaps earlier."""
        sooner = ends_at < hold.ends_at
        hold.ends_at = ends_at
        if sooner and hold in self.holds and hold.asked_after:
            self._watch(hold, now())

    def lose(self, hold: Hold, reason: str) -> None:
        """A hold is gone: stop keeping it, tell its holder."""
        self.remove(hold)
        self.losses += len(hold.lose(reason))

    def close(self) -> None:
        """Stop for good; answers still under way change nothing any more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _watch(self, hold: Hold, present: float) -> None:
        moment = self._schedule.watch(hold, present)
        if self._timer is None or moment < self._armed_for:
            self._arm(moment)

    def _arm(self, moment: float) -> None:
        if self._timer is not None:
            if moment >= self._armed_for:
                return
            self._timer.cancel()
        present = now()
        delay = min(max(0.0, moment - present), _LONGEST_SLEEP)
        self._armed_for = present + delay
        self._timer = call_later(delay, self._tick)

    def _tick(self) -> None:
        self._timer = None
        moment = now()
        late = moment - self._armed_for
        if late > self.lease_time / 3:
            log.warning("the event loop was blocked, or the machine asleep, for %.3f s", late)
        try:
            self._end_what_is_over(moment)
            self._renew_what_is_due(moment)
            if self.holds:
                self._while_holding(moment)
        finally:
            # Whatever went wrong (the event loop logs it), what is held must not go unwatched.
            following = self._schedule.next_event()
            if following is not None and not self._schedule.idle():
                self._arm(following)

    def _end_what_is_over(self, moment: float) -> None:
        holds, leases = self._schedule.take_ended(moment)
        for hold in holds:
            reason = "it could not be renewed before its lease ended"
            self.lose(hold, reason if hold.watched else "its lease time is over")
        for lease in leases:
            hold = lease._hold
            if all(other is lease or other._state == "lost" for other in hold.all_leases()):
                self.lose(hold, "its lease time is over")
            elif lease._lose():
                self.losses += 1
                log.warning("a lease of %s %r is over", hold.resource.kind, hold.resource.name)

    def _renew_what_is_due(self, moment: float) -> None:
        groups: defaultdict[tuple[Script, int, bool], list[Hold]] = defaultdict(list)
        for hold in self._schedule.take_due(moment, BATCH):
            if hold.watched and hold.is_abandoned():
                self._abandon(hold)
            else:
                group = self._executor.router.group(hold.resource._lease_key)
                groups[hold.resource._renewal, group, hold.watched].append(hold)
        for (script, _, watched), holds in groups.items():
            for start in range(0, len(holds), BATCH):
                self._renew(script, holds[start : start + BATCH], moment, watched)

    def _renew(self, script: Script, holds: list[Hold], asked_at: float, watched: bool) -> None:
        # Given up within a sixth of the lease: time enough to ask again before it ends.
        try:
            call = self._executor.start_batch(
                script,
                [hold.resource._lease_key for hold in holds],
                [hold.mark for hold in holds],
                self.lease_time / 6,
                lease_ms=milliseconds(self.lease_time) if watched else 0,
            )
        except RedissonError as error:
            log.warning("renewal failed: %s", error)
            return
        ends_at = lease_end(asked_at, self.lease_time) if watched else None
        call.future.add_done_callback(lambda done: self._answered(holds, ends_at, done))

    def _answered(self, holds: list[Hold], ends_at: float | None, done: Future[list[int]]) -> None:
        error = None if done.cancelled() else done.exception()
        if self._closed:
            return
        if done.cancelled() or error is not None:
            log.warning("%d leases could not be renewed yet: %s", len(holds), error)
            retry_at = now() + self.lease_time / 30
            self._schedule.failed(holds, retry_at)
            self._arm(retry_at)
            return
        self.renewals += ends_at is not None
        for hold, renewed in zip(holds, done.result(), strict=True):
            if hold not in self.holds:
                continue
            if not renewed:
                self.lose(hold, "Redis says somebody else holds it, or nobody")
            elif ends_at is not None and hold.watched:
                self._schedule.renewed(hold, ends_at)

    def _abandon(self, hold: Hold) -> None:
        self.remove(hold)
        hold.state = "lost"
        log.warning(
            "%s %r is not renewed any more: its task ended and nobody can release it (owner %s)",
            hold.resource.kind,
            hold.resource.name,
            hold.owner,
        )
        hold.resource._hold_ended(hold)
