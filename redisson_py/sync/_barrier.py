"""CyclicBarrier: parties that wait for each other, again and again.

Written by `python -m tests.sync.generate`: do not edit.
"""

from __future__ import annotations

from types import TracebackType
from typing import final

from redisson_py import BarrierSnapshot, PrimitiveStatistics
from redisson_py._keys import Name
from redisson_py._time import Duration
from redisson_py.sync._wrapping import Wrapper


@final
class CyclicBarrier(Wrapper):
    """A number of parties that wait for each other, across processes and hosts.

    The last party to arrive releases all, and the barrier is ready for the next round. `wait`
    returns a position from 0 to parties - 1, each once per round, so that one party can be
    picked for a thread. Parties may be threads of one client or of many; all must give the same
    number.

    Use it instead of `CountDownLatch` where the threads that arrive are those that wait, round
    after round.

    A party that is interrupted, times out or dies while it waits breaks the barrier, because
    the others would wait forever. A broken barrier raises `BrokenBarrierError` in current
    waiters and in later arrivals:

    - Current waiters always get it: their round has failed and is not resumed.
    - Later arrivals get it for one lease after the last sign of life of its parties, so that a
      late party of the broken round does not start a round alone. Then the barrier works again.
      A refused arrival does not prolong this.
    - If every party dies and no other party arrives, the barrier is fresh when the last arrival
      has expired.
    - After `abort` it stays broken until `reset`, which repairs it in any case.

    It differs from `threading.Barrier` in this: a released party stays released: `reset` and
    `abort` never reach it. The next round may start at once, and they do reach parties that
    already wait for it.

    Promised: a wait arrives exactly once, whatever happens to the connection; no party is
    released before all have arrived; a party that dies breaks the barrier within one lease of
    its client (`lease_time`, or 0.3 s if that is longer), because a waiting party keeps its
    arrival alive by asking again. A lock of the same name is independent. Everything in Redis
    expires, except the mark of `abort`: the keys of a round with its parties, and a small key
    of each wait after a minute, two leases, or a minute after the wait's own timeout, whichever
    is latest.

    Not promised: that a wait which is interrupted, or loses its connection, at the moment of
    release holds the others back: they are released anyway. If Redis loses its data, all
    waiters get `BrokenBarrierError` and the barrier is fresh. After a failover that lost an
    arrival, the remaining parties wait for one more.

    Cost: one script for the last party; the others send two, one more at the end, and one every
    third of a lease. An interrupted wait breaks the barrier and leaves nothing else behind. The
    protocol is our own; Redisson has no barrier. Barriers: Hensgen, Finkel, Manber, "Two
    algorithms for barrier synchronization", 1988; breaking them: Java's CyclicBarrier.
    """

    kind = "barrier"

    @property
    def name(self) -> Name:
        """The resource name, as given."""
        value: Name = self._shape.name
        return value

    @property
    def key(self) -> bytes:
        """The key of the current round in Redis; not that of a lock of the same name."""
        value: bytes = self._shape.key
        return value

    @property
    def channel(self) -> bytes:
        """The channel whose messages make parties ask again."""
        value: bytes = self._shape.channel
        return value

    @property
    def parties(self) -> int:
        """The number of parties that must arrive."""
        value: int = self._shape.parties
        return value

    def wait(self, timeout: Duration | None = None) -> int:
        """Wait until all parties have arrived; return this one's position, 0 for the first.

        A wait that is interrupted, times out or loses its connection to Redis breaks the barrier
        for the others, unless they have already been released.

        Args:
            timeout: Seconds to wait, including connecting and retries; 0 succeeds only for the last
                to arrive. Default: waits forever. After a timeout the call may take half a second
                more to learn whether this party was released just before.

        Raises:
            BrokenBarrierError: The barrier is broken, or was broken or reset during the wait.
            AcquireTimeoutError: Not all parties arrived within `timeout` seconds.
            ConnectionLostError: Redis did not answer. After a timeout, this party may have been
                released just before.
            ScriptError: Redis refused: wrong type of key, a hash that is not a barrier's, or no
                permission.
            ClientClosedError: The client was closed.
            ValueError: Other parties wait with another number of parties, or the timeout is
                negative or NaN. Nothing was changed.
        """
        value: int = self._call(lambda own: own.wait(timeout))
        return value

    def abort(self) -> None:
        """Break the barrier: waiters and later arrivals get `BrokenBarrierError`, until `reset`.

        It does not reach released parties, whether or not they have run since, but it reaches
        parties that already wait for the next round. An interrupted call is carried out.

        Raises:
            ConnectionLostError: Redis did not answer; the barrier may have been broken.
            ScriptError: Redis refused: wrong type of key, a hash that is not a barrier's, or no
                permission.
            ClientClosedError: The client was closed.
        """
        self._call(lambda own: own.abort())

    def reset(self) -> None:
        """Make the barrier fresh: not broken, and nobody waits. Waiters get `BrokenBarrierError`.

        It does not reach released parties, whether or not they have run since, but it reaches
        parties that already wait for the next round. An interrupted call is carried out. Errors are
        those of `abort`.
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
        """Return a snapshot for people, with at most a hundred waiting parties.

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
