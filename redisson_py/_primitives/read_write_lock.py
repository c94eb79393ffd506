"""ReadWriteLock: many readers or one writer, as Redisson's."""

from __future__ import annotations

from typing import final

from redisson_py._keys import Name
from redisson_py._primitives.context import Context
from redisson_py._primitives.read_lock import ReadLock
from redisson_py._primitives.read_write_sides import ReadWriteSnapshot, look_at_read_write_lock
from redisson_py._primitives.write_lock import WriteLock
from redisson_py._statistics import PrimitiveStatistics


@final
class ReadWriteLock:
    """A lock that many tasks hold for reading or one for writing, across processes and hosts.

    Use it instead of `RLock` where readers only must not meet a writer, hold for longer than
    a round trip, and come much oftener than writers. For short sections an `RLock` is simpler
    and hands over faster. It is no lock itself but has two, `read_lock()` and `write_lock()`, each
    with all the methods of a lock:

        lock = client.get_read_write_lock("prices")
        async with lock.read_lock():
            ...

    Promised, as the server sees it: at any instant many readers or one writer, which may read
    as well; every holder's own view ends before the server's; a reader that leaves or dies
    keeps writers waiting no longer than the others need; all readers that waited for a writer
    come in together.

    Not promised: that a writer's turn comes. As with Redisson, readers are let in while one
    waits, so readers that overlap without end keep writers out for ever. Nor an order between
    processes, nor exclusion where an `RLock` does not promise it (see there).

    Both sides of one task go together: who writes may read, and keeps reading after releasing
    the write side; who only reads gets `RuntimeError` at once when it asks to write. What
    cancellation does, the times and the errors are those of each side's `acquire` and `release`.

    Protocol: Redisson's RReadWriteLock (a hash with the mode and a field for each holder, and a
    key for the lease of each reader's hold), with renewals that only lengthen, and with a
    message when a writer goes on reading, which Redisson's own clients ignore.
    """

    def __init__(self, context: Context, name: Name) -> None:
        self._context = context
        self._read_lock = ReadLock(context, name)
        self._write_lock = WriteLock(context, name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    @property
    def name(self) -> Name:
        """The resource name, as it was given."""
        return self._read_lock.name

    @property
    def key(self) -> bytes:
        """The key in Redis."""
        return self._read_lock.key

    def read_lock(self) -> ReadLock:
        """Return the side that any number of tasks hold together."""
        return self._read_lock

    def write_lock(self) -> WriteLock:
        """Return the side that one task holds alone."""
        return self._write_lock

    def statistics(self) -> PrimitiveStatistics:
        """Return local counters for both sides together. No I/O; nothing is decided from them."""
        sides = self._read_lock.statistics(), self._write_lock.statistics()
        return PrimitiveStatistics(
            waiters=sum(side.waiters for side in sides),
            held_leases=sum(side.held_leases for side in sides),
        )

    async def inspect(self) -> ReadWriteSnapshot:
        """Return who reads and who writes, as a snapshot. Nothing should be decided from it.

        Raises:
            ConnectionLostError: Redis did not answer.
            ScriptError: The key is no read-write lock.
            ClientClosedError: The client was closed.
        """
        return await look_at_read_write_lock(self._context, self.key)
