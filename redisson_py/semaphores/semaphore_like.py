"""The base of both semaphores of Redis: their number, and creation at first use."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from redisson_py._answers import Disagrees
from redisson_py._engine.snapshots import HolderSnapshot, WaiterSnapshot
from redisson_py._keys import Name, permit_channel
from redisson_py._redis.commands.client_queue import Waits
from redisson_py._redis.commands.permits import PermitCommands
from redisson_py._redis.commands.replies import other_number, stored_number
from redisson_py._redis.commands.request import Command, Receipted
from redisson_py._redis.context import RedisContext
from redisson_py._redis.inspecting import Describer, texts
from redisson_py._redis.numbers import check_whole
from redisson_py._redis.receipts import Receipts, Started
from redisson_py.semaphores._in_redis import RedisPermitOwnership
from redisson_py.semaphores.units_like import UnitsLike


@dataclass(frozen=True, slots=True)
class SemaphoreSnapshot:
    """A semaphore on its server, a moment ago.

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


class SemaphoreLike(UnitsLike[RedisPermitOwnership], ABC):
    """Base of the semaphores of Redis."""

    #: Makes the commands of this kind.
    _kind: ClassVar[type[PermitCommands]]

    def __init__(self, context: RedisContext, name: Name, permits: int | None = None) -> None:
        self._context, self._permits = context, permits
        ownerships, key = context.ownerships, (self._kind, name, permits)
        # True equals 1, but is not accepted as a number of permits.
        countable = permits is None or type(permits) is int
        if type(name) not in context.options.names.fixed or not countable:
            ownership: RedisPermitOwnership = self._owned(name)
        elif key in ownerships:
            # As `made`, without the cost of a call.
            ownership = ownerships[key]
        else:
            ownership = ownerships.made(key, lambda: self._owned(name))
        super().__init__(ownership, permits)
        self._created = permits is None
        self._grants_before = ownership.grants

    def _owned(self, name: Name) -> RedisPermitOwnership:
        context, permits = self._context, self._permits
        start_units = -1 if permits is None else check_whole(permits, "permits", 0)
        options, kind = context.options, self._kind
        commands = kind(options.names.key(name, permit_channel), start_units, options.idle_ms)
        return RedisPermitOwnership(context, name, commands)

    @property
    def _receipts(self) -> Receipts:
        return self._ownership.receipts

    @property
    def key(self) -> bytes:
        """The key in Redis: Redisson's counter."""
        return self._ownership.commands.key

    @property
    def channel(self) -> bytes:
        """The channel on which free permits are announced."""
        return self._ownership.commands.channel

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
