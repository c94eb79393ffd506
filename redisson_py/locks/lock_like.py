"""The calls that every lock has: acquire, try, hold, release, look."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from redisson_py._engine.block import Acquired, Block, BlockHalf, HoldBlock, acquire
from redisson_py._engine.context import TaskHolds
from redisson_py._engine.decorating import Fill, P, R, decorate
from redisson_py._engine.lease import Lease
from redisson_py._engine.ownership import Begun
from redisson_py._engine.snapshots import LockSnapshot
from redisson_py._engine.wait import Wait
from redisson_py._engine.waiting import deadline_in
from redisson_py._keys import Name
from redisson_py._loop import Task, current_task, running_loop
from redisson_py._process_bound import ProcessBound
from redisson_py._statistics import PrimitiveStatistics
from redisson_py._time import Duration, busy_for, check_lease_times, check_timeout
from redisson_py.errors import AcquireTimeoutError


class Locking(Acquired, Protocol):
    """Acquires and releases a lock for tasks.

    Attributes:
        name: The resource name, as it was given.
    """

    name: Name

    @property
    def kind(self) -> str:
        """The kind, in words for messages."""
        ...

    @property
    def acquire_timeout(self) -> float | None:
        """The timeout of an acquire that names none."""
        ...

    async def acquire(
        self,
        task: Task,
        deadline: float | None = None,
        once: bool = False,
        lease_time: float | None = None,
        begun: Begun | None = None,
        outer: Wait | None = None,
    ) -> Lease | None:
        """Return a lease, or None when the deadline has passed (or it is busy, with `once`).

        `outer` is the wait of the composite of which this lock is a member: listeners get that wait
        and none of the member.
        """
        ...

    async def release_newest(self) -> None:
        """Give back the newest hold of the current task."""

    @property
    def holds(self) -> TaskHolds[Any]:
        """The holds of tasks."""
        ...

    async def locked(self) -> bool:
        """Return whether anybody holds it now."""
        ...

    async def hold_count(self) -> int:
        """Return how many holds the current task has, as the server sees it."""
        ...

    async def remaining(self) -> float | None:
        """Return the seconds left on the server; None when it is free."""

    async def force_release(self) -> bool:
        """Free it whoever holds it; return whether anybody did."""
        ...

    def statistics(self) -> PrimitiveStatistics:
        """Return local counters for this name."""
        ...


class LockLike(ProcessBound, ABC):
    """The methods of every lock: acquire, hold, release, and look.

    A lock object holds nothing itself: the current task does, so any number of tasks may share it.
    Use it as a block or as a decorator: both acquire it, and release it at the end. Times are
    seconds.
    """

    _half: Block | None = None

    def __init__(self, ownership: Locking, key: bytes) -> None:
        self._ownership = ownership
        self._key = key
        self._by_hand: list[Block] = []

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    @property
    def kind(self) -> str:
        """The kind of lock, in words: `lock`, `fenced lock`."""
        return self._ownership.kind

    @property
    def name(self) -> Name:
        """The resource name, as it was given."""
        return self._ownership.name

    @property
    def key(self) -> bytes:
        """The key on the server."""
        return self._key

    # Acquiring.

    async def acquire(
        self,
        *,
        timeout: Duration | None = None,
        lease_time: Duration | None = None,
        max_hold: Duration | None = None,
    ) -> Lease:
        """Acquire it, waiting until it is free.

        A task that holds it already gets it again at once; release it as often as you acquired
        it. Without `lease_time` the watchdog renews it until you release it or this process
        dies. With `lease_time` it ends by itself after that time, even if you still work;
        a body inside `async with` is cancelled at that moment. With `max_hold` the watchdog renews
        it, so that it is free within one lease if this process dies, but for no longer than that in
        all: then it is released, and the body is told in the same way.

        Waiting costs one subscription for all waiters of this client and no polling. A cancelled
        acquire leaves nothing held.

        The current task becomes the holder. Below Python 3.12 `asyncio.wait_for(lock.acquire(), 1)`
        acquires in a task of its own, and so do `gather` and `create_task`: then release the lease
        that it returns, or use `timeout`. A task that holds the lock and awaits another task that
        acquires it waits for ever; a warning about that is logged within one `lease_time`.

        Args:
            timeout: Seconds to wait, in all: connecting, retries and waiting; 0 asks once, infinity
                waits for ever. None: the client's `acquire_timeout`, which waits for ever unless
                you set it. Less than 20 milliseconds count as that: without an answer nobody knows
                whether it is busy.
            lease_time: Seconds to hold; None renews for as long as needed.
            max_hold: Seconds for which to renew at most; None renews for as long as needed. They
                count from before the granting request was sent; from the moment of the hand-over if
                the lock was passed inside this process; of a composite from when enough members
                were granted. It ends 1 % of one lease (or of `max_hold`, if that is shorter) and
                2 ms earlier, so that the server does not keep it longer either. Each acquisition
                has its own.

        Raises:
            AcquireTimeoutError: It stayed busy for `timeout` seconds. Nothing is held.
            ConnectionLostError: The server did not answer, or refused everybody, until `timeout`
                was over; without one, for `command_timeout`. What may be held is given back as soon
                as it answers, and ends with its lease in any case.
            LeaseLostError: The task held it already and has lost it, or three grants in a row
                came too late to be used.
            RuntimeError: The task holds it already and it is not reentrant, or the task reads and
                asks to write.
            BackendError: The server refused. Redis: a `ScriptError`, for a wrong type of key, no
                memory, no permission.
            ClientClosedError: The client was closed.
            TypeError: A time is neither a number nor a timedelta.
            ValueError: A time is out of range, or there are both `lease_time` and `max_hold`;
                nothing was sent.
        """
        if timeout is None:
            timeout = self._ownership.acquire_timeout
        if timeout is None and lease_time is None and max_hold is None:
            task = current_task()
            return await acquire(self, running_loop(), task)
        seconds = check_timeout(timeout)
        lease = await self._acquire_checked(seconds, lease_time, max_hold)
        if lease is None:
            raise AcquireTimeoutError(f"{self.kind} {self.name!r} {busy_for(seconds)}")
        return lease

    async def try_acquire(
        self,
        *,
        timeout: Duration | None = 0,
        lease_time: Duration | None = None,
        max_hold: Duration | None = None,
    ) -> Lease | None:
        """Acquire it if that is possible within `timeout` seconds; return None if it is busy.

        By default this asks once and waits for nothing but the answer. It never overtakes: with
        tasks of this client waiting, or another process's turn due, it returns None. Arguments
        and other errors are those of `acquire`; no answer from the server is an error, never None.
        """
        if timeout is None:
            timeout = self._ownership.acquire_timeout
        try:
            return await self._acquire_checked(check_timeout(timeout), lease_time, max_hold)
        except AcquireTimeoutError:
            return None

    async def _acquire_checked(
        self, timeout: float | None, lease_time: Duration | None, max_hold: Duration | None
    ) -> Lease | None:
        seconds, most = check_lease_times(lease_time, max_hold)
        task = current_task()
        deadline = deadline_in(timeout)
        lease = await self._ownership.acquire(task, deadline, timeout == 0, seconds)
        if lease is not None and most is not None:
            lease._keep_for(most)
        return lease

    async def release(self) -> None:
        """Give back the newest hold of the current task. A cancelled release is carried out.

        Inside `async with` this is the hold of the block, unless the task has acquired again
        since. The rest of the body is then not protected, and the end of the block raises nothing:
        it has nothing left to release.

        Raises:
            NotHeldError: The current task has no hold.
            LeaseLostError: It had one and lost it, or the key was overwritten; raised once. Of
                leases that ended inside another hold, the newest 100 are reported.
            ReleaseFailedError: The server did not answer for `command_timeout`. The release is
                repeated until the lease has run out.
            BackendError: The server refused: no permission.
            ClientClosedError: The client was closed.
        """
        await self._ownership.release_newest()

    # Blocks.

    def hold(
        self,
        *,
        timeout: Duration | None = None,
        lease_time: Duration | None = None,
        max_hold: Duration | None = None,
    ) -> HoldBlock[Self, Lease]:
        """Return a block with the options of `acquire`: `async with lock.hold(timeout=1) as lease`.

        Above an async function, `@lock.hold(timeout=1)` is `@lock` with these options.

        Each call makes a block of its own. It may be left by another task than the one that
        entered it. Entering it a second time while it is in use raises `RuntimeError`.

        Raises:
            ValueError: A time is out of range, or there are both `lease_time` and `max_hold`.
            TypeError: A time is neither a number nor a timedelta.
        """
        check_timeout(timeout)
        check_lease_times(lease_time, max_hold)
        return HoldBlock(
            self,
            lambda lock: lock.acquire(timeout=timeout, lease_time=lease_time, max_hold=max_hold),
        )

    if TYPE_CHECKING:

        async def __aenter__(self) -> Lease: ...

        async def __aexit__(
            self,
            kind: type[BaseException] | None,
            error: BaseException | None,
            trace: TracebackType | None,
        ) -> None: ...

    else:
        __aenter__ = BlockHalf("__aexit__")
        __aexit__ = BlockHalf("__aenter__")

    async def _acquire_for_block(self, task: Task, begun: Begun | None) -> Lease:
        if begun is None and self._ownership.acquire_timeout is not None:
            return await self.acquire()
        lease = await self._ownership.acquire(task, begun=begun)
        assert lease is not None
        return lease

    def _acquired_since(self, lease: Lease, task: Task | None) -> Lease | None:
        return None if task is None else self._ownership.holds.acquired_since(lease, task)

    # Decorators.

    def __call__(
        self, func: Callable[P, Coroutine[Any, Any, R]]
    ) -> Callable[P, Coroutine[Any, Any, R]]:
        """Return `func` with this held around every call: use it as `@client.get_lock("k")`.

        Fields of the name are filled from the arguments of each call, defaults included, as
        `str.format` does it: `@client.get_lock("report:{user.id}:{day:%F}")`. They name
        parameters; `{args[0]}` and `{options[tenant]}` reach into `*args` and `**options`,
        and `{{` and `}}` stand for braces. Names given as bytes are left alone. Write
        `@lock.hold(timeout=5)` for options.

        Calls with equal names exclude each other, others do not. A call inside a call, in the
        same task, is a re-entry. Errors are those of a block: `AcquireTimeoutError` before
        the function runs, `LeaseLostError` when it was cancelled because of a loss.

        On a method, `{self.x}` is a field like others. `@classmethod` and `@staticmethod` go
        above this, so do routes of web frameworks and tasks of job queues: what is above
        sees the function with the lock. Name, docstring and signature stay the function's.

        Different arguments must give different names: between two fields, put a character that
        the first cannot contain.

        Raises:
            TypeError: `func` is no `async def`.
            ValueError: A field names no parameter, or the name is no format string.
        """
        return decorate(self._names, func, self._filled)

    @property
    def _names(self) -> Sequence[Name]:
        """The names that a decorator formats."""
        return (self.name,)

    def _filled(self, fill: Fill) -> Self:
        """Return the lock that one call needs."""
        name = fill(self.name)
        return self if name == self.name else self._named(name)

    @abstractmethod
    def _named(self, name: Name) -> Self:
        """Return the lock of another name: of this kind, client and options."""

    # Looking.

    async def locked(self) -> bool:
        """Return whether anybody holds it now."""
        return await self._ownership.locked()

    async def owned(self) -> bool:
        """Return whether the current task holds it now, as the server sees it."""
        return await self._ownership.hold_count() > 0

    async def hold_count(self) -> int:
        """Return how many holds the current task has, as the server sees it."""
        return await self._ownership.hold_count()

    async def remaining(self) -> float | None:
        """Return the seconds left of the holder's lease on the server; None when it is free.

        Infinity if somebody has taken the key's expiry away.
        """
        return await self._ownership.remaining()

    async def force_release(self) -> bool:
        """Free it, whoever holds it, and wake waiters; return whether it was held.

        For operators: the holder's critical section may still be running. A holder of this client
        is told at once, any other at its next renewal. Cancelled, it may or may not be carried
        out.

        Raises:
            ConnectionLostError: The server did not answer; it may have been freed.
            BackendError: The server refused: wrong type of key, no permission.
            ClientClosedError: The client was closed.
        """
        return await self._ownership.force_release()

    @abstractmethod
    async def inspect(self) -> LockSnapshot:
        """Return the holders, as a snapshot for people. Decide nothing from it."""

    def statistics(self) -> PrimitiveStatistics:
        """Return local counters for this name. No I/O. Decide nothing from them."""
        return self._ownership.statistics()
