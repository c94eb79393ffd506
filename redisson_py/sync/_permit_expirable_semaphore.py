"""PermitExpirableSemaphore: permits with ids.

Written by `python -m tests.sync.generate`: do not edit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from redisson_py import SemaphoreSnapshot
from redisson_py._arguments import explained
from redisson_py._time import Duration
from redisson_py.sync._blocks import HoldBlock
from redisson_py.sync._leases import Permit
from redisson_py.sync._semaphore import SemaphoreLike
from redisson_py.sync._wrapping import shape_of


@final
class PermitExpirableSemaphore(SemaphoreLike):
    """A number of permits, each with an id and a lease of its own.

    `with semaphore:` takes one. A client that knows the id of a permit, in another process or
    in Java, can release it or set its lease. With `permits`, the first use makes the semaphore
    if there is none; an existing one keeps its count. A disagreement is not an error:
    `available`, `acquired` and `permits` log a warning, once, if they find another number.

    Use it instead of `Semaphore` where a permit is handed over by its id, or ends by itself:
    with a `lease_time` it is back after that time, even if its holder still works. Without, the
    watchdog of the client that took it renews it until it is released.

    Promised: never more permits are taken than there are, as the server sees it; each is given
    back exactly once, whatever is lost on the way; one of a holder that died comes back within
    one lease. Several permits are taken, or released, all or none. Threads of one client are
    served in the order they came.

    Not promised: an order between processes; that a paused holder learns of its loss in time;
    that a `Permit` notices a lease that another client set for its id. Permits are not passed
    from thread to thread without Redis, as those of a `Semaphore` are: an id is for one
    acquisition only.

    Cost: one round trip for an acquire and one for a release. Interruption, times and errors:
    see `acquire` and `release`.

    Protocol: Redisson's RPermitExpirableSemaphore: a counter, a sorted set of ids by the end of
    their leases on the server's clock, and a message.
    """

    @explained
    def acquire(
        self, *, lease_time: Duration | None = None, timeout: Duration | None = None
    ) -> Permit:
        """Take a permit, waiting until one is free.

        Waiting costs one subscription for all waiters of this client and no polling. An acquire
        that a signal handler interrupts by an exception, such as KeyboardInterrupt, leaves nothing
        held.

        Args:
            lease_time: Seconds after which the permit ends by itself; None renews it until it is
                released.
            timeout: Seconds to wait, in all: connecting, retries and waiting; 0 asks once. None:
                the client's `acquire_timeout`, which waits for ever unless you set it.

        Raises:
            AcquireTimeoutError: No permit was free within `timeout` seconds.
            ConnectionLostError: Redis did not answer, or refused everybody, until `timeout` was
                over; without one, for `command_timeout`. What may be held is given back as soon as
                it answers, and ends with its lease in any case.
            LeaseLostError: Three grants in a row came too late to be used.
            ScriptError: Redis refused: wrong type of key, out of memory, no permission.
            ClientClosedError: The client was closed.
            TypeError: A time is neither a number nor a timedelta.
            ValueError: A time is out of range; nothing was sent.
        """
        value: Permit = self._acquire(
            lambda own: own.acquire(lease_time=lease_time, timeout=timeout)
        )
        return value

    @explained
    def try_acquire(
        self, *, lease_time: Duration | None = None, timeout: Duration | None = 0
    ) -> Permit | None:
        """Take a permit if one is free within `timeout` seconds; return None if not.

        By default this asks once and waits for nothing but the answer. It never overtakes: with
        threads of this client waiting, or another process's turn due, it returns None. Arguments
        and other errors are those of `acquire`; no answer from Redis is an error, never None.
        """
        value: Permit | None = self._acquire(
            lambda own: own.try_acquire(lease_time=lease_time, timeout=timeout)
        )
        return value

    @explained
    def acquire_many(
        self, n: int, *, lease_time: Duration | None = None, timeout: Duration | None = None
    ) -> list[Permit]:
        """Take `n` permits, all or none, waiting until that many are free.

        Each has an id and can be released by itself. At most 10,000 can be taken at once; more is a
        `ValueError`. Other arguments and errors are those of `acquire`.
        """
        value: list[Permit] = self._acquire(
            lambda own: own.acquire_many(n, lease_time=lease_time, timeout=timeout)
        )
        return value

    @explained
    def try_acquire_many(
        self, n: int, *, lease_time: Duration | None = None, timeout: Duration | None = 0
    ) -> list[Permit] | None:
        """Do as `acquire_many`, but return None if that fails within `timeout` seconds."""
        value: list[Permit] | None = self._acquire(
            lambda own: own.try_acquire_many(n, lease_time=lease_time, timeout=timeout)
        )
        return value

    @explained
    def hold(
        self, *, lease_time: Duration | None = None, timeout: Duration | None = None
    ) -> HoldBlock[Permit]:
        """Return a block with the options of `acquire`: `with s.hold(lease_time=5)`.

        Above a function, `@s.hold(timeout=1)` is `@s` with these options. Each call makes a block
        of its own; entering it a second time while it is in use raises `RuntimeError`.

        Raises:
            TypeError: A time is neither a number nor a timedelta.
            ValueError: A time is out of range.
        """
        self._shape.hold(lease_time=lease_time, timeout=timeout)
        return HoldBlock(self, lambda own: own.hold(lease_time=lease_time, timeout=timeout))

    def release(self, permit: Permit | str) -> None:
        """Give back a permit: a `Permit` of this client, or any by its id, whoever took it.

        An interrupted release is carried out.

        Raises:
            NotHeldError: It was released already, or there is no such permit, or it belongs to
                another semaphore, or another client took it and its lease is over.
            LeaseLostError: This client took it and lost it.
            ConnectionLostError: Redis did not answer; it may have been released.
            ScriptError: Redis refused: wrong type of key, no permission.
            ClientClosedError: The client was closed.
            TypeError: It is neither a `Permit` nor a str.
            ValueError: The id is not 32 hex digits.
        """
        self._call(lambda own: own.release(shape_of(permit)))

    def try_release(self, permit: Permit | str) -> bool:
        """Give a permit back as `release` does; return False if it was not there or was lost.

        Other errors are those of `release`.
        """
        value: bool = self._call(lambda own: own.try_release(shape_of(permit)))
        return value

    def release_many(self, permits: Iterable[Permit | str]) -> None:
        """Give several permits back, all or none, whoever took them.

        An interrupted release is carried out. Other errors are those of `release`.

        Raises:
            NotHeldError: One of them is not there, or its lease is over; all stay as they are.
            ValueError: An id is not 32 hex digits or is given twice, or there are over 10,000.
        """
        self._call(lambda own: own.release_many([shape_of(each) for each in permits]))

    def try_release_many(self, permits: Iterable[Permit | str]) -> int:
        """Give several permits back, all or none; return how many were given back.

        Errors are those of `release_many`, without NotHeldError: 0 says that.
        """
        value: int = self._call(
            lambda own: own.try_release_many([shape_of(each) for each in permits])
        )
        return value

    def update_lease_time(self, permit: Permit | str, lease_time: Duration) -> bool:
        """Set the lease of a permit from now, whoever took it; return whether it was there.

        It then ends by itself: the watchdog of this client does not renew it any more. Another
        process that holds the permit does not notice; see the class. A `Permit` that was lost or
        released stays so. For a bare id Redis alone decides, since another client may hold it.
        """
        value: bool = self._call(lambda own: own.update_lease_time(shape_of(permit), lease_time))
        return value

    def lease_time(self, permit: Permit | str) -> float:
        """Return the seconds left of a permit, whoever took it; infinity if it never ends.

        Raises:
            NotHeldError: It is not there, or its lease is over.
        """
        value: float = self._call(lambda own: own.lease_time(shape_of(permit)))
        return value

    def available(self) -> int:
        """Return how many permits are free; the permits of dead holders are given back first."""
        value: int = self._call(lambda own: own.available())
        return value

    def acquired(self) -> int:
        """Return how many permits are taken."""
        value: int = self._call(lambda own: own.acquired())
        return value

    def permits(self) -> int:
        """Return how many permits there are, free and taken."""
        value: int = self._call(lambda own: own.permits())
        return value

    def try_set_permits(self, n: int) -> bool:
        """Create the semaphore with `n` permits if there is none; return whether it was created.

        If interrupted, it is carried out; so are `set_permits` and `add_permits`.

        Raises:
            ConnectionLostError: Redis did not answer; it may have been created.
            ScriptError: Redis refused: wrong type of key, no permission.
            ClientClosedError: The client was closed.
            TypeError: `n` is no int.
            ValueError: It is negative; nothing was sent.
        """
        value: bool = self._call(lambda own: own.try_set_permits(n))
        return value

    def set_permits(self, n: int) -> None:
        """Set the number of permits to `n`, taken ones included; create the semaphore if need be.

        If more are taken, the number of free ones is below zero, and releases fill it up first.
        Errors are those of `try_set_permits`.
        """
        self._call(lambda own: own.set_permits(n))

    def add_permits(self, n: int) -> None:
        """Add `n` permits; a negative `n` removes permits.

        The semaphore keeps its expiry. Errors are those of `try_set_permits`.
        """
        self._call(lambda own: own.add_permits(n))

    def inspect(self) -> SemaphoreSnapshot:
        """Return the holders of permits, as a snapshot for people. Decide nothing from it."""
        value: SemaphoreSnapshot = self._call(lambda own: own.inspect())
        return value
