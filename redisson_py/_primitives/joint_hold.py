"""A hold that is made of the holds of other locks, and how its parts are got and given back.

One acquisition is a lease whose parts are leases of the members. The members' own clients keep
the parts; the whole lasts as long as enough of them do. A part that is lost tells the whole at
once. Nothing about the whole is in Redis, and no watchdog knows it.

Invariants: a part belongs to one whole; the whole knows its parts and is known to them weakly,
so that an acquisition nobody can release any more is found by the watchdogs of its parts.
"""

from __future__ import annotations

import logging
import math
import weakref
from collections.abc import Sequence
from contextlib import suppress

from redisson_py._lease.hold import Hold, Resource
from redisson_py._lease.lease import Lease, Whole
from redisson_py._options import OnLost
from redisson_py._owner import TaskRef
from redisson_py._primitives.attempt import HoldAttempt
from redisson_py._primitives.context import Mine
from redisson_py._primitives.hold_lock import HoldLock
from redisson_py._primitives.together import Together
from redisson_py._time import now
from redisson_py._waiting import Busy
from redisson_py.errors import ClientClosedError

log = logging.getLogger("redisson_py")


class JointLease(Lease):
    """One acquisition of a lock made of locks."""

    __slots__ = ("_needed", "_parts")

    def __init__(
        self, hold: Hold, parts: list[Lease], needed: int, on_lost: OnLost, granted_at: float
    ) -> None:
        super().__init__(hold, None, None, on_lost, granted_at)
        self._parts = parts
        self._needed = needed
        whole: weakref.ref[Whole] = weakref.ref(self)
        for part in parts:
            part._whole = whole

    def add(self, part: Lease) -> None:
        """Rely on one more part."""
        part._whole = weakref.ref(self)
        self._parts.append(part)

    @property
    def _ends_at(self) -> float:
        return end_of(self._parts, self._needed)

    def _part_lost(self) -> None:
        if sum(part._state == "held" for part in self._parts) >= self._needed:
            return
        hold = self._hold
        if all(other is self or other._state == "lost" for other in hold.all_leases()):
            hold.lose("too few of its parts are left")
        elif self._lose():
            log.warning("a lease of %s %r is over", hold.resource.kind, hold.resource.name)
            self.give_up()

    def give_up(self) -> None:
        """It is lost: release what is left of it, unless the end of a block will do that."""
        if not self._entered:
            release_all(self._parts)


class JointHold(Hold):
    """A task's hold on a lock made of locks.

    It knows its parts through its leases only, which the user may keep alive or not.

    Attributes:
        pending: What was asked for it and not answered yet.
        late: The round in which that was asked, until all have answered.
    """

    __slots__ = ("_needed", "late", "pending")

    def __init__(
        self,
        lock: Resource,
        parts: list[Lease],
        needed: int,
        watched: bool,
        task: TaskRef,
        on_lost: OnLost,
    ) -> None:
        super().__init__(lock, parts[0].owner, end_of(parts, needed), watched, task)
        self.pending: dict[HoldLock, HoldAttempt] = {}
        self.late: Together[Lease] | None = None
        self._needed = needed
        self.add_lease(parts, on_lost)

    def add_lease(self, parts: list[Lease], on_lost: OnLost) -> JointLease:
        """Return the lease of one more acquisition."""
        lease = JointLease(self, parts, self._needed, on_lost, now())
        self.leases.append(lease)
        return lease

    @property
    def parts(self) -> list[Lease]:
        """The leases of its outermost acquisition."""
        for lease in self.all_leases():
            assert isinstance(lease, JointLease)
            return lease._parts
        return []

    @property
    def held(self) -> bool:
        """Whether it can still be relied on, by the local clock."""
        return self.state == "held" and now() < end_of(self.parts, self._needed)

    def lose(self, reason: str) -> list[Lease]:
        """End it without its holder's release; return the leases that went with it."""
        if self.state != "held":
            return []
        self.state = "lost"
        gone = [lease for lease in self.all_leases() if lease._lose()]
        if self._needed < len(self.parts):
            # Otherwise the log has it: the loss of any part is that of the whole.
            log.warning(
                "lost %s %r: %s (held for %.3f s)",
                self.resource.kind,
                self.resource.name,
                reason,
                now() - self.granted_at,
            )
        for lease in gone:
            assert isinstance(lease, JointLease)
            lease.give_up()
        self.resource._hold_ended(self)
        return gone

    def join(self, part: Lease) -> None:
        """One more member has granted it after all."""
        lock, inner = part._hold.resource, part._hold
        assert isinstance(lock, HoldLock)
        if self.state != "held" or self.count <= 0 or waited_for(lock):
            # Also if the task itself waits for it, which did not know that it has it.
            release_all([part])
            return
        for lease in self.all_leases()[:1]:
            assert isinstance(lease, JointLease)
            lease.add(part)
        if inner.task is not self.task:
            move(inner, lock, self.task)
            if (mine := lock._context.owners.known(self.task)) is not None:
                mine.holds[lock._hold_key] = inner


def waited_for(lock: HoldLock) -> bool:
    """Whether a task of this client waits for a member by itself."""
    line = lock._context.lines.find(lock._line_key)
    return lock._context.waiters[lock._line_key] > 0 or (line is not None and line.waiting > 0)


def move(hold: Hold, lock: HoldLock, task: TaskRef) -> None:
    """Take a member's hold from the task that had it; `task` has it now."""
    lock._context.owners.forget(hold.task, lock._hold_key, hold)
    hold.task = task


def end_of(parts: Sequence[Lease], needed: int) -> float:
    """Return until when at least `needed` of these leases can be relied on."""
    ends = [part._ends_at for part in parts if part._state == "held"]
    if len(ends) < needed:
        return -math.inf
    if len(ends) == needed:
        return min(ends)
    ends.sort()
    return ends[-needed]


class NotGrantedError(Exception):
    """Raised by `ask` when a member is busy."""

    def __init__(self, retry_in: float | None) -> None:
        super().__init__("busy" if retry_in is None else f"busy for {retry_in:.3f} s")
        self.retry_in = retry_in


async def ask(
    lock: HoldLock,
    mine: Mine,
    lease_time: float | None,
    deadline: float | None,
    pending: dict[HoldLock, HoldAttempt],
) -> Lease:
    """Ask Redis once to hold a member for the current task; what it holds it enters again.

    Cancelled, or without an answer in time, nothing is held.

    Args:
        lock: The member.
        mine: What the task holds with the member's client.
        lease_time: Seconds; None for the watchdog's.
        deadline: How long to wait for the answer, in loop time.
        pending: Has the question until it is answered. Whoever takes it out has released
            what it may get.

    Raises:
        NotGrantedError: It is busy.
    """
    context = lock._context
    context.check()
    held = mine.holds.get(lock._hold_key)
    if held is not None and held.state == "held" and held.all_leases():
        if not lock._reentrant:
            raise RuntimeError(f"{lock.kind} {lock.name!r} is held by this task already")
        return await lock._reenter(held, deadline, lease_time)
    stream = context.executor.router.stream_for(lock.key)
    if stream.full:
        await stream.room()
    seconds = context.options.lease_time if lease_time is None else lease_time
    owner = lock._new_owner(mine)
    attempt = lock._attempt(owner, 1, seconds, None, once=True, deadline=deadline)
    attempt.ask(deadline)
    call = attempt._call
    assert call is not None
    pending[lock] = attempt
    try:
        answer = await attempt.answer()
    except BaseException:
        pending.pop(lock, None)
        attempt.undo()
        raise
    released = pending.pop(lock, None) is None
    if isinstance(answer, Busy):
        raise NotGrantedError(answer.retry_in)
    if released:
        if call.sends > 1:
            # Sent again, it came after that release: the server knew the script no more, or the
            # connection broke.
            lock._undo(owner, seconds)
        raise NotGrantedError(None)
    hold = lock._granted(attempt, mine.task, lease_time, answer.value)
    return lock._take(hold, mine, lease_time, now())


def release_pending(pending: dict[HoldLock, HoldAttempt]) -> None:
    """Send the releases of what was asked for and not answered yet; the answers are ignored."""
    for lock, attempt in list(pending.items()):
        del pending[lock]
        lease_time = lock._context.options.lease_time
        with suppress(ClientClosedError):
            lock._send_release(attempt.owner, 0, lease_time, attempt.doubtful)


def release_all(parts: Sequence[Lease]) -> Together[None]:
    """Send the releases of all that was not released yet, the newest first."""
    return Together(
        part._hold.resource._release_lease(part) for part in reversed(parts) if not part._ended
    )
