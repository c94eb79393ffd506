"""Sets a new lease for a hold, and tracks which lease counts until the server has answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redisson_py._answers import RefusedError
from redisson_py._engine.hold import Hold, lease_end
from redisson_py._engine.lease import Lease
from redisson_py._engine.server import Call, lease_from
from redisson_py._loop import Future, fail, new_future, wake
from redisson_py._time import now
from redisson_py.errors import ReplicationError

if TYPE_CHECKING:
    from redisson_py._engine.ownership import Ownership


def set_needed_lease(ownership: Ownership, hold: Hold) -> None:
    """Set the lease on the server to what the hold's leases need, without waiting."""
    present = now()
    seconds = hold.lease_needed(ownership.context.options.lease_time, present)
    change = hold.begin_change(seconds)
    call = ownership.send_set_lease(hold, seconds, change)

    def answered(done: Future[int]) -> None:
        ownership.context.watchdog.end_overdue(hold)
        hold.end_change(call)
        if done.cancelled() or done.exception() is not None or hold.state != "held":
            return
        if not done.result():
            ownership.context.watchdog.lose(hold, "taken")
        elif hold.is_last_change(change):
            hold.lease_set(lease_from(call, present), seconds)

    call.future.add_done_callback(answered)


class LeaseExtension:
    """One `extend`, which is carried out whether or not its caller waits for the answer.

    Otherwise a cancelled call would leave a lease on the server that this client does not know.
    Until the answer the holder can rely only on the shorter of the old and the new lease.
    """

    def __init__(self, ownership: Ownership, hold: Hold, lease: Lease, lease_time: float) -> None:
        self._ownership = ownership
        self._hold = hold
        self._lease = lease
        self._lease_time = lease_time
        self._old_limit = lease._limit
        self._was_renewed = lease._renewed
        self.answer: Future[None] = new_future()

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
            if isinstance(error, ReplicationError):
                # The text of the error is about a grant; this lease is still held.
                text = f"only {error.got} of {error.asked} replicas confirmed the new lease; rely"
                text += " on the old or the new lease, whichever ends first"
                error = ReplicationError(text, error.asked, error.got)
            fail(self.answer, error)
            return
        if not call.future.result():
            self._ownership.context.watchdog.lose(hold, "taken")
        elif hold.state == "held":
            if hold.is_last_change(self._change):
                hold.lease_set(self._sent_at, self._needed)
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
