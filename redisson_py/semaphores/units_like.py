"""What all semaphores share, on any server: name, acquiring, blocks and decorators."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from redisson_py._arguments import explained
from redisson_py._engine.awaiting import AsyncOnly
from redisson_py._engine.block import Block, BlockHalf, acquire
from redisson_py._engine.decorating import Fill, P, R, decorate
from redisson_py._engine.hold import Hold, Lease
from redisson_py._engine.ownership import Begun
from redisson_py._engine.waiting import deadline_in
from redisson_py._keys import Name
from redisson_py._loop import Task, current_task
from redisson_py._owner import reference
from redisson_py._statistics import PrimitiveStatistics
from redisson_py._time import Duration, busy_for, check_lease_time, check_timeout, now, within
from redisson_py.errors import AcquireTimeoutError
from redisson_py.semaphores._ownership import PermitOwnership
from redisson_py.semaphores._queue import PermitRequest
from redisson_py.semaphores.permit import Permit

U = TypeVar("U", bound=PermitOwnership[Any, Any])
"""The client's units of it."""


class UnitsLike(AsyncOnly, ABC, Generic[U]):
    """Base of semaphores on any server."""

    _half: Block | None = None
    _by_hand: tuple[Block, ...] = ()

    def __init__(self, ownership: U, permits: int | None) -> None:
        self._ownership: U = ownership
        self._permits = permits

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    @property
    def kind(self) -> str:
        """The kind, in words for messages."""
        return self._ownership.kind

    @property
    def name(self) -> Name:
        """The resource name, as given."""
        return self._ownership.name

    @property
    def key(self) -> bytes:
        """The key on the server."""
        key: bytes = self._ownership.commands.key
        return key

    def statistics(self) -> PrimitiveStatistics:
        """Return local counters for this name. No I/O. Decide nothing from them."""
        return self._ownership.statistics()

    # Acquiring.

    async def _acquire_one(self) -> Permit:
        """Return a permit of one unit, without a timeout of the call."""
        permit = await acquire(self)
        assert isinstance(permit, Permit)
        return permit

    async def _acquire(
        self, units: int, timeout: Duration | None, lease_time: Duration | None
    ) -> list[Permit]:
        """Return permits for `units` units, or raise."""
        if timeout is None:
            timeout = self._ownership.acquire_timeout
        permits = await self._try_acquire(units, timeout, lease_time)
        if permits is None:
            seconds = check_timeout(timeout) or 0
            if self._permits is None and self._ownership.permit_queue.absent:
                what = f"does not exist, so no permit became free{within(seconds)}."
                what += " Call try_set_permits(), or pass permits=N"
            else:
                free = "no permit was" if units == 1 else f"fewer than {units} permits were"
                what = f"{busy_for(seconds)}: {free} free"
                if self._ownership.permit_queue.missing:
                    what += f". {self._ownership.commands.missing}"
            raise AcquireTimeoutError(f"{self.kind} {self.name!r} {what}")
        return permits

    async def _try_acquire(
        self, units: int, timeout: Duration | None, lease_time: Duration | None
    ) -> list[Permit] | None:
        """Return permits for `units` units, or None."""
        if timeout is None:
            timeout = self._ownership.acquire_timeout
        seconds = check_timeout(timeout)
        lease = None if lease_time is None else check_lease_time(lease_time)
        task = current_task()
        deadline = deadline_in(seconds)
        return await self._ownership.acquire(task, units, deadline, seconds == 0, lease)

    if TYPE_CHECKING:

        async def __aenter__(self) -> Permit: ...

        async def __aexit__(
            self,
            kind: type[BaseException] | None,
            error: BaseException | None,
            trace: TracebackType | None,
        ) -> None: ...

    else:
        __aenter__ = BlockHalf("__aexit__")
        __aexit__ = BlockHalf("__aenter__")

    async def _acquire_for_block(self, task: Task, begun: Begun | None) -> Permit:
        assert begun is None or isinstance(begun, PermitRequest)
        if begun is None and self._ownership.acquire_timeout is not None:
            return (await self._acquire(1, None, None))[0]
        permits = await self._ownership.acquire(task, 1, None, False, None, begun)
        assert permits is not None
        return permits[0]

    def _acquired_since(self, lease: Lease, task: Task | None) -> Lease | None:
        """Return nothing: `release` never touches the permit of a block."""
        return None

    # Decorators.

    @explained
    def __call__(
        self, func: Callable[P, Coroutine[Any, Any, R]]
    ) -> Callable[P, Coroutine[Any, Any, R]]:
        """Return `func` with a permit held during every call: `@client.get_semaphore("s", 5)`.

        The fields of the name are filled from the arguments of each call, as for a lock: see
        `RLock.__call__`. For options write `@semaphore.hold(timeout=5)`.

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
        """Return the semaphore for one call."""
        name = fill(self.name)
        return self if name == self.name else self._named(name)

    @abstractmethod
    def _named(self, name: Name) -> Self:
        """Return the semaphore of another name: of this kind, client and options."""

    def _nothing(self) -> Permit:
        """Return a permit without units, which need not be kept or released."""
        context = self._ownership.context
        context.check()
        present, task = now(), reference(current_task())
        owner = context.owners.new_owner()
        field = owner.encode()
        hold = Hold(self._ownership, field, task, present, math.inf, False, units=0)
        permit = Permit(hold, owner, None, present)
        hold.add_lease(permit)
        return permit
