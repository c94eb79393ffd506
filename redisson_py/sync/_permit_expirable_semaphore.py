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
    """A number of permits, each with its own id and lease.

    `with semaphore:` takes one. A client that knows the id of a permit, in another process or
    in Java, can release it or set its lease. With `permits`, the first use creates the
    semaphore if it does not exist; an existing one keeps its number. If that is another one,
    the client logs one warning at its first use, with both numbers: `set_permits` or
    `add_permits` changes it.

    Use it instead of `Semaphore` where a permit is handed over by its id, or must expire: with
    a `lease_time` it returns after that time, even if its holder is still working. Without, the
    client that took it renews it until it is released.

    Promised: on the server, never more permits are taken than exist; each returns exactly once,
    whatever is lost on the way; the permit of a dead holder returns within one lease. Several
    permits are taken, or released, all or none. Threads of one client are served in order of
    arrival.

    Not promised: an order between processes; that a paused holder notices its loss in time;
    that a `Permit` notices a lease that another client set for its id. Permits are not passed
    from thread to thread without Redis, as those of a `Semaphore` are: an id belongs to one
    acquisition.

    Cost: one round trip to acquire and one to release. For interruption, times and errors see
    `acquire` and `release`.

    Protocol: Redisson's RPermitExpirableSemaphore: a counter, a sorted set of ids by the end of
    their leases on the server's clock, and a message.
    """

    @explained
    def acquire(
        self, *, lease_time: Duration | None = None, timeout: Duration | None = None
    ) -> Permit:
        """Take a permit, waiting until one is free.

        Waiting costs one subscription for all waiters of this client and no polling. An acquire
        that a signal handler interrupts with an exception, such as KeyboardInterrupt, holds
        nothing.

        Args:
            lease_time: Seconds after which the permit expires. Default: renewed until released.
            timeout: Seconds to wait, including connecting and retries; 0 asks once. Default: the
                client's `acquire_timeout`, which waits forever unless you set it.

        Raises:
            AcquireTimeoutError: No permit was free within `timeout` seconds.
            ConnectionLostError: Redis did not answer, or refused all clients, until `timeout` was
                over; without one, for `command_timeout`. What may be held is released as soon as
                Redis answers, and ends with its lease in any case.
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
        """Take a permit within `timeout` seconds, or return None if none is free.

        By default this asks once and waits only for the answer. It never overtakes: if threads of
        this client are waiting, or it is another process's turn, it returns None. Arguments and
        other errors are those of `acquire`; no answer from Redis is an error, never None.
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

        Each has its own id and can be released alone. At most 10,000 can be taken at once; more
        raises `ValueError`. Other arguments and errors are those of `acquire`.
        """
        value: list[Permit] = self._acquire(
            lambda own: own.acquire_many(n, lease_time=lease_time, timeout=timeout)
        )
        return value

    @explained
    def try_acquire_many(
        self, n: int, *, lease_time: Duration | None = None, timeout: Duration | None = 0
    ) -> list[Permit] | None:
        """Take `n` permits as `acquire_many` does, or return None after `timeout` seconds."""
        value: list[Permit] | None = self._acquire(
            lambda own: own.try_acquire_many(n, lease_time=lease_time, timeout=timeout)
        )
        return value

    @explained
    def hold(
        self, *, lease_time: Duration | None = None, timeout: Duration | None = None
    ) -> HoldBlock[Permit]:
        """Return a block with the options of `acquire`: `with s.hold(lease_time=5)`.

        As a decorator, `@s.hold(timeout=1)` is `@s` with these options. Each call returns a new
        block; entering a block that is in use raises `RuntimeError`.

        Raises:
            TypeError: A time is neither a number nor a timedelta.
            ValueError: A time is out of range.
        """
        self._shape.hold(lease_time=lease_time, timeout=timeout)
        return HoldBlock(self, lambda own: own.hold(lease_time=lease_time, timeout=timeout))

    def release(self, permit: Permit | str) -> None:
        """Release a permit: a `Permit` of this client, or any by its id, whoever took it.

        An interrupted release is carried out.

        Raises:
            NotHeldError: It is already released, does not exist, belongs to another semaphore, or
                another client took it and its lease is over.
            LeaseLostError: This client took it and lost it.
            ConnectionLostError: Redis did not answer; the permit may have been released.
            ScriptError: Redis refused: wrong type of key, no permission.
            ClientClosedError: The client was closed.
            TypeError: It is neither a `Permit` nor a str.
            ValueError: The id is not 32 hex digits.
        """
        self._call(lambda own: own.release(shape_of(permit)))

    def try_release(self, permit: Permit | str) -> bool:
        """Release a permit as `release` does; return False if it does not exist or was lost.

        Other errors are those of `release`.
        """
        value: bool = self._call(lambda own: own.try_release(shape_of(permit)))
        return value

    def release_many(self, permits: Iterable[Permit | str]) -> None:
        """Release several permits, all or none, whoever took them.

        An interrupted release is carried out. Other errors are those of `release`.

        Raises:
            NotHeldError: One of them does not exist, or its lease is over; none was released.
            ValueError: An id is not 32 hex digits, is given twice, or there are over 10,000.
        """
        self._call(lambda own: own.release_many([shape_of(each) for each in permits]))

    def try_release_many(self, permits: Iterable[Permit | str]) -> int:
        """Release several permits, all or none; return how many were released.

        Errors are those of `release_many`, except that it returns 0 instead of `NotHeldError`.
        """
        value: int = self._call(
            lambda own: own.try_release_many([shape_of(each) for each in permits])
        )
        return value

    def update_lease_time(self, permit: Permit | str, lease_time: Duration) -> bool:
        """Set the lease of a permit from now, whoever took it; return whether the permit exists.

        The permit then expires: this client stops renewing it. Another process that holds it does
        not notice. A `Permit` that was lost or released stays so. For a bare id Redis alone
        decides, because another client may hold it.
        """
        value: bool = self._call(lambda own: own.update_lease_time(shape_of(permit), lease_time))
        return value

    def lease_time(self, permit: Permit | str) -> float:
        """Return the seconds left of a permit, whoever took it; infinity if it never ends.

        Raises:
            NotHeldError: It does not exist, or its lease is over.
        """
        value: float = self._call(lambda own: own.lease_time(shape_of(permit)))
        return value

    def available(self) -> int:
        """Return how many permits are free; the permits of dead holders are returned first."""
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

        An interrupted call is carried out, as are `set_permits` and `add_permits`.

        Raises:
            ConnectionLostError: Redis did not answer; the semaphore may have been created.
            ScriptError: Redis refused: wrong type of key, no permission.
            ClientClosedError: The client was closed.
            TypeError: `n` is not an int.
            ValueError: `n` is negative; nothing was sent.
        """
        value: bool = self._call(lambda own: own.try_set_permits(n))
        return value

    def set_permits(self, n: int) -> None:
        """Set the number of permits to `n`, taken ones included; create the semaphore if needed.

        If more are taken, the number of free ones is below zero, and releases first bring it back
        to zero. Errors are those of `try_set_permits`.
        """
        self._call(lambda own: own.set_permits(n))

    def add_permits(self, n: int) -> None:
        """Add `n` permits; a negative `n` removes permits.

        The semaphore keeps its expiry. Errors are those of `try_set_permits`.
        """
        self._call(lambda own: own.add_permits(n))

    def inspect(self) -> SemaphoreSnapshot:
        """Return a snapshot of holders and waiters, for people. Decide nothing from it."""
        value: SemaphoreSnapshot = self._call(lambda own: own.inspect())
        return value
