"""The read-write lock of a store: many readers or one writer.

Each side has holds of its own. What a task reads while it writes is a hold like any other, under an
owner of its own, that the store grants although the task writes; so it stays when the write side is
released (a downgrade). There is no upgrade: a reader that asks to write would wait for itself.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import final

from redisson_py._answers import Granted
from redisson_py._engine.context import Context, TaskHolds
from redisson_py._engine.hold import Hold
from redisson_py._engine.request import AcquireRequest
from redisson_py._engine.server import Asked
from redisson_py._engine.snapshots import LockSnapshot, ReadWriteSnapshot
from redisson_py._engine.task_ownership import TaskOwnership
from redisson_py._engine.waiting import HeadStart
from redisson_py._keys import Name
from redisson_py._loop import Task
from redisson_py._stores.commands import StoreLockCommands, UnqueuedCommands
from redisson_py._stores.contract import Wish
from redisson_py._stores.locks import StoreLock, StoreView, described, name_of
from redisson_py._stores.ownership import EndedHere
from redisson_py.locks.two_sides import TwoSides


class _ReadUnderWrite(AcquireRequest):
    """The request of a task that writes, and asks to read.

    Attributes:
        write: The write hold of the task.
    """

    __slots__ = ("write",)

    write: Hold


class _ReadCommands(UnqueuedCommands):
    """The requests about the read side."""

    __slots__ = ()

    def wish(self, request: Asked) -> Wish:
        """Return what an acquire request asks a store for."""
        wish = super().wish(request)
        if isinstance(request, _ReadUnderWrite):
            return replace(wish, within=request.write.owner)
        return wish


class _ReadSide(TaskOwnership):
    """The holds of one client's tasks on the read side."""

    __slots__ = ()

    def __init__(self, context: Context, name: Name) -> None:
        text = name_of(context, name)
        commands = _ReadCommands(text, held="read")
        # Readers do not wait for each other, so nothing is passed on among them.
        super().__init__(context, name, commands, StoreView, passes=False)
        self.writes = context.registry.holds["write lock"].get(commands.key, TaskHolds)

    def new_request(
        self,
        task: Task,
        lease_time: float | None,
        head_start: HeadStart | None = None,
        *,
        once: bool,
        deadline: float | None,
    ) -> AcquireRequest:
        """Return the request for a new hold of a task, which may write."""
        write = self.write_hold(task)
        if write is None:
            return super().new_request(task, lease_time, head_start, once=once, deadline=deadline)
        owner = self.context.owners.new_owner()
        lease = self.context.options.lease_time if lease_time is None else lease_time
        request = _ReadUnderWrite(self, owner, 1, lease, head_start, once=once, deadline=deadline)
        request.write, request.renewed = write, lease_time is None
        return request

    def granted(
        self, request: AcquireRequest, task: Task, lease_time: float | None, answer: Granted
    ) -> Hold:
        """Return the hold of a granted request."""
        hold = super().granted(request, task, lease_time, answer)
        write = request.write if isinstance(request, _ReadUnderWrite) else None
        if write is not None and write.state == "held" and write.task() is not task:
            # Another task of this client writes now: this hold is over before it is used.
            hold.lease_maybe_set(request.sent_at, 0.0)
        return hold


class _ReadSideEndedHere(EndedHere, _ReadSide):
    """The same in a store that ends no lease."""

    __slots__ = ()


class _WriteSide(TaskOwnership):
    """The holds of one client's tasks on the write side."""

    __slots__ = ()

    def __init__(self, context: Context, name: Name) -> None:
        text = name_of(context, name)
        commands = StoreLockCommands(text, held="write")
        super().__init__(context, name, commands, StoreView)
        self.reads = context.registry.holds["read lock"].get(commands.key, TaskHolds)

    def pass_on(self, hold: Hold) -> bool:
        """Pass a hold to the next waiting task, unless its own task reads under it."""
        assert self.reads is not None
        task = hold.task()
        read = None if task is None else self.reads.of(task)
        if task is None or (read is not None and read.state == "held"):
            return False
        return super().pass_on(hold)


class _WriteSideEndedHere(EndedHere, _WriteSide):
    """The same in a store that ends no lease."""

    __slots__ = ()


@final
class StoreReadLock(StoreLock):
    """The side of a read-write lock that any number of tasks hold together, in all processes.

    Made by `client.get_read_write_lock(name).read_lock()`; see `StoreReadWriteLock` for when to use
    it and what it promises. Each task that reads has its own hold, and may re-enter. A task that
    holds the write side may read as well, and keeps reading after releasing the write side.

    Cost: uncontended one round trip. Cancellation, times and errors: see `acquire` and `release`.

    `locked` is true while anybody reads, a writer that also reads included. `force_release` ends
    all reads, but not the write.
    """

    async def inspect(self) -> LockSnapshot:
        """Return the readers, as a snapshot for people. Decide nothing from it."""
        state = await self._state()
        return LockSnapshot(described(state.readers, self._ownership), state.waiters, state.keys)


@final
class StoreWriteLock(StoreLock):
    """The side of a read-write lock that one task holds at a time, while nobody reads.

    Made by `client.get_read_write_lock(name).write_lock()`; see `StoreReadWriteLock` for when to
    use it and what it promises. Otherwise it is a lock of the same store; its task may re-enter.

    The holder may read as well, and keeps reading after releasing this side (a downgrade): other
    readers enter then, and no writer comes in between. If a task that only reads asks to write,
    every acquire raises `RuntimeError` at once, because it would wait for itself. Release the read
    side first; another writer may come in between.

    Cost: uncontended one round trip. Cancellation, times and errors: see `acquire` and `release`.
    `force_release` ends the write and its writer's reads, but no other reads.
    """


@final
class StoreReadWriteLock(TwoSides[StoreReadLock, StoreWriteLock]):
    """A lock of a store that many tasks hold for reading or one for writing, in all processes.

    It is not a lock itself but has two, `read_lock()` and `write_lock()`, each with all the methods
    of a lock:

        lock = store.get_read_write_lock("prices")
        async with lock.read_lock():
            ...

    Promised: at any instant many readers or one writer, which may read as well; every holder's own
    view ends before the store's. The store serves both sides in the order in which it saw the
    requests: a reader that comes after a waiting writer waits for it, so neither side starves the
    other. Tasks of one client may pass the write side on out of that order, for as long as the
    client's `turn`.

    Not promised: that a reader may await another task that wants to read. With a writer in
    between, both wait forever.

    A task that writes may read, and keeps reading after releasing the write side. One that only
    reads gets `RuntimeError` at once when it asks to write.

    A lock of the same name is another lock.
    """

    def __init__(self, context: Context, name: Name, *, ends_leases: bool = False) -> None:
        """Make both sides; the store `ends_leases` of their holds, or this client does."""
        read = _ReadSide if ends_leases else _ReadSideEndedHere
        write = _WriteSide if ends_leases else _WriteSideEndedHere
        super().__init__(
            StoreReadLock(partial(read, context), name),
            StoreWriteLock(partial(write, context), name),
        )

    async def inspect(self) -> ReadWriteSnapshot:
        """Return the readers and the writer, as a snapshot for people. Decide nothing from it.

        Raises:
            ConnectionLostError: The store did not answer.
            BackendError: It refused.
            ClientClosedError: The client was closed.
        """
        read, write = self._read_lock, self._write_lock
        state = await write._state()
        writers = () if state.holder is None else (state.holder,)
        readers = described(state.readers, read._ownership)
        holders = described(writers, write._ownership)
        writer = holders[0] if holders else None
        return ReadWriteSnapshot((*holders, *readers), state.waiters, state.keys, writer, readers)
