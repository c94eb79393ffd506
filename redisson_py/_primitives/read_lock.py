"""ReadLock: the side of a read-write lock that any number of tasks hold together."""

from __future__ import annotations

from contextlib import suppress
from typing import final

from redisson_py._lease.hold import Hold
from redisson_py._options import PATIENCE
from redisson_py._owner import TaskRef
from redisson_py._primitives.attempt import HoldAttempt
from redisson_py._primitives.context import Mine
from redisson_py._primitives.looking import LockSnapshot
from redisson_py._primitives.read_write_sides import (
    READ_LOCK,
    ReadWriteSide,
    SharedOwner,
    look_at_read_write_lock,
)
from redisson_py._scripts import source
from redisson_py._stream.call import Call
from redisson_py._waiting import Turn
from redisson_py.errors import BackendError, ClientClosedError

ACQUIRE = source.load("read_lock.acquire")
RELEASE = source.load("read_lock.release")
RENEW = source.load("read_lock.renew")
SET_LEASE = source.load("read_lock.set_lease")
FORCE_RELEASE = source.load("read_lock.force_release")


class ReadAttempt(HoldAttempt):
    """Asks to read. While the answer is due, a write hold of the same owner is not passed on."""

    __slots__ = ("_due",)

    _due: bool

    def ask(self, deadline: float | None) -> None:
        """Send the question; `answer` must follow, or `undo`."""
        super().ask(deadline)
        self._due = True
        _count(self.owner, 1)

    def _answered(self) -> None:
        super()._answered()
        if self._due:
            self._due = False
            _count(self.owner, -1)


@final
class ReadLock(ReadWriteSide):
    """The side of a read-write lock that any number of tasks hold together, in all processes.

    Made by `client.get_read_write_lock(name).read_lock()`; see `ReadWriteLock` for when to
    use it and what it promises. Readers are let in whenever nobody writes, also while a writer
    waits. All that waited for a writer come in together.

    Each reader has a lease of its own: a long one outlives the renewals of others, a short
    one ends nobody else's, and a reader that dies keeps a writer waiting for its own lease at
    most. One with `lease_time` is asked after as often as others are renewed, because
    Redisson's watchdog may cut it off: that is mended, or the loss is told. Re-entry by the
    same task counts. A task that holds the write side reads under that hold, and goes on
    reading when it has released the write side.

    Cost: uncontended one round trip. What Redis has to do for a reader that leaves grows with
    the number of readers only when none of them has about as long a lease as the one that
    leaves. Cancellation, times and errors: see `acquire` and `release`; and a task whose
    last read under a write hold ended without a clear answer of Redis gets `BackendError` when
    it asks again before it has released the write side.

    `locked` is true while anybody reads, a writer that also reads included. `force_release`
    frees it from all readers, but not from a writer. Protocol: Redisson's RReadWriteLock.
    """

    kind = READ_LOCK

    _acquiring = ACQUIRE
    _releasing = RELEASE
    _setting = SET_LEASE
    _forcing = FORCE_RELEASE
    _renewal = RENEW
    # Redisson's watchdog sets the life of the hash for all readers, whatever they need.
    _cut_by_others = True

    def _new_owner(self, mine: Mine) -> str:
        write = mine.holds.get(self._write_hold_key)
        if write is None or write.state != "held" or not write.all_leases():
            return super()._new_owner(mine)
        if isinstance(write.owner, SharedOwner) and write.owner.in_doubt:
            raise BackendError(
                f"{self!r}: the last read under this write hold ended without a clear answer of"
                " Redis; release the write lock first"
            )
        return write.owner

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
        kind = ReadAttempt if isinstance(owner, SharedOwner) else HoldAttempt
        return kind(self._context, self, owner, holds, lease_time, turn)

    def _granted(
        self, attempt: HoldAttempt, task: TaskRef, lease_time: float | None, granted: int
    ) -> Hold:
        _count(attempt.owner, 1)
        return super()._granted(attempt, task, lease_time, granted)

    def _let_go(self, hold: Hold) -> Call:
        _count(hold.owner, -1)
        return super()._let_go(hold)

    def _send_release(
        self,
        owner: str,
        holds: int,
        lease_time: float,
        doubtful: bool,
        longest: float = PATIENCE,
    ) -> Call:
        if isinstance(owner, SharedOwner) and doubtful and holds <= 0:
            owner.in_doubt = True
        return super()._send_release(owner, holds, lease_time, doubtful, longest)

    def _hold_ended(self, hold: Hold) -> None:
        _count(hold.owner, -1)
        if isinstance(hold.owner, SharedOwner) and _setting_due(hold):
            # Its answer will be followed by an undo, which must not hit the next read.
            hold.owner.in_doubt = True
        super()._hold_ended(hold)
        if not (hold.doubtful or isinstance(hold.owner, SharedOwner)):
            # As long as others read, nothing else takes a dead reader's field away. Under a
            # write hold a late duplicate of this could hit the next read; there it is found
            # when the write hold ends.
            with suppress(ClientClosedError):
                self._send_release(hold.owner, 0, self._context.options.lease_time, doubtful=False)

    async def locked(self) -> bool:
        """Return whether anybody reads now."""
        mode = await self._mode()
        if mode == b"write":
            # The mode, the writer, and perhaps the same task as a reader.
            fields: int = await self._context.executor.ask(self._key, "HLEN", self._key)
            return fields > 2
        return mode == b"read"

    async def hold_count(self) -> int:
        """Return how many holds the current task has, as Redis sees it."""
        hold = self._context.owners.of_current_task().holds.get(self._hold_key)
        if hold is not None and hold.state != "held":
            # Its field may outlive its leases as long as others read.
            self._context.check()
            return 0
        return await super().hold_count()

    async def inspect(self) -> LockSnapshot:
        """Return who reads, as a snapshot for people. Nothing should be decided from it."""
        found = await look_at_read_write_lock(self._context, self._key)
        return LockSnapshot(found.readers, (), found.keys)


def _count(owner: str, change: int) -> None:
    """There is one read more or less under this owner."""
    if isinstance(owner, SharedOwner):
        owner.reads += change


def _setting_due(hold: Hold) -> bool:
    """Whether the answer to an `extend` is still to come."""
    return isinstance(hold.setting, Call) and not hold.setting.future.done()
