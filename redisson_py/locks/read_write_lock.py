"""ReadWriteLock: many readers or one writer, as Redisson's.

Both sides share one hash, one channel, and an owner a task: what a task reads while it writes
is held under the owner of its write hold, and goes on when that is released (a downgrade). There
is no upgrade: a reader that asks to write would wait for itself.
"""

from __future__ import annotations

from typing import Literal, Self, final

from redisson_py._answers import Disagrees
from redisson_py._commands.read_write_lock import (
    INSPECT,
    WRITE_SUFFIX,
    PreferredWriteLockCommands,
    ReadLockCommands,
    WriteLockCommands,
    YieldingReadLockCommands,
)
from redisson_py._engine.snapshots import HolderSnapshot, LockSnapshot, ReadWriteSnapshot
from redisson_py._keys import Name, read_write_channel
from redisson_py._on_redis.context import RedisContext
from redisson_py._on_redis.inspecting import Describer, seconds, texts
from redisson_py.locks._view import ownership_of
from redisson_py.locks.lock import ServerLock
from redisson_py.locks.two_sides import TwoSides

Prefer = Literal["readers", "writers"]
"""Who goes first where a writer waits for readers."""


@final
class ReadLock(ServerLock):
    """The side of a read-write lock that any number of tasks hold together, in all processes.

    Made by `client.get_read_write_lock(name).read_lock()`; see `ReadWriteLock` for when to
    use it and what it promises. Readers are let in whenever nobody writes, also while a writer
    waits, unless `prefer="writers"` says otherwise. All that waited for a writer come in together.

    Each reader has a lease of its own: a long one outlives the renewals of others, a short
    one ends nobody else's, and a reader that dies keeps a writer waiting for its own lease at
    most. The client checks a read with `lease_time` as often as it renews others, because
    Redisson's watchdog may cut it short: the lease is then restored, or the loss is reported. The
    same task may re-enter. A task that holds the write side reads under that hold, and goes on
    reading when it has released the write side.

    A read under a write hold with a `lease_time` of its own lasts no longer than that, until the
    write side is released: one hash keeps both, and a longer read would keep the writer alive.
    If the write side ends by itself, count on the end of the read in that moment.

    Cost: uncontended one round trip. Cancellation, times and errors: see `acquire` and `release`.

    `locked` is true while anybody reads, a writer that also reads included. `force_release`
    frees it from all readers, but not from a writer. Protocol: Redisson's RReadWriteLock.
    """

    def __init__(self, context: RedisContext, name: Name, *, prefer: Prefer = "readers") -> None:
        kind = YieldingReadLockCommands if prefer == "writers" else ReadLockCommands
        commands = kind(context.options.names.key(name, read_write_channel))
        self._prefer: Prefer = prefer
        ownership = ownership_of(context, name, commands, passes=False)
        ownership.compares = prefer == "readers"
        ownership.writes = context.registry.task_holds(b"write lock:" + commands.key)
        super().__init__(context, commands, ownership)

    def _named(self, name: Name) -> Self:
        return type(self)(self._context, name, prefer=self._prefer)

    async def locked(self) -> bool:
        """Return whether anybody reads now."""
        mode = await _mode(self)
        if mode == b"write":
            # The mode, the writer, and perhaps the same task as a reader.
            return await self._context.executor.ask_number(self.key, "HLEN", self.key) > 2
        return mode == b"read"

    async def inspect(self) -> LockSnapshot:
        """Return the readers, as a snapshot for people. Decide nothing from it."""
        found = await _inspect(self)
        return LockSnapshot(found.readers, None, found.keys)


@final
class WriteLock(ServerLock):
    """The side of a read-write lock that one task holds at a time, while nobody reads.

    Made by `client.get_read_write_lock(name).write_lock()`; see `ReadWriteLock` for when to
    use it and what it promises. It is held, waited for and handed over as an `RLock`: tasks
    of one client are served in the order they came, processes take turns, and the same task may
    re-enter.

    The holder may read as well, and goes on reading when it has released this side (a
    downgrade): then other readers come in, and no writer was in between. A task that reads
    and does not write cannot ask to write: every acquire raises `RuntimeError` at once, because
    it would wait for itself. Release the read side first; another writer may come in between.

    Cost: uncontended one round trip. Cancellation, times and errors: see `acquire` and
    `release`. `force_release` frees it from a writer, its reads included, but not from other
    readers. Protocol: Redisson's RReadWriteLock.
    """

    def __init__(self, context: RedisContext, name: Name, *, prefer: Prefer = "readers") -> None:
        kind = PreferredWriteLockCommands if prefer == "writers" else WriteLockCommands
        commands = kind(context.options.names.key(name, read_write_channel))
        self._prefer: Prefer = prefer
        ownership = ownership_of(context, name, commands)
        ownership.reads_waiting_key = b"read lock:" + commands.key
        ownership.reads = context.registry.task_holds(ownership.reads_waiting_key)
        super().__init__(context, commands, ownership)

    def _named(self, name: Name) -> Self:
        return type(self)(self._context, name, prefer=self._prefer)

    async def locked(self) -> bool:
        """Return whether anybody writes now."""
        return await _mode(self) == b"write"

    async def inspect(self) -> LockSnapshot:
        """Return the writer, as a snapshot for people. Decide nothing from it."""
        found = await _inspect(self)
        return LockSnapshot(() if found.writer is None else (found.writer,), None, found.keys)


@final
class ReadWriteLock(TwoSides[ReadLock, WriteLock]):
    """A lock that many tasks hold for reading or one for writing, across processes and hosts.

    Use it instead of `RLock` where it is enough to keep readers and writers apart, where readers
    hold it for longer than a round trip, and where they come much more often than writers. For
    short sections an `RLock` is simpler and hands over faster. It is not a lock itself but has
    two, `read_lock()` and `write_lock()`, each with all the methods of a lock:

        lock = client.get_read_write_lock("prices")
        async with lock.read_lock():
            ...

    Promised, as the server sees it: at any instant many readers or one writer, which may read
    as well; every holder's own view ends before the server's; a reader that leaves or dies
    keeps writers waiting no longer than the others need; all readers that waited for a writer
    come in together.

    Not promised: that a writer's turn comes. As with Redisson, readers are let in while a writer
    waits, so readers that overlap without end keep writers out for ever. Nor does it promise an
    order between processes, or exclusion where an `RLock` does not (see there).

    With `prefer="writers"` a writer that has asked and waits keeps new readers out, in all
    processes, until it had its turn or gives up; readers that are in may re-enter, and the writer
    may read. Now readers may wait for ever, for writers without end. Give `prefer` the same value
    wherever the name is used: only readers made with it wait, and only for writers made with it.
    A client logs one warning if it uses both values for a name, or if such a writer waits when its
    readers first come in without letting it go first. Else Redis does not show the difference.
    Redisson's protocol has no word for it, so Java's readers are let in as ever, and nobody waits
    for Java's writers. A writer that dies while it waits keeps readers out for 10 s after it last
    asked; it asks every 3 s or so. `try_acquire()` does not wait, and keeps nobody out. A reader
    must not wait for another task that begins to read: with a writer in between, each waits for
    the next, for ever.

    Both sides of one task go together: a task that writes may read, and keeps reading after
    releasing the write side; one that only reads gets `RuntimeError` at once when it asks to
    write. What cancellation does, the times and the errors are those of each side's `acquire`
    and `release`.

    Protocol: Redisson's RReadWriteLock (a hash with the mode and a field for each holder, and a
    key for the lease of each reader's hold), with renewals that only lengthen, and with a
    message when a writer goes on reading, which Redisson's own clients ignore.
    """

    def __init__(self, context: RedisContext, name: Name, *, prefer: Prefer = "readers") -> None:
        if prefer not in ("readers", "writers"):
            raise ValueError(f"prefer must be 'readers' or 'writers', not {prefer!r}")
        super().__init__(
            ReadLock(context, name, prefer=prefer), WriteLock(context, name, prefer=prefer)
        )
        if context.said.made(("prefer", self.key), lambda: prefer) != prefer:
            self._read_lock._ownership.disagrees(Disagrees())

    async def inspect(self) -> ReadWriteSnapshot:
        """Return the readers and the writer, as a snapshot for people. Decide nothing from it.

        Raises:
            ConnectionLostError: Redis did not answer.
            ScriptError: The key is no read-write lock.
            ClientClosedError: The client was closed.
        """
        return await _inspect(self._write_lock)


async def _mode(side: ServerLock) -> bytes | None:
    """Return the mode in which it is held: `b"read"`, `b"write"`, or None if it is free."""
    context = side._context
    context.check()
    mode: bytes | None = await context.executor.ask(side.key, "HGET", side.key, "mode")
    return mode


async def _inspect(side: ReadLock | WriteLock) -> ReadWriteSnapshot:
    """Return a snapshot of both sides."""
    context, key = side._context, side.key
    context.check()
    lock_left, _, *words = await context.executor.run(INSPECT, key, lock=key)
    describer = Describer(context, context.watchdog.holds.on(key))
    writer = None
    readers: list[HolderSnapshot] = []
    for name, holds, left in zip(texts(words[::3]), words[1::3], words[2::3], strict=True):
        owner = name.removesuffix(WRITE_SUFFIX)
        if owner != name:
            writer = await describer.holder(owner, holds, seconds(lock_left))
        elif left != -2:
            readers.append(await describer.holder(owner, holds, seconds(left)))
    holders = (*(() if writer is None else (writer,)), *readers)
    return ReadWriteSnapshot(holders, None, texts(side._commands.keys), writer, tuple(readers))
