"""The calls that every lock has: acquire, try, hold, release, look."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from redisson_py._arguments import explained
from redisson_py._engine.awaiting import AsyncOnly, acquiring
from redisson_py._engine.block import Acquired, Block, BlockHalf, HoldBlock, acquire
from redisson_py._engine.context import TaskHolds
from redisson_py._engine.decorating import Fill, P, R, decorate
from redisson_py._engine.hold import Lease
from redisson_py._engine.ownership import Begun
from redisson_py._engine.snapshots import LockSnapshot
from redisson_py._engine.wait import Wait
from redisson_py._engine.waiting import deadline_in
from redisson_py._keys import Name
from redisson_py._loop import Task, current_task
from redisson_py._statistics import PrimitiveStatistics
from redisson_py._time import (
    Duration,
    busy_for,
    check_lease_times,
    check_min_hold,
    check_timeout,
)
from redisson_py.errors import AcquireTimeoutError


class Locking(Acquired, Protocol):
    """Acquires and releases a lock for tasks.

    Attributes:
        name: The resource name, as given.
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
    def stay_taken(self) -> bool:
        """Whether what keeps it can keep the name taken for a time after a release."""
        ...

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


class LockLike(AsyncOnly, ABC):
    """The methods of every lock: acquire, hold, release, and look.

    The current task holds the lock, not the lock object, so any number of tasks may share the
    object. Use it as a block or as a decorator: both acquire it, and release it at the end. Times
    are in seconds.
    """

    _half: Block | None = None
    _by_hand: tuple[Block, ...] = ()

    def __init__(self, ownership: Locking, key: bytes) -> None:
        self._ownership = ownership
        self._key = key

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    @property
    def kind(self) -> str:
        """The kind of lock, in words: `lock`, `fenced lock`."""
        return self._ownership.kind

    @property
    def name(self) -> Name:
        """The resource name, as given."""
        return self._ownership.name

    @property
    def key(self) -> bytes:
        """The key on the server."""
        return self._key

    # Acquiring.

    @acquiring
    async def acquire(
        self,
        *,
        timeout: Duration | None = None,
        lease_time: Duration | None = None,
        max_hold: Duration | None = None,
    ) -> Lease:
        """Acquire the lock, waiting until it is free.

        A task that already holds it gets it again at once; release it as often as you acquired
        it. Without `lease_time` the watchdog renews the lease until you release it or this process
        dies. With `lease_time` the lease ends after that time, even if the work is not done: the
        body of an `async with` is cancelled at that moment. With `max_hold` the watchdog renews
        the lease for that long at most; then the lock is released and the body cancelled. If this
        process dies, the lock is free within one lease.

        Waiting costs one subscription for all waiters of this client and no polling. A cancelled
        acquire holds nothing.

        The current task becomes the holder. Below Python 3.12 `asyncio.wait_for(lock.acquire(), 1)`
        acquires in a new task, and so do `gather` and `create_task` on every Python: then release
        the lease that it returns, or use `timeout`. If a task holds the lock and awaits a task that
        wants it, both wait forever; a warning is logged within one `lease_time`.

        Args:
            timeout: Seconds to wait, including connecting and retries; 0 asks once, infinity
                waits forever. Default: the client's `acquire_timeout`, which waits forever unless
                you set it. Less than 20 milliseconds counts as 20: without an answer nobody knows
                whether the lock is busy.
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
            LeaseLostError: The task already held it and has lost it, or three grants in a row
                came too late to be used.
            RuntimeError: The task already holds it and it is not reentrant, or the task holds the
                read side and asks to write.
            BackendError: The server refused. On Redis a `ScriptError`: wrong type of key, out of
                memory, no permission.
            ClientClosedError: The client was closed.
            TypeError: A time is neither a number nor a timedelta.
            ValueError: A time is out of range, or both `lease_time` and `max_hold` are given.
                Nothing was sent.
        """
        if timeout is None:
            timeout = self._ownership.acquire_timeout
        if timeout is None and lease_time is None and max_hold is None:
            return await acquire(self)
        seconds = check_timeout(timeout)
        lease = await self._acquire_checked(seconds, lease_time, max_hold)
        if lease is None:
            raise AcquireTimeoutError(f"{self.kind} {self.name!r} {busy_for(seconds)}")
        return lease

    @acquiring
    async def try_acquire(
        self,
        *,
        timeout: Duration | None = 0,
        lease_time: Duration | None = None,
        max_hold: Duration | None = None,
    ) -> Lease | None:
        """Acquire the lock within `timeout` seconds, or return None if it is busy.

        By default this asks once and waits only for the answer. It never overtakes: if tasks of
        this client are waiting, or it is another process's turn, it returns None. Arguments and
        other errors are those of `acquire`; no answer from the server is an error, never None.
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
        """Release the newest hold of the current task. A cancelled release is carried out.

        Inside `async with` this is the hold of the block, unless the task has acquired again
        since. The rest of the body is then not protected, and the end of the block releases
        nothing and raises nothing.

        Raises:
            NotHeldError: The current task has no hold.
            LeaseLostError: The task lost its hold, or the key was overwritten; raised once. Of
                leases that ended inside another hold, the newest 100 are reported.
            ReleaseFailedError: The server did not answer for `command_timeout`. The release is
                repeated until the lease has run out.
            BackendError: The server refused: no permission.
            ClientClosedError: The client was closed.
        """
        await self._ownership.release_newest()

    # Blocks.

    @explained
    def hold(
        self,
        *,
        timeout: Duration | None = None,
        lease_time: Duration | None = None,
        max_hold: Duration | None = None,
        min_hold: Duration | None = None,
    ) -> HoldBlock[Self, Lease]:
        """Return a block with the options of `acquire`: `async with lock.hold(timeout=1) as lease`.

        As a decorator, `@lock.hold(timeout=1)` is `@lock` with these options.

        Each call returns a new block. A task other than the one that entered it may leave it.
        Entering a block that is in use raises `RuntimeError`.

        With `min_hold` the name stays taken until that many seconds after the acquisition, also
        if the block is left earlier: for periodic jobs on machines whose clocks differ. The end of
        the block releases the lock, and in the same step sets an expiry on the server to what is
        left of the time. Until then nobody holds it and nobody can acquire it, in this process
        neither; nothing renews it, and the client may be closed. However the body ends, it is the
        same: with an error, cancelled, or by `lease.release()`. Cancelled before it has the lock,
        it leaves the name as it was. If the body takes longer, the block ends as any other.

        - Re-entry: an inner block may have a `min_hold`, and an outer one. The latest moment
          counts, and the end of the last of them leaves the name taken.
        - `extend`, `lease_time`, `max_hold`: they end the body, and not the time for which the
          name is taken. `lease_time` and `max_hold` must not be shorter than `min_hold`.
        - A loss: if the lease expired, what is left is still set, if the server has the hold. If
          another has it by then, nothing is. `force_release()` frees the name at once.
        - A crash: the name is free within one lease, as always. To have it taken for `min_hold`
          in that case too, give a `lease_time`, which then is the most, as `min_hold` the least.

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
        check_timeout(timeout)
        limits = check_lease_times(lease_time, max_hold)
        least = check_min_hold(min_hold, limits)
        if least is not None and not self._ownership.stay_taken:
            raise ValueError(
                f"{self.kind} {self.name!r} cannot have a min_hold: its name cannot be kept taken"
                " to the time once it is released"
            )

        async def acquire(lock: Self) -> Lease:
            lease = await lock.acquire(timeout=timeout, lease_time=lease_time, max_hold=max_hold)
            if least is not None:
                lease._keep_taken_for(least)
            return lease

        return HoldBlock(self, acquire)

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
        hold = None if task is None else self._ownership.holds.of(task)
        return None if hold is None else hold.acquired_since(lease)

    # Decorators.

    @explained
    def __call__(
        self, func: Callable[P, Coroutine[Any, Any, R]]
    ) -> Callable[P, Coroutine[Any, Any, R]]:
        """Return `func` with the lock held during every call: use it as `@client.get_lock("k")`.

        The fields of the name are filled from the arguments of each call, defaults included, as by
        `str.format`: `@client.get_lock("report:{user.id}:{day:%F}")`. Fields name parameters;
        `{args[0]}` and `{options[tenant]}` reach into `*args` and `**options`, and `{{` and `}}`
        stand for braces. Names given as bytes are not formatted. For options write
        `@lock.hold(timeout=5)`.

        Calls with equal names exclude each other, others do not. A call inside a call, in the
        same task, is a re-entry. Errors are those of a block: `AcquireTimeoutError` before
        the function runs, `LeaseLostError` if a loss cancelled it.

        On a method, `{self.x}` is a field like any other. Put `@classmethod`, `@staticmethod`,
        web routes and job-queue tasks above this decorator: they then wrap the function with its
        lock. The function keeps its name, docstring and signature.

        Different arguments must give different names: between two fields, put a character that
        the first cannot contain.

        Raises:
            TypeError: `func` is not an `async def`.
            ValueError: A field names no parameter, or the name is not a format string.
        """
        return decorate(self._names, func, self._filled)

    @property
    def _names(self) -> Sequence[Name]:
        """The names that a decorator formats."""
        return (self.name,)

    def _filled(self, fill: Fill) -> Self:
        """Return the lock for one call."""
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
        """Return the seconds left of the holder's lease on the server; None if it is free.

        Infinity if the key has lost its expiry.
        """
        return await self._ownership.remaining()

    async def force_release(self) -> bool:
        """Free the lock, whoever holds it, and wake its waiters; return whether it was held.

        For operators: the holder's critical section may still be running. A holder of this client
        notices at once, any other at its next renewal. A cancelled call may or may not be carried
        out.

        Raises:
            ConnectionLostError: The server did not answer; the lock may have been freed.
            BackendError: The server refused: wrong type of key, no permission.
            ClientClosedError: The client was closed.
        """
        return await self._ownership.force_release()

    @abstractmethod
    async def inspect(self) -> LockSnapshot:
        """Return a snapshot of the holders, for people. Decide nothing from it."""

    def statistics(self) -> PrimitiveStatistics:
        """Return local counters for this name. No I/O. Decide nothing from them."""
        return self._ownership.statistics()


def ownership_of(lock: LockLike) -> Locking:
    """Return what acquires and releases a lock, for what is made of locks."""
    return lock._ownership
