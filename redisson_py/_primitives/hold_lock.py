"""Locks whose holds belong to tasks: asking, re-entry, releasing, losing.

What one kind of lock asks Redis, and what its waiters hear, is the subclass's; so is a line of
the tasks that wait here (`exclusive.py`). Without one, every task asks for itself.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from contextlib import suppress
from typing import Any, ClassVar

from redisson_py import _keys, _waiting
from redisson_py._keys import Name
from redisson_py._lease.hold import Hold, lease_end, lease_for
from redisson_py._lease.lease import Lease
from redisson_py._loop import running_loop
from redisson_py._options import PATIENCE, TOMBSTONE
from redisson_py._owner import TaskRef
from redisson_py._primitives.attempt import HoldAttempt
from redisson_py._primitives.context import Context, Mine
from redisson_py._primitives.extension import Extension
from redisson_py._primitives.hash_lock import HashLock
from redisson_py._scripts import source
from redisson_py._scripts.source import Script
from redisson_py._stream.call import Call, ReplyError
from redisson_py._time import milliseconds, now
from redisson_py._waiting import Granted, Turn
from redisson_py._wakeups.table import Wakes, lock_wakes
from redisson_py.errors import ClientClosedError, LeaseLostError, NotHeldError

RELEASE = source.load("lock.release")
RENEW = source.load("lock.renew")
SET_LEASE = source.load("lock.set_lease")

#: Grants in a row that were over before they could be used, after which it is no use to go on.
_STALE_GRANTS = 3


class HoldLock(HashLock):
    """A lock that keeps the holds of tasks as Redisson does: fields of a hash."""

    _releasing: ClassVar[Script] = RELEASE
    _setting: ClassVar[Script] = SET_LEASE
    _renewal: Script = RENEW
    _cut_by_others = False

    def __init__(self, context: Context, name: Name, *, reentrant: bool = True) -> None:
        super().__init__(context, name)
        self._reentrant = reentrant
        self._tombstones = _keys.tombstone(self._key, "")

    @property
    def _wakes(self) -> Wakes:
        """How many waiters a message is for."""
        return lock_wakes

    # What subclasses ask.

    @abstractmethod
    def _send_acquire(self, owner: str, holds: int, lease_ms: int, deadline: float | None) -> Call:
        """Ask Redis for a hold count."""

    @staticmethod
    @abstractmethod
    def _read(reply: Any) -> Granted[int] | int:
        """Return the grant, with its first fencing token; or milliseconds left, or a code."""

    def _mark(self, owner: str) -> str:
        """Return what Redis calls the hold of an owner."""
        return owner

    def _attempt(
        self,
        owner: str,
        holds: int,
        lease_time: float,
        turn: Turn | None,
        *,
        once: bool,
        deadline: float | None,
    ) -> HoldAttempt:
        """Return the question for a hold count; `once` and `deadline` are the caller's."""
        return HoldAttempt(self._context, self, owner, holds, lease_time, turn)

    def _new_owner(self, mine: Mine) -> str:
        """Return under which owner the current task asks for a new hold."""
        return self._context.owners.new_owner()

    def _release_args(self, mark: bytes, holds: int, lease_ms: int, tombstone_ms: int) -> bytes:
        """Return the arguments of the releasing script."""
        return self._releasing.bind(
            lock=self._key,
            tombstone=self._tombstones + mark,
            owner=mark,
            holds=holds,
            lease_ms=lease_ms,
            channel=self.channel,
            tombstone_ms=tombstone_ms,
        )

    # Acquiring.

    async def _acquire(
        self, mine: Mine, deadline: float | None, *, once: bool, lease_time: float | None
    ) -> Lease | None:
        context = self._context
        context.check()
        held = mine.holds.get(self._hold_key)
        if held is not None and held.state == "held" and held.all_leases():
            if not self._reentrant:
                raise RuntimeError(f"{self.kind} {self._name!r} is held by this task already")
            return await self._reenter(held, None if once else deadline, lease_time)
        stream = context.executor.router.stream_for(self._key)
        if stream.full:
            await stream.room()
        stale_grants = 0
        while True:
            hold = await self._new_hold(mine, deadline, once, lease_time)
            if hold is None:
                return None
            present = now()
            if present < hold.ends_at and hold.state == "held":
                return self._take(hold, mine, lease_time, present)
            # Granted, but over before it could be used.
            self._give_back(hold)
            stale_grants += 1
            if stale_grants == _STALE_GRANTS:
                raise hold_loss(self, hold)

    async def _new_hold(
        self, mine: Mine, deadline: float | None, once: bool, lease_time: float | None
    ) -> Hold | None:
        """Get a hold that Redis grants, or a task here passes on; None when time is up."""
        if once:
            return await self._ask(mine, deadline, once, lease_time, None)
        with self._context.waiting(self._line_key):
            return await self._ask(mine, deadline, once, lease_time, None)

    async def _ask(
        self,
        mine: Mine,
        deadline: float | None,
        once: bool,
        lease_time: float | None,
        turn: Turn | None,
    ) -> Hold | None:
        """Ask Redis, and wait for it unless `once`."""
        context = self._context
        lease = context.options.lease_time if lease_time is None else lease_time
        owner = self._new_owner(mine)
        attempt = self._attempt(owner, 1, lease, turn, once=once, deadline=deadline)
        granted = await _waiting.acquire(
            attempt, context.bus, None if once else deadline, once=once
        )
        return None if granted is None else self._granted(attempt, mine.task, lease_time, granted)

    def _granted(
        self, attempt: HoldAttempt, task: TaskRef, lease_time: float | None, granted: int
    ) -> Hold:
        """Keep the hold that an attempt was granted."""
        lease = self._context.options.lease_time if lease_time is None else lease_time
        ends_at = lease_end(attempt.asked_at, lease)
        owner = attempt.owner
        hold = Hold(self, owner, ends_at, lease_time is None, task, self._mark(owner))
        hold.doubtful = attempt.doubtful
        self._context.watchdog.add(hold)
        return hold

    def _take(self, hold: Hold, mine: Mine, lease_time: float | None, present: float) -> Lease:
        """Make a hold that Redis granted, or a task passed, the current task's."""
        hold.task = mine.task
        hold.count = 1
        mine.holds[self._hold_key] = hold
        self._context.describe(present)
        token = hold.next_token
        if token is not None:
            hold.next_token = token + 1
        limit = None if lease_time is None else hold.ends_at
        return self._new_lease(hold, token, limit, present)

    async def _reenter(self, hold: Hold, deadline: float | None, lease_time: float | None) -> Lease:
        context = self._context
        lease = context.options.lease_time if lease_time is None else lease_time
        hold.count += 1
        attempt = self._attempt(hold.owner, hold.count, lease, None, once=True, deadline=deadline)
        attempt.fall_back = lambda: self._fall_back(hold)
        try:
            granted = await _waiting.acquire(attempt, context.bus, deadline, once=True)
        except BaseException:
            if not attempt.undone:
                hold.count -= 1
            hold.doubtful = hold.doubtful or attempt.undone
            raise
        hold.doubtful = hold.doubtful or attempt.doubtful
        if granted is None or hold.state != "held":
            if granted is not None and hold.state == "lost":
                # Lost while the answer was on its way: nobody is left who would release it.
                self._undo(hold.owner, lease)
            context.watchdog.lose(hold, "Redis says somebody else holds it, or nobody")
            context.owners.forget(hold.task, self._hold_key, hold)
            raise hold_loss(self, hold)
        ends_at = lease_end(attempt.asked_at, lease)
        context.watchdog.set_end(hold, max(hold.ends_at, ends_at))
        if lease_time is None:
            context.watchdog.set_watched(hold, True)
        token = hold.all_leases()[-1].token if hold.all_leases() else None
        return self._new_lease(hold, token, None if lease_time is None else ends_at, now())

    def _new_lease(
        self, hold: Hold, token: int | None, limit: float | None, present: float
    ) -> Lease:
        lease = Lease(hold, limit, token, self._context.options.on_lost, present)
        hold.leases.append(lease)
        if limit is not None:
            self._context.watchdog.limit(lease, limit)
        return lease

    # Releasing.

    async def release(self) -> None:
        """Give back one hold of the current task: the newest. A cancelled release is carried out.

        Raises:
            NotHeldError: The current task has no hold.
            LeaseLostError: It had one and lost it; said once.
            ConnectionLostError: Redis did not answer; the lock is free after one lease at most.
        """
        self._context.check()
        hold = self._context.owners.of_current_task().holds.get(self._hold_key)
        if hold is None or not hold.all_leases():
            raise NotHeldError(f"{self.kind} {self._name!r} is not held by the current task")
        await self._release_lease(hold.all_leases()[-1])

    async def _release_lease(self, lease: Lease) -> None:
        """Give back one acquisition; see `Lease.release`."""
        context, hold, was_lost = self._context, lease._hold, lease._state == "lost"
        if hold.state == "held":
            context.check()
        lease._end()
        hold.drop(lease)
        hold.count -= 1
        if hold.count <= 0 or hold.state != "held":
            context.owners.forget(hold.task, self._hold_key, hold)
        if hold.state != "held":
            raise lease._loss()
        if hold.count > 0:
            await self._release_part(hold, lease)
        else:
            await self._release_last(hold, lease)
        if was_lost:
            raise lease._loss()

    async def _release_part(self, hold: Hold, lease: Lease) -> None:
        call = self._fall(hold)
        try:
            reply = await self._context.executor.answer(call)
        except BaseException:
            # From here on nobody knows whether it arrives late, or twice.
            hold.doubtful = True
            raise
        hold.doubtful = hold.doubtful or call.doubtful
        if reply is None:
            self._context.watchdog.lose(hold, "Redis says somebody else holds it, or nobody")
            raise lease._loss()

    async def _release_last(self, hold: Hold, lease: Lease) -> None:
        """Give the whole hold back, or to somebody else here."""
        was_held = hold.held
        call = self._let_go(hold)
        self._settle(call, hold, lease, await self._answer(call), was_held)

    @staticmethod
    async def _answer(call: Call) -> int | None:
        try:
            reply: int | None = await call.future
        except ReplyError as error:
            raise call.refusal(error) from error
        return reply

    def _settle(
        self, call: Call, hold: Hold, lease: Lease, reply: int | None, was_held: bool
    ) -> None:
        """Raise if a final release found nothing that a repetition of it cannot explain."""
        if reply is None and not (call.doubtful and was_held):
            lease._lose_late()
            self._context.watchdog.losses += 1
            raise lease._loss()

    def _give_back(self, hold: Hold) -> None:
        """Nobody wants this hold: release it without waiting."""
        if hold.state == "held":
            with suppress(ClientClosedError):
                self._let_go(hold)

    def _let_go(self, hold: Hold) -> Call:
        """Send the final release."""
        self._context.watchdog.remove(hold)
        hold.state = "released"
        hold.count = 0
        lease_time = self._context.options.lease_time
        return self._send_release(hold.owner, 0, lease_time, hold.doubtful)

    def _fall_back(self, hold: Hold) -> None:
        """Undo a re-entry."""
        hold.count -= 1
        if hold.count > 0:
            self._fall(hold)
        else:
            self._give_back(hold)

    def _fall(self, hold: Hold) -> Call:
        """Have Redis' hold count fall to ours, and its lease to what the rest needs."""
        context = self._context
        seconds = context.options.lease_time
        limits = [lease._limit for lease in hold.all_leases()]
        if limits and None not in limits:
            context.watchdog.set_watched(hold, False)
            seconds = lease_for(max(limit for limit in limits if limit is not None), now())
        context.watchdog.set_end(hold, min(hold.ends_at, lease_end(now(), seconds)))
        hold.setting = None
        return self._send_release(hold.owner, hold.count, seconds, hold.doubtful)

    def _send_release(
        self,
        owner: str,
        holds: int,
        lease_time: float,
        doubtful: bool,
        longest: float = PATIENCE,
    ) -> Call:
        args = self._release_args(
            self._mark(owner).encode(),
            holds,
            milliseconds(lease_time),
            milliseconds(TOMBSTONE) if doubtful and holds <= 0 else 0,
        )
        deadline = running_loop().time() + min(max(1.0, lease_time), longest)
        return self._context.executor.start(self._releasing, self._key, args, deadline, must=True)

    def _undo(self, owner: str, lease_time: float) -> None:
        """Give back what an abandoned question may have got; refuse it if it comes late."""
        # Tried for as long as there can be anything to give back.
        self._send_release(owner, 0, lease_time, doubtful=True, longest=math.inf)

    # While it is held.

    async def _set_lease(self, lease: Lease, lease_time: float) -> None:
        """Set when a lease ends; see `Lease.extend`."""
        self._context.check()
        extension = Extension(self._context, self, lease, lease_time)
        extension.send()
        await extension.answer
        if lease._hold.state != "held":
            raise lease._loss()

    def _send_lease(self, hold: Hold, lease_time: float) -> Call:
        args = self._setting.bind(
            lock=self._key,
            owner=self._mark(hold.owner).encode(),
            lease_ms=milliseconds(lease_time),
        )
        return self._context.executor.start(self._setting, self._key, args, must=True)

    def _hold_ended(self, hold: Hold) -> None:
        """A hold was lost."""
        if hold.doubtful:
            # A late duplicate of its acquire must be refused, and what it brought given back.
            with suppress(ClientClosedError):
                self._undo(hold.owner, self._context.options.lease_time)


def hold_loss(lock: HoldLock, hold: Hold) -> LeaseLostError:
    """Return the error that tells of the loss of a hold."""
    held_for = now() - hold.granted_at
    return LeaseLostError(
        f"{lock.kind} {lock.name!r} was lost after {held_for:.3f} s",
        lock.name,
        hold.owner,
        held_for,
    )
