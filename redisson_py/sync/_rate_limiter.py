"""RateLimiter: so many units in any interval.

Written by `python -m tests.sync.generate`: do not edit.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self, final

from redisson_py import Admission, PrimitiveStatistics, RateLimit, RateLimiterSnapshot
from redisson_py._arguments import explained
from redisson_py._keys import Name
from redisson_py._time import Duration
from redisson_py.sync._blocks import P, R
from redisson_py.sync._decorating import decorate
from redisson_py.sync._wrapping import Wrapper


@final
class RateLimiter(Wrapper):
    """At most `rate` units in any interval of `per` seconds, across processes and hosts.

    Use it for calls to a service that allows so many a second, and for requests of your own
    users (429, with `retry_after`). Use a `Semaphore` instead to limit how many run at one
    time: here nothing is given back, units come back `per` seconds after they were taken.

    With `rate`, each use sets the rate of a limiter that has none. One that has another rate
    keeps it, and the client logs one warning: `set_rate` changes it. With `per_client=True`
    each client has `rate` units of its own, instead of all together (Redisson's PER_CLIENT).

    Promised: not more than `rate` units in any interval of `per`, by the clock of the server
    and as it recorded them; first come, first served among the threads of one client; each
    admission counts once, whatever happens to the connection; an interrupted `acquire` gives
    back what it was admitted, unless the answer had come.

    Not promised: an order among clients (whoever asks first when something fits); that calls
    reach a third party at that rate (a request may be slow on its way); the limit across
    `set_rate` or `delete`, after which what was admitted before does not count; the limit if
    Redis loses its data, also by a failover, or if its clock is set back or forth. Redisson's
    clients record the moment at which they asked, by their own clocks: beside them the limit is
    as exact as those clocks are equal and their requests fast.

    It costs one command for each admission, or fewer: a thread that has to wait sleeps until
    the moment that the server named, and asks once; those of one client behind it do not ask. A
    message wakes it when the rate changes or units come back earlier. Redis keeps a record of
    each admission for `per` seconds, and the limiter until it is deleted; with the client's
    option `idle_lifetime` that long after its last use, or `per` if that is longer. Use it for
    limiters of which there are many, such as one for each user.

    Protocol: Redisson's RRateLimiter, which logs admissions in a sorted set (a sliding window
    log).
    """

    kind = "rate limiter"

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

    @explained
    def acquire(self, n: int = 1, *, timeout: Duration | None = None) -> Admission:
        """Take `n` units; wait until they are free.

        An interrupted call gives back what it was admitted meanwhile, unless the answer had come.

        Args:
            n: How many units, all at once. Default: 1.
            timeout: Seconds to wait, including connecting and retries; 0 asks once. Default: the
                client's `acquire_timeout`, which waits forever unless you set it.

        Raises:
            AcquireTimeoutError: They were not free within `timeout` seconds.
            ConnectionLostError: Redis did not answer.
            ScriptError: The limiter has no rate; the key is not a rate limiter; no permission.
            ClientClosedError: The client was closed.
            TypeError: `n` is not an int.
            ValueError: `n` is below 1 or above the rate, or the timeout is negative or NaN.
        """
        value: Admission = self._call(lambda own: own.acquire(n, timeout=timeout))
        return value

    @explained
    def try_acquire(self, n: int = 1, *, timeout: Duration | None = 0) -> Admission:
        """Take `n` units if they are free, or become so in time; say if not, and when to retry.

        It never overtakes: while threads of this client wait, it is refused. Arguments and errors
        are those of `acquire`, but for `timeout`, which is 0 by default, and its error.
        """
        value: Admission = self._call(lambda own: own.try_acquire(n, timeout=timeout))
        return value

    @explained
    def __call__(self, func: Callable[P, R]) -> Callable[P, R]:
        """Return `func` with a unit taken before every call.

        The fields of the name are filled from the arguments of each call, as for locks:
        `@client.get_rate_limiter("api:{user}", 10)`. Errors are those of `acquire`.

        Raises:
            TypeError: `func` is not a plain function.
            ValueError: A field names no parameter, or the name is not a format string.
        """
        return decorate(self, func, lambda filled: filled)

    def try_set_rate(self, rate: int, per: Duration = 1.0) -> bool:
        """Set the rate if the limiter has none; return whether this call set it.

        An interrupted call is carried out.

        Args:
            rate: Units in each interval, 1 or more.
            per: The interval in seconds, at least a millisecond. Default: 1.

        Raises:
            ConnectionLostError: Redis did not answer; the rate may have been set.
            ScriptError: Redis refused: wrong type of key, or no permission.
            ClientClosedError: The client was closed.
            TypeError: `rate` is not an int, or `per` no number and no timedelta.
            ValueError: One of them is too small or too large; nothing was sent.
        """
        value: bool = self._call(lambda own: own.try_set_rate(rate, per))
        return value

    def set_rate(self, rate: int, per: Duration = 1.0) -> None:
        """Set the rate; what was taken before does not count any more.

        Those that wait ask again at once; Redisson's clients when they next wake. Arguments and
        errors are those of `try_set_rate`. An interrupted call is carried out.
        """
        self._call(lambda own: own.set_rate(rate, per))

    def rate(self) -> RateLimit | None:
        """Return the rate that the server has; None if the limiter has none.

        Errors are those of `available`, but for a limiter without a rate.
        """
        value: RateLimit | None = self._call(lambda own: own.rate())
        return value

    def available(self) -> int:
        """Return how many units are left now, of this client if each has its own.

        Raises:
            ConnectionLostError: Redis did not answer.
            ScriptError: The limiter has no rate; the key is not a rate limiter; no permission.
            ClientClosedError: The client was closed.
        """
        value: int = self._call(lambda own: own.available())
        return value

    def delete(self) -> bool:
        """Remove the limiter, with what was taken; return whether there was one.

        Those that wait ask again at once: they set the rate again if their object has one, and get
        an error if not. An interrupted call is carried out. Errors are those of `try_set_rate`.
        """
        value: bool = self._call(lambda own: own.delete())
        return value

    def inspect(self) -> RateLimiterSnapshot:
        """Return a snapshot of the limiter, for people. Decide nothing from it."""
        value: RateLimiterSnapshot = self._call(lambda own: own.inspect())
        return value

    def statistics(self) -> PrimitiveStatistics:
        """Return local counters for this name. No I/O. Decide nothing from them."""
        value: PrimitiveStatistics = self._look(lambda own: own.statistics())
        return value

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return
