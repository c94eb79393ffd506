"""CyclicBarrier: parties that wait for each other, again and again.

Written by `python -m tests.sync.generate`: do not edit.
"""

from __future__ import annotations

from types import TracebackType
from typing import final

from redisson_py import BarrierSnapshot, PrimitiveStatistics
from redisson_py._arguments import explained
from redisson_py._keys import Name
from redisson_py._time import Duration
from redisson_py.sync._wrapping import Wrapper


@final
class CyclicBarrier(Wrapper):
    """A place where a number of parties wait for each other, across processes and hosts.

    The last one to come releases all, and the barrier is ready for the next round. `wait`
    returns a position from 0 to parties - 1, each once a round, so that one party can be picked
    for a thread. Parties may be threads of one client or of many; all must give the same
    number.

    Use it instead of `CountDownLatch` where the threads that arrive are those that wait, round
    after round.

    A party that is interrupted, times out or dies while it waits breaks the barrier, because
    the others would wait for ever. A broken barrier raises `BrokenBarrierError` in current
    waiters and in later arrivals:

    - Current waiters always learn of it: their round is gone and never comes back.
    - Later arrivals get it for one lease after the last sign of life of its parties, so that a
      late party of the broken round does not begin a round of its own. Then the barrier mends
      itself. A refused arrival does not prolong this.
    - If every party dies and no other party comes, the barrier is fresh when the last arrival
      has ended.
    - After `abort` it stays broken until `reset`, which mends it in any case.

    It differs from `threading.Barrier` in this: a released party stays released: `reset` and
    `abort` never reach it. The next round may begin at once, and they do reach parties that
    already wait for it.

    Promised: a wait arrives exactly once, whatever happens to the connection; nobody is let go
    before all have come; a party that dies breaks the barrier within one lease of its client
    (`lease_time`, or 0.3 s if that is longer), since a waiting one keeps its arrival alive by
    looking again. A lock of the same name is not affected, and does not affect it. Everything
    in Redis expires, except the mark of `abort`: the keys of a round with its parties, and a
    small key of each wait after a minute, two leases, or a minute after the wait's own timeout,
    whichever is latest.

    Not promised: that a wait that ends in the moment of release by an interruption, or by the
    loss of the connection, holds the others back: they are let go all the same. If Redis loses
    its data, all waiters get `BrokenBarrierError` and the barrier is fresh. After a failover
    that lost an arrival, the remaining parties wait for one more.

    Cost: one script for the last party; the others send two, one more when it is over, and one
    every third of a lease. Interrupted while it waits, a party breaks the barrier and leaves
    nothing else. Own protocol, which Redisson does not have. Barriers: Hensgen, Finkel, Manber,
    "Two algorithms for barrier synchronization", 1988; breaking them: Java's CyclicBarrier.
    """

    kind = "barrier"

    @property
    def name(self) -> Name:
        """The resource name, as it was given."""
        value: Name = self._shape.name
        return value

    @property
    def key(self) -> bytes:
        """The key of the round under way in Redis; not that of a lock of the same name."""
        value: bytes = self._shape.key
        return value

    @property
    def channel(self) -> bytes:
        """The channel on which parties are told to look again."""
        value: bytes = self._shape.channel
        return value

    @property
    def parties(self) -> int:
        """The number of parties that must come."""
        value: int = self._shape.parties
        return value

    @explained
    def wait(self, timeout: Duration | None = None) -> int:
        """Wait until all parties have come; return this one's position, 0 for the first.

        If it is interrupted, times out or is cut off from Redis, it breaks the barrier for the
        others, unless they have been let go already.

        Args:
            timeout: Seconds to wait, in all: connecting, retries and waiting; None waits for ever,
                0 only succeeds for the last to come. When they are over, it leaves, and may take
                half a second more to learn whether it was released just before.

        Raises:
            BrokenBarrierError: The barrier is broken, or was broken or reset meanwhile.
            AcquireTimeoutError: Not all came within `timeout` seconds.
            ConnectionLostError: Redis did not answer. Where its time was up, this party may have
                been released just before.
            ScriptError: Redis refused: wrong type of key, a hash that is not a barrier's, or no
                permission.
            ClientClosedError: The client was closed.
            ValueError: Others wait here for another number of parties, or the timeout is negative
                or NaN. Nothing was changed.
        """
        value: int = self._call(lambda own: own.wait(timeout))
        return value

    def abort(self) -> None:
        """Break the barrier: waiters and later arrivals get `BrokenBarrierError`, until `reset`.

        Parties that were released are not reached, whether or not they have run since; parties that
        already wait for the next round are. Interrupted, it is carried out.

        Raises:
            ConnectionLostError: Redis did not answer; it may have been broken.
            ScriptError: Redis refused: wrong type of key, a hash that is not a barrier's, or no
                permission.
            ClientClosedError: The client was closed.
        """
        self._call(lambda own: own.abort())

    def reset(self) -> None:
        """Make the barrier fresh: mended, and nobody waits. Waiters get `BrokenBarrierError`.

        Parties that were released are not reached, whether or not they have run since; parties that
        already wait for the next round are. Interrupted, it is carried out. Errors as for `abort`.
        """
        self._call(lambda own: own.reset())

    def n_waiting(self) -> int:
        """Return how many parties wait now."""
        value: int = self._call(lambda own: own.n_waiting())
        return value

    def broken(self) -> bool:
        """Return whether the barrier is broken."""
        value: bool = self._call(lambda own: own.broken())
        return value

    def inspect(self) -> BarrierSnapshot:
        """Return a snapshot for people; it lists at most a hundred of the parties that wait.

        Decide nothing from it.
        """
        value: BarrierSnapshot = self._call(lambda own: own.inspect())
        return value

    def statistics(self) -> PrimitiveStatistics:
        """Return local counters for this name. No I/O. Decide nothing from them."""
        value: PrimitiveStatistics = self._look(lambda own: own.statistics())
        return value

    def __enter__(self) -> int:
        return self.wait()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return
