"""The calls that every lock-like thing has: acquire, try, hold, release, look."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, final

from redisson_py._keys import Name
from redisson_py._lease.lease import Lease
from redisson_py._loop import Strike, running_loop
from redisson_py._primitives.context import Context, Mine
from redisson_py._primitives.decorating import Decorator, P, R, decorate
from redisson_py._primitives.looking import LockSnapshot, local_statistics
from redisson_py._statistics import PrimitiveStatistics
from redisson_py._time import Duration, check_lease_time, check_timeout
from redisson_py.errors import AcquireTimeoutError


class LockLike(Decorator):
    """Base of everything that is acquired, held by a task, and released.

    Subclasses say what to ask Redis; checking arguments, timeouts and blocks are here.
    """

    kind = "lock"

    def __init__(self, context: Context, name: Name) -> None:
        self._context = context
        self._name = name
        self._key = context.options.names.key(name)
        # With a word before it, so that no name looks like the side of another lock.
        self._hold_key = b"lock:" + self._key
        # A hold can only be passed to who wants the same: fenced to fenced.
        self._line_key = self.kind.encode() + b":" + self._key

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r}>"

    @property
    def name(self) -> Name:
        """The resource name, as it was given."""
        return self._name

    @property
    def key(self) -> bytes:
        """The key in Redis."""
        return self._key

    @property
    def _lease_key(self) -> bytes:
        """The key that keeps the lease in Redis."""
        return self._key

    def statistics(self) -> PrimitiveStatistics:
        """Return local counters for this name. No I/O; nothing is decided from them."""
        return local_statistics(self._context, self._line_key, self._hold_key)

    async def acquire(
        self, *, timeout: Duration | None = None, lease_time: Duration | None = None
    ) -> Lease:
        """Hold it, waiting until it is free.

        A task that holds it already gets it again at once; release it as often as you
        acquired it. Without `lease_time` the watchdog keeps it until you release it or this
        process dies. With it, it ends by itself after that time, even if you are still
        working; a body inside `async with` is cancelled at that moment.

        Waiting costs one subscription for all waiters of this client and no polling. If
        cancelled, nothing is held.

        Args:
            timeout: Seconds to wait, in all: connecting, retries and waiting; None waits for
                ever, 0 asks once.
            lease_time: Seconds to hold; None renews for as long as needed.

        Raises:
            AcquireTimeoutError: It stayed busy for `timeout` seconds. Nothing is held.
            ConnectionLostError: Redis did not answer. What may be held is given back as soon
                as it answers, and ends with its lease in any case.
            LeaseLostError: The task held it already and has lost it.
            ScriptError: Redis refused: wrong type of key, out of memory, no permission.
            ClientClosedError: The client was closed.
            ValueError: A time is out of range; nothing was sent.
        """
        seconds = check_timeout(timeout)
        lease = await self._acquire_checked(seconds, lease_time)
        if lease is None:
            raise AcquireTimeoutError(
                f"{self.kind} {self._name!r} stayed busy for {seconds or 0:g} s"
            )
        return lease

    async def try_acquire(
        self, *, timeout: Duration | None = 0, lease_time: Duration | None = None
    ) -> Lease | None:
        """Hold it if that is possible within `timeout` seconds; return None if it is busy.

        By default this asks once and waits for nothing but the answer. In all else as
        `acquire`, which see for the arguments and errors.
        """
        try:
            return await self._acquire_checked(check_timeout(timeout), lease_time)
        except AcquireTimeoutError:
            return None

    def hold(
        self, *, timeout: Duration | None = None, lease_time: Duration | None = None
    ) -> Holding:
        """Return a block with the options of `acquire`: `async with lock.hold(timeout=1) as lease`.

        Above an async function, `@lock.hold(timeout=1)` is `@lock` with these options.

        Raises:
            ValueError: A time is out of range.
            TypeError: A time is neither a number nor a timedelta.
        """
        check_timeout(timeout)
        if lease_time is not None:
            check_lease_time(lease_time)
        return Holding(self, timeout, lease_time)

    async def __aenter__(self) -> Lease:
        # No timeout and no lease time to check: straight to the lock.
        mine = self._context.owners.of_current_task()
        lease = await self._acquire(mine, None, once=False, lease_time=None)
        assert lease is not None
        lease._strike = Strike()
        mine.entered.append(lease)
        return lease

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        entered = self._context.owners.of_current_task().entered
        # Nearly always the last: blocks are left in the order they were entered, backwards.
        for lease in reversed(entered):
            if lease._hold.resource._hold_key == self._hold_key:
                entered.remove(lease)
                await lease._leave(error)
                return

    async def _acquire_checked(
        self, timeout: float | None, lease_time: Duration | None
    ) -> Lease | None:
        seconds = None if lease_time is None else check_lease_time(lease_time)
        deadline = None if timeout is None else running_loop().time() + timeout
        mine = self._context.owners.of_current_task()
        return await self._acquire(mine, deadline, once=timeout == 0, lease_time=seconds)

    @abstractmethod
    async def _acquire(
        self, mine: Mine, deadline: float | None, *, once: bool, lease_time: float | None
    ) -> Lease | None:
        """Return a lease, or None when the deadline has passed (or it is busy, with `once`)."""

    @abstractmethod
    async def release(self) -> None:
        """Give back one hold of the current task: the newest."""

    @abstractmethod
    async def locked(self) -> bool:
        """Return whether anybody holds it now."""

    @abstractmethod
    async def owned(self) -> bool:
        """Return whether the current task holds it now."""

    @abstractmethod
    async def hold_count(self) -> int:
        """Return how many holds the current task has."""

    @abstractmethod
    async def remaining(self) -> float | None:
        """Return the seconds left of the holder's lease on the server; None when it is free."""

    @abstractmethod
    async def force_release(self) -> bool:
        """Free it whoever holds it; return whether it was held. For operators."""

    @abstractmethod
    async def inspect(self) -> LockSnapshot:
        """Return who holds it, as a snapshot for people. Nothing should be decided from it."""


@final
class Holding:
    """A block that holds a lock with options of its own; used once at a time."""

    def __init__(
        self, lock: LockLike, timeout: Duration | None, lease_time: Duration | None
    ) -> None:
        self._lock = lock
        self._timeout = timeout
        self._lease_time = lease_time
        self._lease: Lease | None = None

    def __call__(
        self, func: Callable[P, Coroutine[Any, Any, R]]
    ) -> Callable[P, Coroutine[Any, Any, R]]:
        """Return `func` with the lock held around every call, each time with these options.

        The lock's name is made from the arguments of the call, as for `@lock`, which see.

        Raises:
            TypeError: `func` is no `async def`.
            ValueError: A field names no parameter, or the name is no format string.
        """
        lock = self._lock
        return decorate(
            lock._names,
            func,
            lambda fill: Holding(lock._filled(fill), self._timeout, self._lease_time),
        )

    async def __aenter__(self) -> Lease:
        if self._lease is not None:
            raise RuntimeError("this block is in use; call hold() for another one")
        lease = await self._lock.acquire(timeout=self._timeout, lease_time=self._lease_time)
        lease._enter()
        self._lease = lease
        return lease

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            await lease._leave(error)
