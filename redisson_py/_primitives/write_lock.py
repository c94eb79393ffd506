"""WriteLock: the side of a read-write lock that one task holds alone."""

from __future__ import annotations

from contextlib import suppress
from typing import final

from redisson_py._handoff import Line
from redisson_py._lease.hold import Hold
from redisson_py._lease.lease import Lease
from redisson_py._primitives.context import Mine
from redisson_py._primitives.exclusive import ExclusiveLock
from redisson_py._primitives.looking import LockSnapshot
from redisson_py._primitives.read_write_sides import (
    WRITE_LOCK,
    WRITE_MARK,
    ReadWriteSide,
    SharedOwner,
    look_at_read_write_lock,
)
from redisson_py._scripts import source
from redisson_py.errors import ClientClosedError

ACQUIRE = source.load("write_lock.acquire")
RELEASE = source.load("write_lock.release")
SET_LEASE = source.load("write_lock.set_lease")
FORCE_RELEASE = source.load("write_lock.force_release")


@final
class WriteLock(ReadWriteSide, ExclusiveLock):
    """The side of a read-write lock that one task holds at a time, while nobody reads.

    Made by `client.get_read_write_lock(name).write_lock()`; see `ReadWriteLock` for when to
    use it and what it promises. It is held, waited for and handed over as an `RLock`: tasks
    of one client are served in the order they came, processes take turns, re-entry by the
    same task counts.

    The holder may read as well, and goes on reading when it has released this side (a
    downgrade): then other readers come in, and no writer was in between. A task that reads
    and does not write cannot ask to write: every acquire raises `RuntimeError` at once, because
    it would wait for itself. Release the read side first; another writer may come in between.

    Cost: uncontended one round trip. Cancellation, times and errors: see `acquire` and
    `release`. `force_release` frees it from a writer, its reads included, but not from other
    readers. Protocol: Redisson's RReadWriteLock.
    """

    kind = WRITE_LOCK

    _acquiring = ACQUIRE
    _releasing = RELEASE
    _setting = SET_LEASE
    _forcing = FORCE_RELEASE

    def _mark(self, owner: str) -> str:
        return owner + WRITE_MARK

    async def _acquire(
        self, mine: Mine, deadline: float | None, *, once: bool, lease_time: float | None
    ) -> Lease | None:
        self._refuse_upgrade(mine)
        return await super()._acquire(mine, deadline, once=once, lease_time=lease_time)

    def _new_owner(self, mine: Mine) -> str:
        self._refuse_upgrade(mine)
        return SharedOwner(super()._new_owner(mine))

    def _refuse_upgrade(self, mine: Mine) -> None:
        """A reader that waits for all readers to leave waits for itself."""
        read = mine.holds.get(self._read_hold_key)
        if read is None or read.state != "held" or not read.all_leases():
            return
        write = mine.holds.get(self._hold_key)
        if write is None or write.state != "held" or not write.all_leases():
            raise RuntimeError(
                f"this task reads {self._name!r} and would wait for itself if it asked to write;"
                " release the read lock first, or take the write lock before reading"
            )

    def _pass_on(self, line: Line, hold: Hold) -> bool:
        owner = hold.owner
        if isinstance(owner, SharedOwner) and (owner.reads or owner.in_doubt):
            # Its task goes on reading under this owner.
            return False
        return super()._pass_on(line, hold)

    def _hold_ended(self, hold: Hold) -> None:
        super()._hold_ended(hold)
        if isinstance(hold.owner, SharedOwner) and hold.owner.reads and not hold.doubtful:
            # What its task still reads keeps the hash alive, and the mode at "write".
            with suppress(ClientClosedError):
                self._send_release(hold.owner, 0, self._context.options.lease_time, doubtful=False)

    async def locked(self) -> bool:
        """Return whether anybody writes now."""
        return await self._mode() == b"write"

    async def force_release(self) -> bool:
        """Free it whoever writes, and wake waiters; return whether anybody did. Not from readers.

        For operators: the holder's critical section may still be running. A holder in this
        process is told at once, one elsewhere at its next renewal.
        """
        freed = await super().force_release()
        watchdog = self._context.watchdog
        for hold in [hold for hold in watchdog.holds if self._reads_with_writer(hold)]:
            if freed and not await self._holds(hold.mark):
                watchdog.lose(hold, "the write lock was released by force")
        return freed

    def _reads_with_writer(self, hold: Hold) -> bool:
        return hold.resource._hold_key == self._read_hold_key

    async def inspect(self) -> LockSnapshot:
        """Return who writes, as a snapshot for people. Nothing should be decided from it."""
        found = await look_at_read_write_lock(self._context, self._key)
        return LockSnapshot(() if found.writer is None else (found.writer,), (), found.keys)
