"""The locks of stores other than Redis.

Written by `python -m tests.sync.generate`: do not edit.
"""

from __future__ import annotations

from typing import final

from redisson_py import LockSnapshot, ReadWriteSnapshot
from redisson_py.sync._leases import FencedLease
from redisson_py.sync._lock_like import LockLike
from redisson_py.sync._lock_of import LockOf
from redisson_py.sync._two_sides import TwoSides


class StoreLock(LockLike):
    """A lock of a store: the methods of every lock, and the holder is the current thread.

    It promises what `RLock` does, with the store in the place of Redis; interruption, times and
    errors are the same. The class of its client and `docs/stores.md` say what differs.
    """

    def inspect(self) -> LockSnapshot:
        """Return the holder, and the waiters if the store knows them. Decide nothing from it."""
        value: LockSnapshot = self._call(lambda own: own.inspect())
        return value


@final
class FencedStoreLock(LockOf[FencedLease], StoreLock):
    """A lock of a store whose leases carry a fencing token; see `FencedLock`."""


@final
class StoreReadLock(StoreLock):
    """The side of a read-write lock that any number of threads hold together, in all processes.

    Made by `client.get_read_write_lock(name).read_lock()`; see `StoreReadWriteLock` for when to
    use it and what it promises. Each thread that reads has its own hold, and may re-enter. A
    thread that holds the write side may read as well, and keeps reading after releasing the
    write side.

    Cost: uncontended one round trip. Interruption, times and errors: see `acquire` and
    `release`.

    `locked` is true while anybody reads, a writer that also reads included. `force_release`
    ends all reads, but not the write.
    """

    def inspect(self) -> LockSnapshot:
        """Return the readers, as a snapshot for people. Decide nothing from it."""
        value: LockSnapshot = self._call(lambda own: own.inspect())
        return value


@final
class StoreWriteLock(StoreLock):
    """The side of a read-write lock that one thread holds at a time, while nobody reads.

    Made by `client.get_read_write_lock(name).write_lock()`; see `StoreReadWriteLock` for when
    to use it and what it promises. Otherwise it is a lock of the same store; its thread may
    re-enter.

    The holder may read as well, and keeps reading after releasing this side (a downgrade):
    other readers enter then, and no writer comes in between. If a thread that only reads asks
    to write, every acquire raises `RuntimeError` at once, because it would wait for itself.
    Release the read side first; another writer may come in between.

    Cost: uncontended one round trip. Interruption, times and errors: see `acquire` and
    `release`. `force_release` ends the write and its writer's reads, but no other reads.
    """


@final
class StoreReadWriteLock(TwoSides[StoreReadLock, StoreWriteLock]):
    """A lock of a store that many threads hold for reading or one for writing, in all processes.

    It is not a lock itself but has two, `read_lock()` and `write_lock()`, each with all the
    methods of a lock:

        lock = store.get_read_write_lock("prices")
        with lock.read_lock():
            ...

    Promised: at any instant many readers or one writer, which may read as well; every holder's
    own view ends before the store's. The store serves both sides in the order in which it saw
    the requests: a reader that comes after a waiting writer waits for it, so neither side
    starves the other. Threads of one client may pass the write side on out of that order, for
    as long as the client's `turn`.

    Not promised: that a reader may wait for another thread that wants to read. With a writer in
    between, both wait forever.

    A thread that writes may read, and keeps reading after releasing the write side. One that
    only reads gets `RuntimeError` at once when it asks to write.

    A lock of the same name is another lock.
    """

    _read_kind = StoreReadLock
    _write_kind = StoreWriteLock

    def inspect(self) -> ReadWriteSnapshot:
        """Return the readers and the writer, as a snapshot for people. Decide nothing from it.

        Raises:
            ConnectionLostError: The store did not answer.
            BackendError: It refused.
            ClientClosedError: The client was closed.
        """
        value: ReadWriteSnapshot = self._call(lambda own: own.inspect())
        return value


@final
class StoreSemaphoreMutex(StoreLock):
    """A lock that a thread cannot acquire twice; made by `client.get_semaphore_mutex(name)`.

    A second acquire by the holder raises `RuntimeError` at once, without I/O. A lock of the
    same name is another lock.

    Cost: uncontended three round trips for an acquire, five for a `try_acquire`, and one for a
    release.
    """
