"""Semaphore: Redisson's counter of permits.

Written by `python -m tests.sync.generate`: do not edit.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, final

from redisson_py import PrimitiveStatistics, SemaphoreSnapshot
from redisson_py._arguments import explained
from redisson_py._keys import Name
from redisson_py._time import Duration
from redisson_py.sync._blocks import Half, Holdable, HoldBlock, P, R
from redisson_py.sync._decorating import decorate
from redisson_py.sync._leases import Permit


class UnitsLike(Holdable):
    """Base of semaphores on any server."""

    @property
    def kind(self) -> str:
        """The kind, in words for messages."""
        value: str = self._shape.kind
        return value

    @property
    def name(self) -> Name:
        """The resource name, as given."""
        value: Name = self._shape.name
        return value

    @property
    def key(self) -> bytes:
        """The key on the server."""
        value: bytes = self._shape.key
        return value

    def statistics(self) -> PrimitiveStatistics:
        """Return local counters for this name. No I/O. Decide nothing from them."""
        value: PrimitiveStatistics = self._look(lambda own: own.statistics())
        return value

    @explained
    def __call__(self, func: Callable[P, R]) -> Callable[P, R]:
        """Return `func` with a permit held during every call: `@client.get_semaphore("s", 5)`.

        The fields of the name are filled from the arguments of each call, as for a lock: see
        `RLock.__call__`. For options write `@semaphore.hold(timeout=5)`.

        Raises:
            TypeError: `func` is not a plain function.
            ValueError: A field names no parameter, or the name is not a format string.
        """
        return decorate(self, func, lambda filled: filled.hold())

    if TYPE_CHECKING:

        def __enter__(self) -> Permit: ...
        def __exit__(
            self,
            kind: type[BaseException] | None,
            error: BaseException | None,
            trace: TracebackType | None,
        ) -> None: ...

    else:
        __enter__ = Half()
        __exit__ = Half()


class SemaphoreLike(UnitsLike):
    """Base of the semaphores of Redis."""

    @property
    def key(self) -> bytes:
        """The key in Redis: Redisson's counter."""
        value: bytes = self._shape.key
        return value

    @property
    def channel(self) -> bytes:
        """The channel on which free permits are announced."""
        value: bytes = self._shape.channel
        return value


@final
class Semaphore(SemaphoreLike):
    """A number of permits that threads, processes and hosts acquire and release.

    `with semaphore:` takes one. Any thread of this client may release another thread's permit.
    With `permits`, the first use creates the semaphore if it does not exist; an existing one
    keeps its number. If that is another one, the client logs one warning at its first use, with
    both numbers: `set_permits` or `add_permits` changes it.

    Use it to limit how many threads do something at once. Use `PermitExpirableSemaphore` where
    a permit must be handed to another process, or must expire, and `RLock` where only one
    thread at a time may work and the holder should be known.

    Promised: on the server, never more permits are taken than exist. The permit of a dead
    holder returns within one lease, as soon as a client of this library waits for, takes or
    counts permits; its units return exactly once, whatever is lost on the way. An acquire takes
    all `n` units or none. `release` never creates permits. Threads of one client are served in
    order of arrival, including those that want many; processes take turns.

    Not promised: an order between processes, so a thread that wants many can starve behind
    another process that wants few; anything for units that Redisson took, which have no lease;
    that lowering the count below what is taken stops one process from passing permits among its
    threads before its `turn` is over; that a paused holder notices its loss in time. If an
    operator deletes the counter, the taken permits are void and do not return to a counter that
    this library creates; but they are added to one that Redisson creates within a lease.

    Cost: one round trip to acquire and one to release, if permits are free. For interruption,
    times and errors see `acquire` and `release`.

    Protocol: Redisson's RSemaphore, a counter whose new value is the message. Our own keys
    beside it record which owner has how many units until when. Passing in one process: see
    `RLock`.
    """

    @explained
    def acquire(self, n: int = 1, *, timeout: Duration | None = None) -> Permit:
        """Take `n` permits, all or none, waiting until that many are free.

        They are one `Permit`, which any thread may release; until then the watchdog renews it. With
        `n=0` nothing is sent, and the permit has no units.

        Waiting costs one subscription for all waiters of this client and no polling. An acquire
        that a signal handler interrupts with an exception, such as KeyboardInterrupt, holds
        nothing.

        Args:
            n: How many, 0 or more. Default: 1.
            timeout: Seconds to wait, including connecting and retries; 0 asks once. Default: the
                client's `acquire_timeout`, which waits forever unless you set it.

        Raises:
            AcquireTimeoutError: `n` permits were not free within `timeout` seconds; the text says
                if the semaphore does not exist, or if some of its permits are missing.
            ConnectionLostError: Redis did not answer, or refused all clients, until `timeout` was
                over; without one, for `command_timeout`. What may be held is released as soon as
                Redis answers, and ends with its lease in any case.
            LeaseLostError: Three grants in a row came too late to be used.
            ScriptError: Redis refused: wrong type of key, out of memory, no permission.
            ClientClosedError: The client was closed.
            TypeError: `n` is not an int, or the timeout is not a time.
            ValueError: A number or time is out of range; nothing was sent.
        """
        value: Permit = self._acquire(lambda own: own.acquire(n, timeout=timeout))
        return value

    @explained
    def try_acquire(self, n: int = 1, *, timeout: Duration | None = 0) -> Permit | None:
        """Take `n` permits within `timeout` seconds, or return None if they are not free.

        By default this asks once and waits only for the answer. It never overtakes: if threads of
        this client are waiting, or it is another process's turn, it returns None. Arguments and
        other errors are those of `acquire`; no answer from Redis is an error, never None.
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
            ReleaseFailedError: Redis did not answer for `command_timeout`. The release is repeated
                until the lease has run out.
            ScriptError: Redis refused: wrong type of key, no permission.
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
        """Return how many permits are free; below zero after `add_permits` of a negative number.

        The permits of dead holders are returned first.
        """
        value: int = self._call(lambda own: own.available())
        return value

    def try_set_permits(self, n: int, *, lifetime: Duration | None = None) -> bool:
        """Create the semaphore with `n` permits if there is none; return whether it was created.

        An interrupted call is carried out, as are the other calls that change the number, and
        `delete`.

        Args:
            n: How many, 0 or more.
            lifetime: Seconds after which Redis drops the semaphore, instead of the client's
                `idle_lifetime`. Default: as `idle_lifetime` says, which keeps it unless you set it.

        Raises:
            ConnectionLostError: Redis did not answer; the semaphore may have been created.
            ScriptError: Redis refused: wrong type of key, no permission.
            ClientClosedError: The client was closed.
            TypeError: `n` is not an int, or `lifetime` is not a time.
            ValueError: A number or time is out of range, or the client has an `idle_lifetime` too;
                nothing was sent.
        """
        value: bool = self._call(lambda own: own.try_set_permits(n, lifetime=lifetime))
        return value

    def set_permits(self, n: int) -> None:
        """Set the number of permits to `n`, taken ones included; create the semaphore if needed.

        Permits that clients of this library hold count. If they are more than `n`, the number of
        free permits is below zero, and releases first bring it back to zero. Permits that
        Redisson's clients hold leave no record, so they cannot count: each adds to `n` when it is
        released. Where they hold permits, use `add_permits` with the difference.

        The semaphore keeps its expiry. Waiters are woken if permits become free. The time on the
        server grows with the number of holders: a millisecond for a few thousand. Errors are those
        of `try_set_permits`.
        """
        self._call(lambda own: own.set_permits(n))

    def add_permits(self, n: int) -> None:
        """Add `n` permits; a negative `n` removes permits.

        Removing more than are free leaves a number below zero, which releases first bring back to
        zero. The semaphore keeps its expiry. Errors are those of `try_set_permits`.
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
        loss (`"taken"`), and the permits do not return to a semaphore created later. Waiters ask
        again: those with `permits` create a new one, others wait until a client does. Errors are
        those of `try_set_permits`.
        """
        value: bool = self._call(lambda own: own.delete())
        return value

    def inspect(self) -> SemaphoreSnapshot:
        """Return a snapshot of holders and waiters, for people. Decide nothing from it."""
        value: SemaphoreSnapshot = self._call(lambda own: own.inspect())
        return value
