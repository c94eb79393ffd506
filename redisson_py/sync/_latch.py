"""CountDownLatch: a count, and a wait until it has come to zero.

Written by `python -m tests.sync.generate`: do not edit.
"""

from __future__ import annotations

from typing import final

from redisson_py import LatchSnapshot, PrimitiveStatistics
from redisson_py._arguments import explained
from redisson_py._keys import Name
from redisson_py._time import Duration
from redisson_py.sync._wrapping import Wrapper


@final
class CountDownLatch(Wrapper):
    """A count in Redis, and a wait until it has come to zero, across processes and hosts.

    Set it to the number of jobs, have each job count down when it is done, and wait for all of
    them. Use it instead of `CyclicBarrier` where the threads that wait are not those that
    arrive, or where one of them may arrive more than once. It opens once: to use it again set a
    new count. An unset latch has the count 0: it is open.

    With `count`, the first call of this object sets the latch if it is unset. A latch that was
    counted down to zero is unset too; so an object that is first used after the last count_down
    must not bring a count of its own, or it starts another round. Where jobs may be delivered
    twice, have one coordinator call `try_set_count` under a name that it makes anew for each
    run, and give no count to the jobs. Each delivery counts down: where that must not be, give
    each job a latch of its own, with the count 1. docs/safety.md has the code.

    Promised: one call of count_down counts once, whatever happens to the connection; waiters
    are let go when the count is zero, even if the message is lost; 10,000 threads that wait
    cost one subscription, and one request lets all of them go.

    Not promised: that a waiter sees a zero after which somebody set a new count at once (then
    it waits for that one too); that the latch opens if a thread that should count down dies.
    The count has no lease: delete it if nobody brings it to zero any more. If Redis loses its
    data the latch is unset, which is open, and waiters are let go.

    Interrupted while it waits, a thread leaves nothing; any other call is carried out all the
    same. In a Redis Cluster a name with braces is refused. Protocol: Redisson's
    RCountDownLatch, a string that counts down and a message at zero.
    """

    kind = "latch"

    @property
    def name(self) -> Name:
        """The resource name, as it was given."""
        value: Name = self._shape.name
        return value

    @property
    def key(self) -> bytes:
        """The key in Redis."""
        value: bytes = self._shape.key
        return value

    @property
    def channel(self) -> bytes:
        """The channel on which zero and new counts are announced."""
        value: bytes = self._shape.channel
        return value

    @explained
    def wait(self, timeout: Duration | None = None) -> None:
        """Wait until the count is zero.

        At zero it returns after one round trip. All waiters of this client share one subscription
        and one request after each message. Interrupted, it leaves nothing.

        Args:
            timeout: Seconds to wait, in all: connecting, retries and waiting; None waits for ever,
                0 asks once.

        Raises:
            AcquireTimeoutError: The count was not zero within `timeout` seconds.
            ConnectionLostError: Redis did not answer.
            ScriptError: Redis refused: the key is no count, or no permission.
            ClientClosedError: The client was closed.
            ValueError: The timeout is negative or NaN; nothing was sent.
        """
        self._call(lambda own: own.wait(timeout))

    def try_set_count(self, n: int) -> bool:
        """Set the count if the latch is unset; return whether. Interrupted, it is carried out.

        Args:
            n: The count, 1 or more.

        Raises:
            ConnectionLostError: Redis did not answer; it may have been set.
            ScriptError: Redis refused: wrong type of key, or no permission.
            ClientClosedError: The client was closed.
            TypeError: `n` is not an int.
            ValueError: It is below 1, or too large to be exact; nothing was sent.
        """
        value: bool = self._call(lambda own: own.try_set_count(n))
        return value

    def count_down(self, n: int = 1) -> int:
        """Count down by `n`, never below zero; return what is left. Interrupted, it is carried out.

        The call that brings the count to zero lets all waiters go. On an unset latch nothing
        happens.

        Args:
            n: By how much, 1 or more.

        Raises:
            ConnectionLostError: Redis did not answer; it may have been counted.
            ScriptError: Redis refused: the key is no count, or no permission.
            ClientClosedError: The client was closed.
            TypeError: `n` is not an int.
            ValueError: It is below 1, or too large to be exact; nothing was sent.
        """
        value: int = self._call(lambda own: own.count_down(n))
        return value

    def count(self) -> int:
        """Return what is left; 0 for an open or unset latch."""
        value: int = self._call(lambda own: own.count())
        return value

    def delete(self) -> bool:
        """Unset the latch, and let its waiters go; return whether it was set.

        Waiters in this library's clients look again and find zero; those of Redisson wait on.
        Interrupted, it is carried out. Errors as for `try_set_count`.
        """
        value: bool = self._call(lambda own: own.delete())
        return value

    def inspect(self) -> LatchSnapshot:
        """Return what is left, as a snapshot for people. Decide nothing from it."""
        value: LatchSnapshot = self._call(lambda own: own.inspect())
        return value

    def statistics(self) -> PrimitiveStatistics:
        """Return local counters for this name. No I/O. Decide nothing from them."""
        value: PrimitiveStatistics = self._look(lambda own: own.statistics())
        return value
