"""ReadWriteLock: many readers or one writer.

Written by `python -m tests.sync.generate`: do not edit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, final

from redisson_py import LockSnapshot, PrimitiveStatistics, ReadWriteSnapshot
from redisson_py._keys import Name
from redisson_py.sync._locks import ServerLock
from redisson_py.sync._wrapping import Wrapper


@final
class ReadLock(ServerLock):
    """The side of a read-write lock that any number of threads hold together, in all processes.

    Made by `client.get_read_write_lock(name).read_lock()`; see `ReadWriteLock` for when to use
    it and what it promises. Readers are let in whenever nobody writes, also while a writer
    waits, unless `prefer="writers"` says otherwise. All that waited for a writer come in
    together.

    Each reader has a lease of its own: a long one outlives the renewals of others, a short one
    ends nobody else's, and a reader that dies keeps a writer waiting for its own lease at most.
    The client checks a read with `lease_time` as often as it renews others, because Redisson's
    watchdog may cut it short: the lease is then restored, or the loss is reported. The same
    thread may re-enter. A thread that holds the write side reads under that hold, and goes on
    reading when it has released the write side.

    A read under a write hold with a `lease_time` of its own lasts no longer than that, until
    the write side is released: one hash keeps both, and a longer read would keep the writer
    alive. If the write side ends by itself, count on the end of the read in that moment.

    Cost: uncontended one round trip. Interruption, times and errors: see `acquire` and
    `release`.

    `locked` is true while anybody reads, a writer that also reads included. `force_release`
    frees it from all readers, but not from a writer. Protocol: Redisson's RReadWriteLock.
    """

    def locked(self) -> bool:
        """Return whether anybody reads now."""
        value: bool = self._call(lambda own: own.locked())
        return value

    def inspect(self) -> LockSnapshot:
        """Return the readers, as a snapshot for people. Decide nothing from it."""
        value: LockSnapshot = self._call(lambda own: own.inspect())
        return value


@final
class WriteLock(ServerLock):
    """The side of a read-write lock that one thread holds at a time, while nobody reads.

    Made by `client.get_read_write_lock(name).write_lock()`; see `ReadWriteLock` for when to use
    it and what it promises. It is held, waited for and handed over as an `RLock`: threads of
    one client are served in the order they came, processes take turns, and the same thread may
    re-enter.

    The holder may read as well, and goes on reading when it has released this side (a
    downgrade): then other readers come in, and no writer was in between. A thread that reads
    and does not write cannot ask to write: every acquire raises `RuntimeError` at once, because
    it would wait for itself. Release the read side first; another writer may come in between.

    Cost: uncontended one round trip. Interruption, times and errors: see `acquire` and
    `release`. `force_release` frees it from a writer, its reads included, but not from other
    readers. Protocol: Redisson's RReadWriteLock.
    """

    def locked(self) -> bool:
        """Return whether anybody writes now."""
        value: bool = self._call(lambda own: own.locked())
        return value

    def inspect(self) -> LockSnapshot:
        """Return the writer, as a snapshot for people. Decide nothing from it."""
        value: LockSnapshot = self._call(lambda own: own.inspect())
        return value


class TwoSides(Wrapper):
    """Base of read-write locks: a read side and a write side, of one name."""

    @property
    def name(self) -> Name:
        """The resource name, as it was given."""
        value: Name = self._shape.name
        return value

    @property
    def key(self) -> bytes:
        """The key on the server."""
        value: bytes = self._shape.key
        return value

    def read_lock(self) -> ReadLock:
        """Return the side that any number of threads hold together."""
        return ReadLock(lambda of: of(self).read_lock())

    def write_lock(self) -> WriteLock:
        """Return the side that one thread holds alone."""
        return WriteLock(lambda of: of(self).write_lock())

    def statistics(self) -> PrimitiveStatistics:
        """Return local counters for both sides together. No I/O. Decide nothing from them."""
        value: PrimitiveStatistics = self._look(lambda own: own.statistics())
        return value

    if not TYPE_CHECKING:

        def __enter__(self, *_: object) -> NoReturn:
            raise TypeError(
                f"{type(self).__name__} is no block: write `with lock.read_lock():` or"
                " `with lock.write_lock():`"
            )

        __exit__ = __enter__


@final
class ReadWriteLock(TwoSides):
    """A lock that many threads hold for reading or one for writing, across processes and hosts.

    Use it instead of `RLock` where it is enough to keep readers and writers apart, where
    readers hold it for longer than a round trip, and where they come much more often than
    writers. For short sections an `RLock` is simpler and hands over faster. It is not a lock
    itself but has two, `read_lock()` and `write_lock()`, each with all the methods of a lock:

        lock = client.get_read_write_lock("prices")
        with lock.read_lock():
            ...

    Promised, as the server sees it: at any instant many readers or one writer, which may read
    as well; every holder's own view ends before the server's; a reader that leaves or dies
    keeps writers waiting no longer than the others need; all readers that waited for a writer
    come in together.

    Not promised: that a writer's turn comes. As with Redisson, readers are let in while a
    writer waits, so readers that overlap without end keep writers out for ever. Nor does it
    promise an order between processes, or exclusion where an `RLock` does not (see there).

    With `prefer="writers"` a writer that has asked and waits keeps new readers out, in all
    processes, until it had its turn or gives up; readers that are in may re-enter, and the
    writer may read. Now readers may wait for ever, for writers without end. Give `prefer` the
    same value wherever the name is used: only readers made with it wait, and only for writers
    made with it. Redisson's protocol has no word for it, so Java's readers are let in as ever,
    and nobody waits for Java's writers. A writer that dies while it waits keeps readers out for
    10 s after it last asked; it asks every 3 s or so. `try_acquire()` does not wait, and keeps
    nobody out. A reader must not wait for another thread that begins to read: with a writer in
    between, each waits for the next, for ever.

    Both sides of one thread go together: a thread that writes may read, and keeps reading after
    releasing the write side; one that only reads gets `RuntimeError` at once when it asks to
    write. What interruption does, the times and the errors are those of each side's `acquire`
    and `release`.

    Protocol: Redisson's RReadWriteLock (a hash with the mode and a field for each holder, and a
    key for the lease of each reader's hold), with renewals that only lengthen, and with a
    message when a writer goes on reading, which Redisson's own clients ignore.
    """

    def inspect(self) -> ReadWriteSnapshot:
        """Return the readers and the writer, as a snapshot for people. Decide nothing from it.

        Raises:
            ConnectionLostError: Redis did not answer.
            ScriptError: The key is no read-write lock.
            ClientClosedError: The client was closed.
        """
        value: ReadWriteSnapshot = self._call(lambda own: own.inspect())
        return value
