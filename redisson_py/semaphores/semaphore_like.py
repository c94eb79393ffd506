"""The base of both semaphores: name, blocks, decorators, and creation at first use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from redisson_py._answers import Disagrees
from redisson_py._arguments import explained
from redisson_py._engine.awaiting import AsyncOnly
from redisson_py._engine.block import Block, BlockHalf, acquire
from redisson_py._engine.decorating import Fill, P, R, decorate
from redisson_py._engine.hold import Lease
from redisson_py._engine.ownership import Begun
from redisson_py._engine.snapshots import HolderSnapshot, WaiterSnapshot
from redisson_py._engine.waiting import deadline_in
from redisson_py._keys import Name, permit_channel
from redisson_py._loop import Task, current_task
from redisson_py._redis.commands.client_queue import Waits
from redisson_py._redis.commands.permits import PermitCommands
from redisson_py._redis.commands.replies import other_number, stored_number
from redisson_py._redis.commands.request import Command, Receipted
from redisson_py._redis.context import RedisContext
from redisson_py._redis.inspecting import Describer, texts
from redisson_py._redis.numbers import check_whole
from redisson_py._redis.receipts import Receipts, Started
from redisson_py._statistics import PrimitiveStatistics
from redisson_py._time import Duration, busy_for, check_lease_time, check_timeout, within
from redisson_py.errors import AcquireTimeoutError
from redisson_py.semaphores._ownership import PermitOwnership
from redisson_py.semaphores._queue import PermitRequest
from redisson_py.semaphores.permit import Permit


@dataclass(frozen=True, slots=True)
class SemaphoreSnapshot:
    """A semaphore in Redis, a moment ago.

    Attributes:
        available: The number of free permits, including those of dead holders; None if the
            semaphore does not exist.
        holders: The holders, with their units as `holds`; at most the hundred whose leases end
            first. For a plain semaphore only clients of this library: Redisson does not record its
            holders. For a permit with an id that Redisson took, the owner is that id.
        permit_ids: The ids of the permits in the same order, if they have ids.
        waiters: Tasks of this client that wait for it.
        keys: The keys it uses.
        more: The number of holders not listed.
        waiting: The clients that wait, the first hundred of them, in order.
    """

    available: int | None
    holders: tuple[HolderSnapshot, ...]
    permit_ids: tuple[str, ...]
    waiters: int
    keys: tuple[str, ...]
    more: int = 0
    waiting: tuple[WaiterSnapshot, ...] = field(default=(), kw_only=True)


class SemaphoreLike(AsyncOnly, ABC):
    """Base of the semaphores."""

    #: Makes the commands of this kind.
    _kind: ClassVar[type[PermitCommands]]

    _half: Block | None = None
    _by_hand: tuple[Block, ...] = ()

    def __init__(self, context: RedisContext, name: Name, permits: int | None = None) -> None:
        self._context = context
        self._permits = permits
        ownerships, key = context.ownerships, (self._kind, name, permits)
        # True equals 1, but is not accepted as a number of permits.
        countable = permits is None or type(permits) is int
        if type(name) not in context.options.names.fixed or not countable:
            ownership: PermitOwnership = self._owned(name)
        elif key in ownerships:
            # As `made`, without the cost of a call.
            ownership = ownerships[key]
        else:
            ownership = ownerships.made(key, lambda: self._owned(name))
        self._ownership = ownership
        self._created = permits is None
        self._grants_before = ownership.grants

    def _owned(self, name: Name) -> PermitOwnership:
        context, permits = self._context, self._permits
        start_units = -1 if permits is None else check_whole(permits, "permits", 0)
        options, kind = context.options, self._kind
        commands = kind(options.names.key(name, permit_channel), start_units, options.idle_ms)
        return PermitOwnership(context, name, commands)

    @property
    def _receipts(self) -> Receipts:
        return self._ownership.receipts

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
        """The key in Redis: Redisson's counter."""
        return self._ownership.commands.key

    @property
    def channel(self) -> bytes:
        """The channel on which free permits are announced."""
        return self._ownership.commands.channel

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

    # Changing the count: each leaves a receipt, and creates the semaphore first if need be.

    async def _change(self, change: Receipted) -> Any:
        """Carry out a change of the count, also if cancelled; return its raw reply."""
        first = self._begin_creating()
        self._ownership.permit_queue.number_known = True
        started = self._receipts.start(change)
        await self._finish_creating(first)
        return await self._receipts.answer(started)

    async def _create(self) -> None:
        """Create the semaphore, if `permits` was given and it may not exist yet."""
        await self._finish_creating(self._begin_creating())

    def _begin_creating(self) -> Started | None:
        if self._created or self._permits is None:
            return None
        if self._ownership.grants > self._grants_before:
            # It needs no creation, or exists already.
            return None
        return self._receipts.start(self._ownership.commands.make(self._permits))

    def _forget_creation(self) -> None:
        """Note that it was deleted: the next use creates it again, if `permits` was given."""
        self._created = self._permits is None
        self._grants_before = self._ownership.grants

    async def _finish_creating(self, started: Started | None) -> None:
        if started is not None:
            self._made(await self._receipts.answer(started))
            self._ownership.compares = False

    def _made(self, reply: int) -> bool:
        """Return whether the semaphore was created; warn if it was there with other permits."""
        self._created = True
        found = other_number(reply)
        if found is not None:
            self._ownership.disagrees(Disagrees(found))
        return reply == 1

    async def _answer(self, command: Command) -> Any:
        """Return the raw reply to what leaves no receipt."""
        self._context.check()
        return await self._context.executor.run(self.key, command)

    async def _snapshot(
        self,
        free: bytes,
        rows: list[tuple[str, int, float]],
        total: int,
        waiting: Sequence[Waits],
        permit_ids: tuple[str, ...] = (),
    ) -> SemaphoreSnapshot:
        """Return a snapshot, with the holders of owner, units and seconds left, and who waits."""
        ownership = self._ownership
        describer = Describer(self._context, ownership.all_holds())
        holders = [await describer.holder(*row) for row in rows]
        for index, permit_id in enumerate(permit_ids):
            if holders[index].host is None:
                # Redisson's, or an owner without a description: any id looks like one of ours.
                holders[index] = replace(holders[index], owner=permit_id)
        return SemaphoreSnapshot(
            stored_number(free) if free else None,
            tuple(holders),
            permit_ids,
            self.statistics().waiters,
            texts(ownership.commands.keys),
            total - len(rows),
            waiting=await describer.waiting(waiting),
        )
