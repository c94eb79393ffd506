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

    The current thread holds the lock, not the lock object, so any number of threads may share
    the object. Use it as a block or as a decorator: both acquire it, and release it at the end.
    Times are in seconds.
    """

    @property
    def kind(self) -> str:
        """The kind of lock, in words: `lock`, `fenced lock`."""
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

    @explained
    def acquire(
        self,
        *,
        timeout: Duration | None = None,
        lease_time: Duration | None = None,
        max_hold: Duration | None = None,
    ) -> Lease:
        """Acquire the lock, waiting until it is free.

        A thread that already holds it gets it again at once; release it as often as you acquired
        it. Without `lease_time` the watchdog renews the lease until you release it or this process
        dies. With `lease_time` the lease ends after that time, even if the work is not done:
        `lease.check()` raises from that moment. With `max_hold` the watchdog renews the lease for
        that long at most; then the lock is released, and `lease.check()` raises. If this process
        dies, the lock is free within one lease.

        Waiting costs one subscription for all waiters of this client and no polling. An acquire
        that a signal handler interrupts with an exception, such as KeyboardInterrupt, holds
        nothing.

        The current thread becomes the holder. If a thread holds the lock and waits for a thread
        that wants it, both wait forever; a warning is logged within one `lease_time`.

        Args:
            timeout: Seconds to wait, including connecting and retries; 0 asks once, infinity waits
                forever. Default: the client's `acquire_timeout`, which waits forever unless you set
                it. Less than 20 milliseconds counts as 20: without an answer nobody knows whether
                the lock is busy.
            lease_time: Seconds to hold it. Default: renewed for as long as needed.
            max_hold: Most seconds to renew it. Default: renewed for as long as needed. The time
                starts before the granting request is sent; when the lock is passed inside this
                process, at the hand-over; for a composite, when enough members are granted. The
                hold ends earlier by 1 % of one lease (or of `max_hold`, if shorter) and 2 ms, so
                that the server does not keep it longer either. Each acquisition has its own.

        Raises:
            AcquireTimeoutError: It stayed busy for `timeout` seconds. Nothing is held.
            ConnectionLostError: The server did not answer, or refused all clients, until `timeout`
                was over; without one, for `command_timeout`. What may be held is released as soon
                as the server answers, and ends with its lease in any case.
            LeaseLostError: The thread already held it and has lost it, or three grants in a row
                came too late to be used.
            RuntimeError: The thread already holds it and it is not reentrant, or the thread holds
                the read side and asks to write.
            BackendError: The server refused. On Redis a `ScriptError`: wrong type of key, out of
                memory, no permission.
            ClientClosedError: The client was closed.
            TypeError: A time is neither a number nor a timedelta.
            ValueError: A time is out of range, or both `lease_time` and `max_hold` are given.
                Nothing was sent.
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
        """Acquire the lock within `timeout` seconds, or return None if it is busy.

        By default this asks once and waits only for the answer. It never overtakes: if threads of
        this client are waiting, or it is another process's turn, it returns None. Arguments and
        other errors are those of `acquire`; no answer from the server is an error, never None.
        """
        value: Lease | None = self._acquire(
            lambda own: own.try_acquire(timeout=timeout, lease_time=lease_time, max_hold=max_hold)
        )
        return value

    def release(self) -> None:
        """Release the newest hold of the current thread. An interrupted release is carried out.

        Inside `with` this is the hold of the block, unless the thread has acquired again since. The
        rest of the body is then not protected, and the end of the block releases nothing and raises
        nothing.

        Raises:
            NotHeldError: The current thread has no hold.
            LeaseLostError: The thread lost its hold, or the key was overwritten; raised once. Of
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
        min_hold: Duration | None = None,
    ) -> HoldBlock[Lease]:
        """Return a block with the options of `acquire`: `with lock.hold(timeout=1) as lease`.

        As a decorator, `@lock.hold(timeout=1)` is `@lock` with these options.

        Each call returns a new block. A thread other than the one that entered it may leave it.
        Entering a block that is in use raises `RuntimeError`.

        With `min_hold` the name stays taken until that many seconds after the acquisition, also if
        the block is left earlier: for periodic jobs on machines whose clocks differ. The end of the
        block releases the lock, and in the same step sets an expiry on the server to what is left
        of the time. Until then nobody holds it and nobody can acquire it, in this process neither;
        nothing renews it, and the client may be closed. However the body ends, it is the same: with
        an error, interrupted, or by `lease.release()`. Interrupted before it has the lock, it
        leaves the name as it was. If the body takes longer, the block ends as any other.

        - Re-entry: an inner block may have a `min_hold`, and an outer one. The latest moment
          counts, and the end of the last of them leaves the name taken.
        - `extend`, `lease_time`, `max_hold`: they end the body, and not the time for which the name
          is taken. `lease_time` and `max_hold` must not be shorter than `min_hold`.
        - A loss: if the lease expired, what is left is still set, if the server has the hold. If
          another has it by then, nothing is. `force_release()` frees the name at once.
        - A crash: the name is free within one lease, as always. To have it taken for `min_hold` in
          that case too, give a `lease_time`, which then is the most, as `min_hold` the least.

        Args:
            timeout: As for `acquire`.
            lease_time: As for `acquire`.
            max_hold: As for `acquire`.
            min_hold: Fewest seconds for which the name is taken, counted from the moment when this
                process knew of the grant, and measured by the server after the block: never less,
                and later by no more than the round trips of the grant and the release. Default:
                none.

        Raises:
            ValueError: A time is out of range, both `lease_time` and `max_hold` are given, or one
                of them is shorter than `min_hold`; or there is a `min_hold`, and this lock cannot
                have one: a side of a read-write lock, or a lock in etcd or ZooKeeper.
            TypeError: A time is neither a number nor a timedelta.
        """
        self._shape.hold(
            timeout=timeout, lease_time=lease_time, max_hold=max_hold, min_hold=min_hold
        )
        return HoldBlock(
            self,
            lambda own: own.hold(
                timeout=timeout, lease_time=lease_time, max_hold=max_hold, min_hold=min_hold
            ),
        )

    @explained
    def __call__(self, func: Callable[P, R]) -> Callable[P, R]:
        """Return `func` with the lock held during every call: use it as `@client.get_lock("k")`.

        The fields of the name are filled from the arguments of each call, defaults included, as by
        `str.format`: `@client.get_lock("report:{user.id}:{day:%F}")`. Fields name parameters;
        `{args[0]}` and `{options[tenant]}` reach into `*args` and `**options`, and `{{` and `}}`
        stand for braces. Names given as bytes are not formatted. For options write
        `@lock.hold(timeout=5)`.

        Calls with equal names exclude each other, others do not. A call inside a call, in the same
        thread, is a re-entry. Errors are those of a block: `AcquireTimeoutError` before the
        function runs, `LeaseLostError` after it has returned, if the lease was lost meanwhile.

        On a method, `{self.x}` is a field like any other. Put `@classmethod`, `@staticmethod`, web
        routes and tasks of Celery above this decorator: they then wrap the function with its lock.
        The function keeps its name, docstring and signature.

        Different arguments must give different names: between two fields, put a character that the
        first cannot contain.

        Raises:
            TypeError: `func` is not a plain function.
            ValueError: A field names no parameter, or the name is not a format string.
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
        """Return the seconds left of the holder's lease on the server; None if it is free.

        Infinity if the key has lost its expiry.
        """
        value: float | None = self._call(lambda own: own.remaining())
        return value

    def force_release(self) -> bool:
        """Free the lock, whoever holds it, and wake its waiters; return whether it was held.

        For operators: the holder's critical section may still be running. A holder of this client
        notices at once, any other at its next renewal. An interrupted call may or may not be
        carried out.

        Raises:
            ConnectionLostError: The server did not answer; the lock may have been freed.
            BackendError: The server refused: wrong type of key, no permission.
            ClientClosedError: The client was closed.
        """
        value: bool = self._call(lambda own: own.force_release())
        return value

    def inspect(self) -> LockSnapshot:
        """Return a snapshot of the holders, for people. Decide nothing from it."""
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
