"""Setting a new lease for a hold: what counts until Redis has answered, and what afterwards."""

from __future__ import annotations

from typing import Protocol

from redisson_py._lease.hold import Hold, lease_end, lease_for
from redisson_py._lease.lease import Lease
from redisson_py._loop import Future, fail, new_future, wake
from redisson_py._primitives.context import Context
from redisson_py._stream.call import Call, ReplyError
from redisson_py._time import now


class Extendable(Protocol):
    """What an extension needs of the thing whose lease it sets."""

    def _send_lease(self, hold: Hold, lease_time: float) -> Call:
        """Set the lease of a hold in Redis; the reply is 0 if it is not there any more."""
        ...

    def _undo(self, owner: str, lease_time: float) -> None:
        """Give back what nobody here knows of any more."""
        ...


class Extension:
    """One `extend`, which is carried out whether or not its caller waits for the answer.

    Otherwise a cancelled one would leave Redis with a lease that nobody here knows of. Until
    the answer only the shorter of the old and the new lease can be relied on.
    """

    def __init__(
        self, context: Context, resource: Extendable, lease: Lease, lease_time: float
    ) -> None:
        self._context = context
        self._resource = resource
        self._lease = lease
        self._lease_time = lease_time
        self._old_limit = lease._limit
        self._was_watched = lease._hold.watched
        self.answer: Future[None] = new_future()

    def send(self) -> None:
        """Ask Redis to set the lease; `answer` is done when it has."""
        watchdog, hold = self._context.watchdog, self._lease._hold
        self._asked_at = now()
        self._ends_at = lease_end(self._asked_at, self._lease_time)
        self._needed = self._needed_by_all()
        self._call = self._resource._send_lease(hold, self._needed)
        hold.setting = self._call
        watchdog.limit(self._lease, min(self._lease._ends_at, self._ends_at))
        self._call.future.add_done_callback(self._answered)

    def _needed_by_all(self) -> float:
        """Return the lease to ask for, which must do for the other leases of the hold as well."""
        hold = self._lease._hold
        others = [other._limit for other in hold.all_leases() if other is not self._lease]
        limits = [limit for limit in others if limit is not None]
        if len(limits) < len(others):
            # Another lease of this hold is renewed: never shorten what it relies on.
            return max(self._lease_time, self._context.options.lease_time)
        self._context.watchdog.set_watched(hold, False)
        return max([self._lease_time, *(lease_for(limit, self._asked_at) for limit in limits)])

    def _answered(self, done: Future[int]) -> None:
        error, hold = done.exception(), self._lease._hold
        hold.doubtful = hold.doubtful or self._call.doubtful
        # Not if a later call has set another lease, or it was released, meanwhile.
        counts = hold.setting is self._call and self._lease._state == "held"
        if error is not None:
            if counts:
                self._fall_back()
            if isinstance(error, ReplyError):
                error = self._call.refusal(error)
            fail(self.answer, error)
            return
        if not done.result():
            self._context.watchdog.lose(hold, "Redis says somebody else holds it, or nobody")
        elif hold.state == "lost":
            # Lost while the answer was on its way: nobody is left who would release it.
            self._resource._undo(hold.owner, self._needed)
        elif counts:
            self._context.watchdog.set_end(hold, lease_end(self._asked_at, self._needed))
            self._context.watchdog.limit(self._lease, self._ends_at)
        wake(self.answer)

    def _fall_back(self) -> None:
        """Nobody knows which lease is in force: be content with the shorter one."""
        watchdog, hold = self._context.watchdog, self._lease._hold
        watchdog.set_end(hold, min(hold.ends_at, self._ends_at))
        watchdog.set_watched(hold, self._was_watched)
        self._lease._set_limit(self._old_limit)
        if self._old_limit is not None:
            watchdog.limit(self._lease, min(self._old_limit, self._ends_at))
