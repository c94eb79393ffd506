"""The semaphore of a store other than Redis.

Written by `python -m tests.sync.generate`: do not edit.
"""

from __future__ import annotations

from typing import final

from redisson_py import SemaphoreSnapshot
from redisson_py._arguments import explained
from redisson_py._time import Duration
from redisson_py.sync._blocks import HoldBlock
from redisson_py.sync._leases import Permit
from redisson_py.sync._semaphore import UnitsLike


@final
class StoreSemaphore(UnitsLike):
    """A number of permits in a store, which threads, processes and hosts acquire and release.

    Made by `client.get_semaphore(name, permits)`. With `permits`, the first use creates the
    semaphore if it does not exist; an existing one keeps its number. If that is another one, a
    warning is logged, once for a client and a name. `with semaphore:` takes one. Any thread of
    this client may release another thread's permit.

    Use it to limit how many threads do something at once; use a lock where the holder should be
    known. A lock of the same name has nothing to do with it.

    Promised: as the store sees it, never more permits are taken than exist. The permits of a
    dead holder return within one lease, by the store's clock. An acquire takes all `n` permits
    or none. `release` never creates permits. Clients are served in order of arrival, also those
    that want many, and so are the threads of one client; threads of one client may pass permits
    on out of the order of clients, for as long as the client's `turn`.

    Not promised: that a paused holder notices its loss in time; that lowering the number below
    what is taken takes permits away from their holders.

    Cost: one statement to acquire and one to release, if permits are free. The time of a
    statement grows with the number of holders and of waiting clients: on a small machine 1.5 ms
    with a hundred holders, 4 ms with a thousand. For interruption, times and errors see
    `acquire` and `release`.
    """

    @explained
    def acquire(self, n: int = 1, *, timeout: Duration | None = None) -> Permit:
        """Take `n` permits, all or none, waiting until that many are free.

        They are one `Permit`, which any thread may release; until then the watchdog renews it. With
        `n=0` nothing is sent, and the permit has no units.

        Waiting sends nothing: the store rings. An acquire that a signal handler interrupts with an
        exception, such as KeyboardInterrupt, holds nothing.

        Args:
            n: How many, 0 or more. Default: 1.
            timeout: Seconds to wait, including connecting and retries; 0 asks once. Default: the
                client's `acquire_timeout`, which waits forever unless you set it.

        Raises:
            AcquireTimeoutError: `n` permits were not free within `timeout` seconds; the text says
                if the semaphore does not exist.
            ConnectionLostError: The store did not answer until `timeout` was over; without one, for
                `command_timeout`. What may be held is released as soon as it answers, and ends with
                its lease in any case.
            LeaseLostError: Three grants in a row came too late to be used.
            BackendError: The store refused: no permission, no table.
            ClientClosedError: The client was closed.
            TypeError: `n` is not an int, or the timeout is not a time.
            ValueError: A number or time is out of range; nothing was sent.
        """
        value: Permit = self._acquire(lambda own: own.acquire(n, timeout=timeout))
        return value

    @explained
    def try_acquire(self, n: int = 1, *, timeout: Duration | None = 0) -> Permit | None:
        """Take `n` permits within `timeout` seconds, or return None if they are not free.

        By default this asks once and waits only for the answer. It never overtakes: if others wait,
        here or in another process, for what is free, it returns None. Arguments and other errors
        are those of `acquire`; no answer from the store is an error, never None.
        """
        value: Permit | None = self._acquire(lambda own: own.try_acquire(n, timeout=timeout))
        return value

    @explained
    def hold(self, n: int = 1, *, timeout: Duration | None = None) -> HoldBlock[Permit]:
        """Return a block with the options of `acquire`: `with s.hold(n=2) as permit`.

        As a decorator, `@s.hold(n=2)` is `@s` with these options. Each call returns a new block;
        entering a block that is in use raises `RuntimeError`.

        Raises:
            TypeError: `n` is not an int, or the timeout is not a time.
            ValueError: A number or time is out of range.
        """
        self._shape.hold(n, timeout=timeout)
        return HoldBlock(self, lambda own: own.hold(n, timeout=timeout))

    def release(self, n: int = 1) -> None:
        """Release `n` permits.

        It releases the newest that the current thread acquired outside a block, then the newest
        that any thread of this client acquired outside a block. A `Permit` of several units may be
        released in part. `release` never touches the permit of a block, and never creates permits:
        only `add_permits` does. With `n=0` it does nothing. An interrupted release is carried out.

        Raises:
            NotHeldError: This client holds fewer outside blocks; none was released.
            LeaseLostError: One of them was already lost; the others were released.
            ReleaseFailedError: The store did not answer for `command_timeout`. The release is
                repeated until the lease has run out.
            BackendError: The store refused.
            ClientClosedError: The client was closed.
            TypeError: `n` is not an int.
            ValueError: `n` is negative; nothing was sent.
        """
        self._call(lambda own: own.release(n))

    def release_if_exists(self, n: int = 1) -> bool:
        """Release `n` permits as `release` does; return False if this client does not hold them.

        It returns False if this client holds fewer, if one of them was lost, or if `n` is 0. Other
        errors are those of `release`.
        """
        value: bool = self._call(lambda own: own.release_if_exists(n))
        return value

    def available(self) -> int:
        """Return how many permits are free; below zero if there are fewer than are taken.

        Those of dead holders count as free when their leases have ended.
        """
        value: int = self._call(lambda own: own.available())
        return value

    def try_set_permits(self, n: int) -> bool:
        """Create the semaphore with `n` permits if there is none; return whether it was created.

        An interrupted call is carried out, as are the other calls that change the number, and
        `delete`.

        Raises:
            ConnectionLostError: The store did not answer; it may have been carried out.
            BackendError: The store refused.
            ClientClosedError: The client was closed.
            TypeError: `n` is not an int.
            ValueError: `n` is out of range; nothing was sent.
        """
        value: bool = self._call(lambda own: own.try_set_permits(n))
        return value

    def set_permits(self, n: int) -> None:
        """Set the number of permits to `n`, taken ones included; create the semaphore if needed.

        Waiters are woken if permits become free. Errors are those of `try_set_permits`.
        """
        self._call(lambda own: own.set_permits(n))

    def add_permits(self, n: int) -> None:
        """Add `n` permits; a negative `n` removes permits.

        Removing more than are free leaves a number below zero, which releases first bring back to
        zero. Errors are those of `try_set_permits`.
        """
        self._call(lambda own: own.add_permits(n))

    def drain(self) -> int:
        """Remove all free permits permanently; return how many there were.

        A number below zero is raised to zero. Errors are those of `try_set_permits`.
        """
        value: int = self._call(lambda own: own.drain())
        return value

    def delete(self) -> bool:
        """Delete the semaphore; return whether it existed.

        Permits in use become void: their holders notice at the next renewal or release, as with any
        loss (`"taken"`). Waiters ask again: those with `permits` create a new one, others wait
        until a client does. Errors are those of `try_set_permits`.
        """
        value: bool = self._call(lambda own: own.delete())
        return value

    def inspect(self) -> SemaphoreSnapshot:
        """Return a snapshot of holders and waiters, for people. Decide nothing from it."""
        value: SemaphoreSnapshot = self._call(lambda own: own.inspect())
        return value
