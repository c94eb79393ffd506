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


class SemaphoreLike(Holdable):
    """Base of the semaphores."""

    @property
    def kind(self) -> str:
        """The kind, in words for messages."""
        value: str = self._shape.kind
        return value

    @property
    def name(self) -> Name:
        """The resource name, as it was given."""
        value: Name = self._shape.name
        return value

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

    def statistics(self) -> PrimitiveStatistics:
        """Return local counters for this name. No I/O. Decide nothing from them."""
        value: PrimitiveStatistics = self._look(lambda own: own.statistics())
        return value

    @explained
    def __call__(self, func: Callable[P, R]) -> Callable[P, R]:
        """Return `func` with a permit taken around every call: `@client.get_semaphore("s", 5)`.

        Fields of the name are filled from the arguments of each call, as for a lock: see
        `RLock.__call__`. Write `@semaphore.hold(timeout=5)` for options.

        Raises:
            TypeError: `func` is no plain function.
            ValueError: A field names no parameter, or the name is no format string.
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


@final
class Semaphore(SemaphoreLike):
    """A number of permits that threads, processes and hosts take and give back.

    `with semaphore:` takes one. Any thread of this client may release the permit of another.
    With `permits`, the first use makes the semaphore if there is none; an existing one keeps
    its count. A disagreement is not an error: `available` logs a warning, once, if it finds
    more permits free than that.

    Use it to bound how many threads do something at once. Use `PermitExpirableSemaphore` where
    a permit must be handed to another process, or must end by itself, and `RLock` where only
    one thread at a time may work and the holder should be known.

    Promised: never more permits are taken than there are, as the server sees it. A permit of a
    holder that died comes back within one lease, as soon as a client of this library waits for,
    takes or counts permits; its units are given back exactly once, whatever is lost on the way.
    An acquire takes all `n` units or none. `release` never makes permits. Threads of one client
    are served in the order they came, including those that want many; processes take turns.

    Not promised: an order between processes, so that a thread that wants many can starve behind
    another process that wants few; anything for units that Redisson took, which have no lease;
    that a reduction below what is taken keeps permits from being passed inside one process
    before its `turn` is over; that a paused holder learns of its loss in time. If an operator
    deletes the counter, what was taken is void, and is not given back to a counter that this
    library makes; but one that Redisson makes within a lease is increased by it.

    Cost: uncontended one round trip for an acquire and one for a release. Interruption, times
    and errors: see `acquire` and `release`.

    Protocol: Redisson's RSemaphore, a counter and its new value as message. Keys of our own
    beside it record which owner has how many units until when. Passing in one process: see
    `RLock`.
    """

    @explained
    def acquire(self, n: int = 1, *, timeout: Duration | None = None) -> Permit:
        """Take `n` permits, all or none, waiting until that many are free.

        They are one `Permit`, which any thread may release; until then the watchdog renews it. With
        `n=0` nothing is sent, and the permit stands for no units.

        Waiting costs one subscription for all waiters of this client and no polling. An acquire
        that a signal handler interrupts by an exception, such as KeyboardInterrupt, leaves nothing
        held.

        Args:
            n: How many, 0 or more.
            timeout: Seconds to wait, in all: connecting, retries and waiting; 0 asks once. None:
                the client's `acquire_timeout`, which waits for ever unless you set it.

        Raises:
            AcquireTimeoutError: `n` permits were not free within `timeout` seconds; the text says
                if the semaphore was never given permits, or if some of them are missing.
            ConnectionLostError: Redis did not answer, or refused everybody, until `timeout` was
                over; without one, for `command_timeout`. What may be held is given back as soon as
                it answers, and ends with its lease in any case.
            LeaseLostError: Three grants in a row came too late to be used.
            ScriptError: Redis refused: wrong type of key, out of memory, no permission.
            ClientClosedError: The client was closed.
            TypeError: `n` is no int, or the timeout no time.
            ValueError: A number or time is out of range; nothing was sent.
        """
        value: Permit = self._acquire(lambda own: own.acquire(n, timeout=timeout))
        return value

    @explained
    def try_acquire(self, n: int = 1, *, timeout: Duration | None = 0) -> Permit | None:
        """Take `n` permits if that is possible within `timeout` seconds; return None if not.

        By default this asks once and waits for nothing but the answer. It never overtakes: with
        threads of this client waiting, or another process's turn due, it returns None. Arguments
        and other errors are those of `acquire`; no answer from Redis is an error, never None.
        """
        value: Permit | None = self._acquire(lambda own: own.try_acquire(n, timeout=timeout))
        return value

    @explained
    def hold(self, n: int = 1, *, timeout: Duration | None = None) -> HoldBlock[Permit]:
        """Return a block with the options of `acquire`: `with s.hold(n=2) as permit`.

        Above a function, `@s.hold(n=2)` is `@s` with these options. Each call makes a block of its
        own; entering it a second time while it is in use raises `RuntimeError`.

        Raises:
            TypeError: `n` is no int, or the timeout no time.
            ValueError: A number or time is out of range.
        """
        self._shape.hold(n, timeout=timeout)
        return HoldBlock(self, lambda own: own.hold(n, timeout=timeout))

    def release(self, n: int = 1) -> None:
        """Give back `n` permits.

        It takes the newest that the current thread acquired outside a block; beyond those, the
        newest that any thread of this client acquired outside a block. A `Permit` of several units
        may be given back in part. `release` never touches the permit of a block, and never makes
        permits: only `add_permits` does. With `n=0` it does nothing. An interrupted release is
        carried out.

        Raises:
            NotHeldError: This client has taken fewer outside a block; none was given back.
            LeaseLostError: One of them was lost before; the others were given back.
            ReleaseFailedError: Redis did not answer for `command_timeout`. The release is repeated
                until the lease has run out.
            ScriptError: Redis refused: wrong type of key, no permission.
            ClientClosedError: The client was closed.
            TypeError: `n` is no int.
            ValueError: It is negative; nothing was sent.
        """
        self._call(lambda own: own.release(n))

    def release_if_exists(self, n: int = 1) -> bool:
        """Give back `n` permits as `release` does; return False if they are not there to give back.

        Then this client has taken fewer, or one of them was lost. With `n=0` nothing is sent and
        the answer is False. Other errors are those of `release`.
        """
        value: bool = self._call(lambda own: own.release_if_exists(n))
        return value

    def available(self) -> int:
        """Return how many permits are free; below zero after `add_permits` of a negative number.

        The permits of dead holders are given back first. If more are free than `permits` says there
        should be in all, a warning is logged, once.
        """
        value: int = self._call(lambda own: own.available())
        return value

    def try_set_permits(self, n: int, *, lifetime: Duration | None = None) -> bool:
        """Create the semaphore with `n` permits if there is none; return whether it was created.

        If interrupted, it is carried out; so are the other calls that change the number, and
        `delete`.

        Args:
            n: How many, 0 or more.
            lifetime: Seconds after which Redis drops the semaphore; None keeps it, or drops it as
                the client's `idle_lifetime` says. Not both.

        Raises:
            ConnectionLostError: Redis did not answer; it may have been created.
            ScriptError: Redis refused: wrong type of key, no permission.
            ClientClosedError: The client was closed.
            TypeError: `n` is no int, or `lifetime` no time.
            ValueError: A number or time is out of range; nothing was sent.
        """
        value: bool = self._call(lambda own: own.try_set_permits(n, lifetime=lifetime))
        return value

    def set_permits(self, n: int) -> None:
        """Set the number of permits to `n`, taken ones included; create the semaphore if need be.

        What clients of this library have taken counts. If that is more than `n`, the number of free
        permits is below zero, and releases fill it up first. What Redisson's clients have taken
        leaves no record and cannot count: it comes on top of `n` when they release it. Where they
        hold permits, use `add_permits` with the difference.

        The semaphore keeps its expiry. Waiters are woken if permits become free. The time on the
        server grows with the number of holders: a millisecond for some thousands. Errors are those
        of `try_set_permits`.
        """
        self._call(lambda own: own.set_permits(n))

    def add_permits(self, n: int) -> None:
        """Add `n` permits; a negative `n` removes permits.

        Removing more than are free leaves a number below zero, which releases fill up first. The
        semaphore keeps its expiry. Errors are those of `try_set_permits`.
        """
        self._call(lambda own: own.add_permits(n))

    def drain(self) -> int:
        """Remove all free permits for good; return how many there were.

        A number below zero is raised to zero. Errors are those of `try_set_permits`.
        """
        value: int = self._call(lambda own: own.drain())
        return value

    def delete(self) -> bool:
        """Remove the semaphore; return whether it was there.

        It is then as if it never had permits. Permits in use are void: the holder learns of it at
        the next renewal or release, as of any loss (`"taken"`), and nothing is given back to a
        semaphore that is made later. Waiters look again: with `permits` they make a new one, else
        they wait until a client does. Errors are those of `try_set_permits`.
        """
        value: bool = self._call(lambda own: own.delete())
        return value

    def inspect(self) -> SemaphoreSnapshot:
        """Return the holders of permits, as a snapshot for people. Decide nothing from it."""
        value: SemaphoreSnapshot = self._call(lambda own: own.inspect())
        return value
