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

    A latch that was never set is open: its count is 0, and `wait()` returns at once. So set it
    to the number of jobs before anybody waits: `client.get_latch("job", 3)`, or
    `try_set_count(3)`. Each job calls `count_down()` when it is done, and `wait()` returns
    after the third.

    Use it instead of `CyclicBarrier` where the threads that wait are not those that arrive, or
    where one of them may arrive more than once. It opens once: to use it again set a new count.

    With `count`, the first call on this object sets the latch if it is unset. If more is left
    than that, another count was set, and the client logs one warning. If less is left, the
    latch may have been counted down. A latch that was counted down to zero is unset too, so an
    object first used after the last count_down must not have a `count`, or it starts another
    round. Where jobs may be delivered twice, let one coordinator call `try_set_count` with a
    new name for each run, and give the jobs no count. Each delivery counts down: if it must
    not, give each job its own latch with the count 1. docs/safety.md has the code.

    Promised: each call of count_down counts once, whatever happens to the connection; waiters
    are released when the count is zero, even if the message is lost; 10,000 waiting threads
    share one subscription, and one request releases them all.

    Not promised: that a waiter sees a zero if somebody sets a new count at once (it then waits
    for that one too); that the count comes to zero if a thread that should count down dies. A
    latch that nothing will bring to zero stays in Redis: delete it, or set it with `expire_in`,
    after which Redis removes it. If Redis loses its data the latch is unset, that is open, and
    waiters are released.

    An interrupted wait leaves nothing behind; any other interrupted call is carried out. In a
    Redis Cluster a name with braces is refused. Protocol: Redisson's RCountDownLatch, a string
    that counts down and a message at zero.
    """

    kind = "latch"

    @property
    def name(self) -> Name:
        """The resource name, as given."""
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
        """Wait until the count is zero; return at once if the latch was never set.

        At zero it returns after one round trip; the first time, a DEBUG record says that the latch
        was open. All waiters of this client share one subscription and one request after each
        message. An interrupted wait leaves nothing behind.

        It also returns when the latch is deleted, or its `expire_in` is over: then there is no
        latch, which is open. So a return says that nothing is left to wait for, not that every job
        is done; where that matters, give `wait` a timeout below `expire_in`, or let each job record
        its result.

        Args:
            timeout: Seconds to wait, including connecting and retries; 0 asks once. Default: waits
                forever.

        Raises:
            AcquireTimeoutError: The count was not zero within `timeout` seconds.
            ConnectionLostError: Redis did not answer.
            ScriptError: Redis refused: the key is not a count, or no permission.
            ClientClosedError: The client was closed.
            ValueError: The timeout is negative or NaN; nothing was sent.
        """
        self._call(lambda own: own.wait(timeout))

    @explained
    def try_set_count(self, n: int, expire_in: Duration | None = None) -> bool:
        """Set the count if the latch is unset; return whether this call set it.

        With `expire_in` an abandoned latch does not stay in Redis: it is unset after that time, by
        the server's clock, unless it came to zero or was deleted before. Then it is open, as after
        `delete()`: `wait()` returns, and `count_down()` does nothing. Waiters of this library know
        the moment from their last question and ask again then; Redisson's keep waiting, as after a
        deletion. Counting down does not move the end. A latch that is set keeps the end that it
        has, or none, whatever this call names. `count` of `get_latch` sets no end.

        An interrupted call is carried out.

        Args:
            n: The count, 1 or more.
            expire_in: Seconds until the latch is unset. Default: never.

        Raises:
            ConnectionLostError: Redis did not answer; the count may have been set.
            ScriptError: Redis refused: wrong type of key, or no permission.
            ClientClosedError: The client was closed.
            TypeError: `n` is not an int, or `expire_in` neither a number nor a timedelta.
            ValueError: `n` is below 1, or too large to be exact; `expire_in` is shorter than a
                millisecond, longer than ten years, or not finite. Nothing was sent.
        """
        value: bool = self._call(lambda own: own.try_set_count(n, expire_in))
        return value

    def count_down(self, n: int = 1) -> int:
        """Count down by `n`, never below zero; return what is left.

        The call that brings the count to zero releases all waiters. On an unset latch nothing
        happens. An interrupted call is carried out.

        Args:
            n: How much to subtract, 1 or more. Default: 1.

        Raises:
            ConnectionLostError: Redis did not answer; the call may have counted.
            ScriptError: Redis refused: the key is not a count, or no permission.
            ClientClosedError: The client was closed.
            TypeError: `n` is not an int.
            ValueError: `n` is below 1, or too large to be exact; nothing was sent.
        """
        value: int = self._call(lambda own: own.count_down(n))
        return value

    def count(self) -> int:
        """Return the count that is left; 0 for an open or unset latch."""
        value: int = self._call(lambda own: own.count())
        return value

    def delete(self) -> bool:
        """Unset the latch and release its waiters; return whether it was set.

        Waiters of this library ask again and find zero; those of Redisson keep waiting. An
        interrupted call is carried out. Errors are those of `try_set_count`.
        """
        value: bool = self._call(lambda own: own.delete())
        return value

    def inspect(self) -> LatchSnapshot:
        """Return a snapshot of the latch, for people. Decide nothing from it."""
        value: LatchSnapshot = self._call(lambda own: own.inspect())
        return value

    def statistics(self) -> PrimitiveStatistics:
        """Return local counters for this name. No I/O. Decide nothing from them."""
        value: PrimitiveStatistics = self._look(lambda own: own.statistics())
        return value
