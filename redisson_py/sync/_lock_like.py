"""The calls that every lock has: acquire, try, hold, release, look.

Written by `python -m tests.sync.generate`: do not edit.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from redisson_py import LockSnapshot, PrimitiveStatistics
from redisson_py._arguments import explained
from redisson_py._keys import Name
from redisson_py._time import Duration
from redisson_py.sync._blocks import Half, Holdable, HoldBlock, P, R
from redisson_py.sync._decorating import decorate
from redisson_py.sync._leases import Lease


class LockLike(Holdable):
    """The methods of every lock: acquire, hold, release, and look.

    A lock object holds nothing itself: the current thread does, so any number of threads may
    share it. Use it as a block or as a decorator: both acquire it, and release it at the end.
    Times are seconds.
    """

    @property
    def kind(self) -> str:
        """The kind of lock, in words: `lock`, `fenced lock`."""
        value: str = self._shape.kind
        return value

    @property
    def name(self) -> Name:
        """The resource name, as it was given."""
        value: Name = self._shape.name
        return value

    @property
    def key(self) -> bytes:
        """The key on the server."""
        value: bytes = self._shape.key
        return value

    @explained
    def acquire(
        self,
        *,
        timeout: Duration | None = None,
        lease_time: Duration | None = None,
        max_hold: Duration | None = None,
    ) -> Lease:
        """Acquire it, waiting until it is free.

        A thread that holds it already gets it again at once; release it as often as you acquired
        it. Without `lease_time` the watchdog renews it until you release it or this process dies.
        With `lease_time` it ends by itself after that time, even if you still work; a body inside
        `with` is told by `lease.check()` from that moment. With `max_hold` the watchdog renews it,
        so that it is free within one lease if this process dies, but for no longer than that in
        all: then it is released, and the body is told in the same way.

        Waiting costs one subscription for all waiters of this client and no polling. An acquire
        that a signal handler interrupts by an exception, such as KeyboardInterrupt, leaves nothing
        held.

        The current thread becomes the holder. A thread that holds the lock and waits for another
        thread that acquires it waits for ever; a warning about that is logged within one
        `lease_time`.

        Args:
            timeout: Seconds to wait, in all: connecting, retries and waiting; 0 asks once, infinity
                waits for ever. None: the client's `acquire_timeout`, which waits for ever unless
                you set it. Less than 20 milliseconds count as that: without an answer nobody knows
                whether it is busy.
            lease_time: Seconds to hold; None renews for as long as needed.
            max_hold: Seconds for which to renew at most; None renews for as long as needed. They
                count from before the granting request was sent; from the moment of the hand-over if
                the lock was passed inside this process; of a composite from when enough members
                were granted. It ends 1 % of one lease (or of `max_hold`, if that is shorter) and 2
                ms earlier, so that the server does not keep it longer either. Each acquisition has
                its own.

        Raises:
            AcquireTimeoutError: It stayed busy for `timeout` seconds. Nothing is held.
            ConnectionLostError: The server did not answer, or refused everybody, until `timeout`
                was over; without one, for `command_timeout`. What may be held is given back as soon
                as it answers, and ends with its lease in any case.
            LeaseLostError: The thread held it already and has lost it, or three grants in a row
                came too late to be used.
            RuntimeError: The thread holds it already and it is not reentrant, or the thread reads
                and asks to write.
            BackendError: The server refused. Redis: a `ScriptError`, for a wrong type of key, no
                memory, no permission.
            ClientClosedError: The client was closed.
            TypeError: A time is neither a number nor a timedelta.
            ValueError: A time is out of range, or there are both `lease_time` and `max_hold`;
                nothing was sent.
        """
        value: Lease = self._acquire(
            lambda own: own.acquire(timeout=timeout, lease_time=lease_time, max_hold=max_hold)
        )
        return value

    @explained
    def try_acquire(
        self,
        *,
        timeout: Duration | None = 0,
        lease_time: Duration | None = None,
        max_hold: Duration | None = None,
    ) -> Lease | None:
        """Acquire it if that is possible within `timeout` seconds; return None if it is busy.

        By default this asks once and waits for nothing but the answer. It never overtakes: with
        threads of this client waiting, or another process's turn due, it returns None. Arguments
        and other errors are those of `acquire`; no answer from the server is an error, never None.
        """
        value: Lease | None = self._acquire(
            lambda own: own.try_acquire(timeout=timeout, lease_time=lease_time, max_hold=max_hold)
        )
        return value

    def release(self) -> None:
        """Give back the newest hold of the current thread. An interrupted release is carried out.

        Inside `with` this is the hold of the block, unless the thread has acquired again since. The
        rest of the body is then not protected, and the end of the block raises nothing: it has
        nothing left to release.

        Raises:
            NotHeldError: The current thread has no hold.
            LeaseLostError: It had one and lost it, or the key was overwritten; raised once. Of
                leases that ended inside another hold, the newest 100 are reported.
            ReleaseFailedError: The server did not answer for `command_timeout`. The release is
                repeated until the lease has run out.
            BackendError: The server refused: no permission.
            ClientClosedError: The client was closed.
        """
        self._call(lambda own: own.release())

    @explained
    def hold(
        self,
        *,
        timeout: Duration | None = None,
        lease_time: Duration | None = None,
        max_hold: Duration | None = None,
    ) -> HoldBlock[Lease]:
        """Return a block with the options of `acquire`: `with lock.hold(timeout=1) as lease`.

        Above a function, `@lock.hold(timeout=1)` is `@lock` with these options.

        Each call makes a block of its own. It may be left by another thread than the one that
        entered it. Entering it a second time while it is in use raises `RuntimeError`.

        Raises:
            ValueError: A time is out of range, or there are both `lease_time` and `max_hold`.
            TypeError: A time is neither a number nor a timedelta.
        """
        self._shape.hold(timeout=timeout, lease_time=lease_time, max_hold=max_hold)
        return HoldBlock(
            self, lambda own: own.hold(timeout=timeout, lease_time=lease_time, max_hold=max_hold)
        )

    @explained
    def __call__(self, func: Callable[P, R]) -> Callable[P, R]:
        """Return `func` with this held around every call: use it as `@client.get_lock("k")`.

        Fields of the name are filled from the arguments of each call, defaults included, as
        `str.format` does it: `@client.get_lock("report:{user.id}:{day:%F}")`. They name parameters;
        `{args[0]}` and `{options[tenant]}` reach into `*args` and `**options`, and `{{` and `}}`
        stand for braces. Names given as bytes are left alone. Write `@lock.hold(timeout=5)` for
        options.

        Calls with equal names exclude each other, others do not. A call inside a call, in the same
        thread, is a re-entry. Errors are those of a block: `AcquireTimeoutError` before the
        function runs, `LeaseLostError` when it has returned, if the lease was lost meanwhile.

        On a method, `{self.x}` is a field like others. `@classmethod` and `@staticmethod` go above
        this, so do routes of web frameworks and the tasks of Celery: what is above sees the
        function with the lock. Name, docstring and signature stay the function's.

        Different arguments must give different names: between two fields, put a character that the
        first cannot contain.

        Raises:
            TypeError: `func` is no plain function.
            ValueError: A field names no parameter, or the name is no format string.
        """
        return decorate(self, func, lambda filled: filled.hold())

    def locked(self) -> bool:
        """Return whether anybody holds it now."""
        value: bool = self._call(lambda own: own.locked())
        return value

    def owned(self) -> bool:
        """Return whether the current thread holds it now, as the server sees it."""
        value: bool = self._call(lambda own: own.owned())
        return value

    def hold_count(self) -> int:
        """Return how many holds the current thread has, as the server sees it."""
        value: int = self._call(lambda own: own.hold_count())
        return value

    def remaining(self) -> float | None:
        """Return the seconds left of the holder's lease on the server; None when it is free.

        Infinity if somebody has taken the key's expiry away.
        """
        value: float | None = self._call(lambda own: own.remaining())
        return value

    def force_release(self) -> bool:
        """Free it, whoever holds it, and wake waiters; return whether it was held.

        For operators: the holder's critical section may still be running. A holder of this client
        is told at once, any other at its next renewal. Interrupted, it may or may not be carried
        out.

        Raises:
            ConnectionLostError: The server did not answer; it may have been freed.
            BackendError: The server refused: wrong type of key, no permission.
            ClientClosedError: The client was closed.
        """
        value: bool = self._call(lambda own: own.force_release())
        return value

    def inspect(self) -> LockSnapshot:
        """Return the holders, as a snapshot for people. Decide nothing from it."""
        value: LockSnapshot = self._call(lambda own: own.inspect())
        return value

    def statistics(self) -> PrimitiveStatistics:
        """Return local counters for this name. No I/O. Decide nothing from them."""
        value: PrimitiveStatistics = self._look(lambda own: own.statistics())
        return value

    if TYPE_CHECKING:

        def __enter__(self) -> Lease: ...
        def __exit__(
            self,
            kind: type[BaseException] | None,
            error: BaseException | None,
            trace: TracebackType | None,
        ) -> None: ...

    else:
        __enter__ = Half()
        __exit__ = Half()
