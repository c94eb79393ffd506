"""A client's view of a lock: its own holds, and its state on the server. Acquiring is elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from redisson_py._engine.context import Context, TaskHolds
from redisson_py._engine.hold import Hold, Reason, lost_error
from redisson_py._engine.hold_watch import HoldWatch
from redisson_py._engine.lease import Lease
from redisson_py._engine.lease_extension import set_needed_lease
from redisson_py._engine.local_queue import Waiter
from redisson_py._engine.not_held import not_held
from redisson_py._engine.ownership import Ownership
from redisson_py._engine.request import AcquireRequest
from redisson_py._engine.server import LockCommands, View
from redisson_py._loop import Task, current_task
from redisson_py._statistics import PrimitiveStatistics
from redisson_py._time import now
from redisson_py.errors import ClientClosedError, LeaseLostError


class ServerState(Ownership):
    """The holds of one client's tasks on one lock, and queries of its state on the server."""

    __slots__ = (
        "holds",
        "lease_kind",
        "make_view",
        "reads",
        "reentrant",
        "writes",
    )

    commands: LockCommands  # type: ignore[mutable-override]
    holds: TaskHolds[Hold]
    #: Makes a view of it: not kept, because there may be very many names.
    make_view: Callable[[Context, Any], View]
    #: The class of its leases.
    lease_kind: type[Lease]
    #: The holds of the read side, where this is the write side: they share owners.
    reads: TaskHolds[Hold] | None
    #: The holds of the write side, where this is the read side.
    writes: TaskHolds[Hold] | None
    #: Whether a task may acquire it again.
    reentrant: bool

    @property
    def view(self) -> View:
        """Looks at it on the server."""
        return self.make_view(self.context, self.commands)

    @property
    def waiting_key(self) -> bytes:
        """The key under which tasks that wait outside a queue are counted."""
        return self.commands.kind.encode() + b":" + self.commands.key

    async def locked(self) -> bool:
        """Return whether anybody holds it now."""
        self.context.check()
        return await self.view.locked()

    async def hold_count(self) -> int:
        """Return how many holds the current task has, as the server sees it."""
        self.context.check()
        hold = self.holds.of(current_task())
        if hold is None or hold.state != "held":
            return 0
        return await self.view.count_of(hold)

    async def remaining(self) -> float | None:
        """Return the seconds left on the server; None when it is free, infinity without expiry."""
        self.context.check()
        return await self.view.remaining()

    async def force_release(self) -> bool:
        """Free it whoever holds it; return whether anybody did."""
        self.context.check()
        before = set(self.all_holds())
        freed, once = await self.view.force_release()
        for request in self.context.pending:
            if isinstance(request, AcquireRequest):
                request.overtaken |= request.ownership.commands.key == self.commands.key
        # The writer's own reads end with the write hold.
        for hold in [*self.all_holds(), *self._holds_of(self.reads)]:
            # A hold granted since it was sent, or since its first run, is not released.
            sure = freed and once and hold in before
            if hold.state == "held" and (sure or not await self.view.is_there(hold)):
                self._force_out(hold, "forced" if freed else "taken")
        return freed

    def _force_out(self, hold: Hold, reason: Reason) -> None:
        """End a hold that was released by force, and its task's read under it."""
        if (read := self.read_under(hold)) is not None:
            self.context.watchdog.lose(read, reason)
        self.context.watchdog.lose(hold, reason)

    def read_under(self, hold: Hold) -> Hold | None:
        """Return the read hold that the task of a write hold has under the same owner."""
        on_key = self.context.watchdog.holds.on(self.commands.key)
        return next((read for read in on_key if read.parent is hold), None)

    async def release_newest(self) -> None:
        """Give back the newest hold of the current task.

        Raises:
            NotHeldError: It has none.
            LeaseLostError: It had one and lost it; raised once.
        """
        self.context.check()
        lease = self.holds.newest_lease(current_task())
        if lease is None:
            raise not_held(self, self.all_holds())
        await self.release(lease)

    def over(self, hold: Hold) -> None:
        """Let a read under the owner of an ended hold last longer than that hold."""
        if hold.reads and (read := self.read_under(hold)) is not None:
            with suppress(ClientClosedError):
                set_needed_lease(read.ownership, read)

    def join(self, waiter: Waiter) -> Waiter:
        """Join the local queue at its end, as in `LocalQueue.join`."""
        queue = self.queue
        assert queue is not None
        if queue.watch is None and self.context.bus.subscribes:
            queue.watch = HoldWatch(self.context, self.commands, queue)
        return queue.join(waiter)

    def statistics(self) -> PrimitiveStatistics:
        """Return local counters for this name."""
        queue = self.queue
        return PrimitiveStatistics(
            waiters=self.context.waiters[self.waiting_key] + (queue.waiting if queue else 0),
            held_leases=sum(len(hold.live) for hold in self.all_holds()),
        )

    def all_holds(self) -> list[Hold]:
        """Return the holds that this client has on it, also one that no task has just now."""
        return self._holds_of(self.holds)

    def _holds_of(self, holds: TaskHolds[Hold] | None) -> list[Hold]:
        """Return all holds of one side."""
        on_key = self.context.watchdog.holds.on(self.commands.key)
        return [
            hold
            for hold in on_key
            if isinstance(hold.ownership, ServerState) and hold.ownership.holds is holds
        ]

    def check_tasks_view(self, hold: Hold) -> None:
        """Raise `AssertionError` unless the tasks of this client see a hold as it is."""
        task = hold.task()
        if hold.in_passage:
            assert self.queue is not None, hold
            assert self.queue.hold is hold, hold
            assert task is not None, f"nobody will take {hold}"
            assert self.holds.of(task) is not hold, hold
        elif task is not None and not task.done():
            assert self.holds.of(task) is hold, f"its task does not know {hold}"

    def forget(self, hold: Hold) -> None:
        """Remove a hold from its task."""
        holds = self.holds
        if holds.first is hold:
            holds.first = None
        else:
            holds.remove(hold)

    @property
    def readers_wait(self) -> bool:
        """Whether tasks of this client wait to read, where this is the write side."""
        return (
            self.reads is not None and self.context.waiters[b"read lock:" + self.commands.key] > 0
        )

    def can_enter_again(self, hold: Hold) -> bool:
        """Return whether the task of a hold can acquire it again.

        Raises:
            RuntimeError: It holds it, and the lock is not reentrant, or it holds no token.
        """
        if not hold.count:
            return False
        if not self.reentrant:
            raise RuntimeError(f"this task already holds {self!r}, which is not reentrant")
        if self.commands.tokens and hold.token is None:
            raise RuntimeError(f"this task holds {hold.ownership!r}, which has no fencing token")
        return True

    def write_hold(self, task: Task) -> Hold | None:
        """Return the write hold under whose owner a task reads, if it has one."""
        assert self.writes is not None
        write = self.writes.of(task)
        if write is None or write.state != "held" or not write.live:
            return None
        return write

    def loss(self, hold: Hold) -> LeaseLostError:
        """Return the error for the loss of a hold without a lease."""
        # A hold that was released because it was over was not marked lost.
        over: Reason = "expired" if hold.renewed else "ended"
        reason = hold.reason if hold.state == "lost" else over
        return lost_error(self, hold.owner, now() - hold.granted_at, reason)
