"""ReadWriteLock: many readers or one writer.

Written by `python -m tests.sync.generate`: do not edit.
"""

from __future__ import annotations

from typing import final

from redisson_py import LockSnapshot, ReadWriteSnapshot
from redisson_py.sync._locks import ServerLock
from redisson_py.sync._two_sides import TwoSides


@final
class ReadLock(ServerLock):
    """The read side of a read-write lock, which any number of threads hold together.

    Returned by `client.get_read_write_lock(name).read_lock()`; see `ReadWriteLock` for when to
    use it and what it promises. Readers are admitted whenever nobody writes, even while a
    writer waits, unless `prefer="writers"`. All readers that waited for a writer are admitted
    together.

    Each reader has its own lease: a short one does not end the others', and a reader that dies
    delays a writer for its own lease at most. The client checks a read with `lease_time` as
    often as it renews others, because Redisson's watchdog may shorten it: the lease is then
    restored, or the loss is reported. The same thread may re-enter. A thread that holds the
    write side reads under that hold, and keeps reading after it releases the write side.

    A read under a write hold that has its own `lease_time` cannot outlast that, until the write
    side is released: one hash keeps both, and a longer read would keep the writer alive. If the
    write side expires, expect the read to end with it.

    Cost: one round trip if nobody else wants it. For interruption, times and errors see
    `acquire` and `release`.

    `locked` is true while anybody reads, including a writer that also reads. `force_release`
    frees it from all readers, but not from a writer. Protocol: Redisson's RReadWriteLock.
    """

    def locked(self) -> bool:
        """Return whether anybody reads now."""
        value: bool = self._call(lambda own: own.locked())
        return value

    def inspect(self) -> LockSnapshot:
        """Return a snapshot of the readers, for people. Decide nothing from it."""
        value: LockSnapshot = self._call(lambda own: own.inspect())
        return value


@final
class WriteLock(ServerLock):
    """The write side of a read-write lock: one thread holds it at a time, while nobody reads.

    Returned by `client.get_read_write_lock(name).write_lock()`; see `ReadWriteLock` for when to
    use it and what it promises. It is held, waited for and handed over like an `RLock`: threads
    of one client are served in order of arrival, processes take turns, and the same thread may
    re-enter.

    The holder may also read, and keeps reading after it releases this side (a downgrade): other
    readers are then admitted, with no writer in between. A thread that only reads cannot ask to
    write: acquire raises `RuntimeError` at once, because the thread would wait for itself.
    Release the read side first; another writer may get in between.

    Cost: one round trip if nobody else wants it. For interruption, times and errors see
    `acquire` and `release`. `force_release` frees it from a writer, including the writer's
    reads, but not from other readers. Protocol: Redisson's RReadWriteLock.
    """

    def locked(self) -> bool:
        """Return whether anybody writes now."""
        value: bool = self._call(lambda own: own.locked())
        return value

    def inspect(self) -> LockSnapshot:
        """Return a snapshot of the writer, for people. Decide nothing from it."""
        value: LockSnapshot = self._call(lambda own: own.inspect())
        return value


@final
class ReadWriteLock(TwoSides[ReadLock, WriteLock]):
    """A lock that many threads hold for reading or one for writing, across processes and hosts.

    Use it instead of `RLock` where only readers and writers need to exclude each other, readers
    hold it for longer than a round trip, and reads are much more frequent than writes. For
    short sections an `RLock` is simpler and hands over faster. This object is not a lock but
    has two, `read_lock()` and `write_lock()`, each with all the methods of a lock:

        lock = client.get_read_write_lock("prices")
        with lock.read_lock():
            ...

    Promised, on the server: at any instant many readers or one writer, which may also read;
    each holder's own lease ends before the server's; a reader that leaves or dies does not
    delay writers beyond what the other readers need; all readers that waited for a writer are
    admitted together.

    Not promised: that a writer ever gets its turn. As in Redisson, readers are admitted while a
    writer waits, so readers that always overlap keep writers out forever. Nor does it promise
    an order between processes, or exclusion where an `RLock` does not.

    With `prefer="writers"` a waiting writer keeps new readers out, in all processes, until it
    has had its turn or gives up; current readers may re-enter, and the writer may read. Now an
    endless series of writers keeps readers out forever. Set the same `prefer` wherever the name
    is used: only readers that set it wait, and only for writers that set it. A client logs one
    warning if it uses both values for a name, or if such a writer waits when its readers first
    enter without letting it go first; Redis shows no other difference. Redisson's protocol does
    not have this, so Java's readers are admitted as before, and nobody waits for Java's
    writers. A writer that dies while it waits keeps readers out for 10 s after its last
    request; it asks about every 3 s. `try_acquire()` does not wait, and keeps nobody out. A
    reader must not wait for another thread that starts to read: with a writer in between, all
    three wait forever.

    A thread that writes may read, and keeps reading after it releases the write side; a thread
    that only reads gets `RuntimeError` at once when it asks to write. For interruption, times
    and errors see each side's `acquire` and `release`.

    Protocol: Redisson's RReadWriteLock (a hash with the mode and a field for each holder, and a
    key for the lease of each reader's hold), with renewals that only lengthen, and with a
    message when a writer keeps reading, which Redisson's own clients ignore.
    """

    _read_kind = ReadLock
    _write_kind = WriteLock

    def inspect(self) -> ReadWriteSnapshot:
        """Return a snapshot of the readers and the writer, for people. Decide nothing from it.

        Raises:
            ConnectionLostError: Redis did not answer.
            ScriptError: The key is not a read-write lock.
            ClientClosedError: The client was closed.
        """
        value: ReadWriteSnapshot = self._call(lambda own: own.inspect())
        return value
