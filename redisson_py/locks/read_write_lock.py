"""ReadWriteLock: many readers or one writer, as Redisson's.

Both sides share one hash, one channel, and one owner per task: a task that reads while it writes
holds the read side under the owner of its write hold, and keeps it when it releases the write side
(a downgrade). There is no upgrade: a reader that asks to write would wait for itself.
"""

from __future__ import annotations

from typing import Literal, Self, final

from redisson_py._answers import Disagrees
from redisson_py._engine.context import TaskHolds
from redisson_py._engine.snapshots import HolderSnapshot, LockSnapshot, ReadWriteSnapshot
from redisson_py._keys import Name, read_write_channel
from redisson_py._redis.commands.read_write_lock import (
    WRITE_SUFFIX,
    PreferredWriteLockCommands,
    ReadLockCommands,
    WriteLockCommands,
    YieldingReadLockCommands,
)
from redisson_py._redis.context import RedisContext
from redisson_py._redis.inspecting import Describer, seconds, texts
from redisson_py._redis.view import ownership_of
from redisson_py.locks.lock import ServerLock
from redisson_py.locks.two_sides import TwoSides

Prefer = Literal["readers", "writers"]
"""Who goes first where a writer waits for readers."""


class _Side(ServerLock):
    """One side of a read-write lock; the hash shows both."""

    async def _mode(self) -> bytes | None:
        """Return the mode in which it is held: `b"read"`, `b"write"`, or None if it is free."""
        context, key = self._context, self.key
        context.check()
        mode: bytes | None = await context.executor.query(key, "HGET", key, "mode")
        return mode

    async def _inspect_both(self, waits_for: bytes | None = b"") -> ReadWriteSnapshot:
        """Return a snapshot of both sides; who waits: those whose names in the queue end so."""
        context, commands, key = self._context, self._commands, self.key
        context.check()
        lock_left, _, count, *words = await context.executor.run(key, commands.inspect())
        words, rows = words[:count], words[count:]
        waits = commands.waiters(rows, waits_for or b"")
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
        return ReadWriteSnapshot(
            holders,
            tuple(each.owner for each in waits),
            texts(commands.keys),
            writer,
            tuple(readers),
            waiting=await describer.waiting(waits),
        )


@final
class ReadLock(_Side):
    """The read side of a read-write lock, which any number of tasks hold together.

    Returned by `client.get_read_write_lock(name).read_lock()`; see `ReadWriteLock` for when to
    use it and what it promises. Readers are admitted whenever nobody writes, even while a writer
    waits, unless `prefer="writers"`. All readers that waited for a writer are admitted together.

    Each reader has its own lease: a short one does not end the others', and a reader that dies
    delays a writer for its own lease at most. The client checks a read with `lease_time` as often
    as it renews others, because Redisson's watchdog may shorten it: the lease is then restored, or
    the loss is reported. The same task may re-enter. A task that holds the write side reads under
    that hold, and keeps reading after it releases the write side.

    A read under a write hold that has its own `lease_time` cannot outlast that, until the write
    side is released: one hash keeps both, and a longer read would keep the writer alive. If the
    write side expires, expect the read to end with it.

    Cost: one round trip if nobody else wants it. For cancellation, times and errors see `acquire`
    and `release`.

    `locked` is true while anybody reads, including a writer that also reads. `force_release`
    frees it from all readers, but not from a writer. Protocol: Redisson's RReadWriteLock.
    """

    def __init__(self, context: RedisContext, name: Name, *, prefer: Prefer = "readers") -> None:
        kind = YieldingReadLockCommands if prefer == "writers" else ReadLockCommands
        commands = kind(context.options.names.key(name, read_write_channel))
        self._prefer: Prefer = prefer
        ownership = ownership_of(context, name, commands, passes=False)
        ownership.compares = prefer == "readers"
        ownership.writes = context.registry.holds["write lock"].get(commands.key, TaskHolds)
        super().__init__(context, commands, ownership)

    def _named(self, name: Name) -> Self:
        return type(self)(self._context, name, prefer=self._prefer)

    def _warn_of_two_values(self) -> None:
        """Warn that this client uses both values of `prefer` for its name."""
        self._ownership.disagrees(Disagrees())

    async def locked(self) -> bool:
        """Return whether anybody reads now."""
        mode = await self._mode()
        if mode == b"write":
            # The mode, the writer, and perhaps the same task as a reader.
            return await self._context.executor.query_number(self.key, "HLEN", self.key) > 2
        return mode == b"read"

    async def inspect(self) -> LockSnapshot:
        """Return a snapshot of the readers, for people. Decide nothing from it."""
        found = await self._inspect_both(self._commands.client_suffix)
        return LockSnapshot(found.readers, found.waiters, found.keys, waiting=found.waiting)


@final
class WriteLock(_Side):
    """The write side of a read-write lock: one task holds it at a time, while nobody reads.

    Returned by `client.get_read_write_lock(name).write_lock()`; see `ReadWriteLock` for when to
    use it and what it promises. It is held, waited for and handed over like an `RLock`: tasks
    of one client are served in order of arrival, processes take turns, and the same task may
    re-enter.

    The holder may also read, and keeps reading after it releases this side (a downgrade): other
    readers are then admitted, with no writer in between. A task that only reads cannot ask to
    write: acquire raises `RuntimeError` at once, because the task would wait for itself. Release
    the read side first; another writer may get in between.

    Cost: one round trip if nobody else wants it. For cancellation, times and errors see `acquire`
    and `release`. `force_release` frees it from a writer, including the writer's reads, but not
    from other readers. Protocol: Redisson's RReadWriteLock.
    """

    def __init__(self, context: RedisContext, name: Name, *, prefer: Prefer = "readers") -> None:
        kind = PreferredWriteLockCommands if prefer == "writers" else WriteLockCommands
        commands = kind(context.options.names.key(name, read_write_channel))
        self._prefer: Prefer = prefer
        ownership = ownership_of(context, name, commands)
        ownership.reads = context.registry.holds["read lock"].get(commands.key, TaskHolds)
        super().__init__(context, commands, ownership)

    def _named(self, name: Name) -> Self:
        return type(self)(self._context, name, prefer=self._prefer)

    async def locked(self) -> bool:
        """Return whether anybody writes now."""
        return await self._mode() == b"write"

    async def inspect(self) -> LockSnapshot:
        """Return a snapshot of the writer, for people. Decide nothing from it."""
        found = await self._inspect_both(self._commands.client_suffix)
        holders = () if found.writer is None else (found.writer,)
        return LockSnapshot(holders, found.waiters, found.keys, waiting=found.waiting)


@final
class ReadWriteLock(TwoSides[ReadLock, WriteLock]):
    """A lock that many tasks hold for reading or one for writing, across processes and hosts.

    Use it instead of `RLock` where only readers and writers need to exclude each other, readers
    hold it for longer than a round trip, and reads are much more frequent than writes. For short
    sections an `RLock` is simpler and hands over faster. This object is not a lock but has two,
    `read_lock()` and `write_lock()`, each with all the methods of a lock:

        lock = client.get_read_write_lock("prices")
        async with lock.read_lock():
            ...

    Promised, on the server: at any instant many readers or one writer, which may also read; each
    holder's own lease ends before the server's; a reader that leaves or dies does not delay
    writers beyond what the other readers need; all readers that waited for a writer are admitted
    together.

    Not promised: that a writer ever gets its turn. As in Redisson, readers are admitted while a
    writer waits, so readers that always overlap keep writers out forever. Nor does it promise an
    order between processes, or exclusion where an `RLock` does not.

    With `prefer="writers"` a waiting writer keeps new readers out, in all processes, until it has
    had its turn or gives up; current readers may re-enter, and the writer may read. Now an endless
    series of writers keeps readers out forever. Set the same `prefer` wherever the name is used:
    only readers that set it wait, and only for writers that set it. A client logs one warning if it
    uses both values for a name, or if such a writer waits when its readers first enter without
    letting it go first; Redis shows no other difference.
    Redisson's protocol does not have this, so Java's readers are admitted as before, and nobody
    waits for Java's writers. A writer that dies while it waits keeps readers out for 10 s after its
    last request; it asks about every 3 s. `try_acquire()` does not wait, and keeps nobody out. A
    reader must not wait for another task that starts to read: with a writer in between, all three
    wait forever.

    A task that writes may read, and keeps reading after it releases the write side; a task that
    only reads gets `RuntimeError` at once when it asks to write. For cancellation, times and errors
    see each side's `acquire` and `release`.

    Protocol: Redisson's RReadWriteLock (a hash with the mode and a field for each holder, and a
    key for the lease of each reader's hold), with renewals that only lengthen, and with a
    message when a writer keeps reading, which Redisson's own clients ignore.
    """

    def __init__(self, context: RedisContext, name: Name, *, prefer: Prefer = "readers") -> None:
        if prefer not in ("readers", "writers"):
            raise ValueError(f"prefer must be 'readers' or 'writers', not {prefer!r}")
        super().__init__(
            ReadLock(context, name, prefer=prefer), WriteLock(context, name, prefer=prefer)
        )
        if context.said.made(("prefer", self.key), lambda: prefer) != prefer:
            self._read_lock._warn_of_two_values()

    async def inspect(self) -> ReadWriteSnapshot:
        """Return a snapshot of the readers and the writer, for people. Decide nothing from it.

        Raises:
            ConnectionLostError: Redis did not answer.
            ScriptError: The key is not a read-write lock.
            ClientClosedError: The client was closed.
        """
        return await self._write_lock._inspect_both()
