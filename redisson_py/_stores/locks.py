"""Locks of stores other than Redis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self, final

from redisson_py._engine.context import Context
from redisson_py._engine.hold import FencedLease, Lease
from redisson_py._engine.server import Held
from redisson_py._engine.snapshots import HolderSnapshot, LockSnapshot
from redisson_py._engine.task_ownership import TaskOwnership
from redisson_py._keys import Name
from redisson_py._stores.commands import StoreLockCommands
from redisson_py._stores.contract import HolderState, Kind, State
from redisson_py._stores.executor import StoreExecutor
from redisson_py._stores.ownership import EndedHere
from redisson_py._stores.requests import ForceRelease, Look
from redisson_py.locks.lock_like import LockLike
from redisson_py.locks.lock_of import LockOf


def name_of(context: Context, name: Name) -> str:
    """Return the name with the client's prefix, as stores take it.

    Raises:
        TypeError: It is neither str nor bytes.
        ValueError: It is empty, longer than 4 KiB, no UTF-8, or has a NUL character.
    """
    key = context.options.names.key(name)
    if b"\0" in key:
        raise ValueError("name must not have a NUL character")
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise ValueError("name must be valid UTF-8") from None


class StoreView:
    """Looks at one lock in its store, and frees it by force."""

    __slots__ = ("_executor", "_kind", "_name")

    def __init__(self, context: Context, commands: StoreLockCommands) -> None:
        assert isinstance(context.executor, StoreExecutor)
        self._executor = context.executor
        self._name = commands.name
        self._kind: Kind = commands.held

    @property
    def keys(self) -> tuple[bytes, ...]:
        """Where its store keeps it."""
        keys = self._executor.carrier.store.keys(self._name, self._kind)
        return tuple(key.encode() for key in keys)

    @property
    def courier(self) -> None:
        """No store can give a hold to another process."""

    async def state(self, *, fails_fast: bool = False) -> State:
        """Return its holder, and its waiters."""
        call = self._executor.start(Look(self._name, self._kind))
        call.fails_fast = fails_fast
        state: State = await self._executor.answer(call)
        return state

    async def look(self) -> bool:
        """Return whether anybody holds it, or fail with the first attempt that fails."""
        return bool(self._holders(await self.state(fails_fast=True)))

    async def locked(self) -> bool:
        """Return whether anybody holds it."""
        return bool(self._holders(await self.state()))

    async def count_of(self, hold: Held) -> int:
        """Return the hold count of a hold; 0 if it is not there."""
        return hold.count if await self.is_there(hold) else 0

    async def is_there(self, hold: Held) -> bool:
        """Return whether a hold is there."""
        state = await self.state()
        return any(each.owner == hold.owner for each in _all_holders(state))

    async def remaining(self) -> float | None:
        """Return the seconds left of its lease; None when it is free."""
        holders = self._holders(await self.state())
        return max((each.remaining for each in holders), default=None)

    async def force_release(self) -> tuple[bool, bool]:
        """Free it; return whether anybody held it, and whether that was carried out once."""
        call = self._executor.start(ForceRelease(self._name, self._kind))
        freed = bool(await self._executor.answer(call))
        return freed, not call.uncertain

    def _holders(self, state: State) -> tuple[HolderState, ...]:
        """Return the holders of this kind."""
        if self._kind == "read":
            return state.readers
        return () if state.holder is None else (state.holder,)


def _all_holders(state: State) -> tuple[HolderState, ...]:
    return state.readers if state.holder is None else (state.holder, *state.readers)


def described(
    holders: Sequence[HolderState], ownership: TaskOwnership
) -> tuple[HolderSnapshot, ...]:
    """Return holders for people; those of this client with their task and their hold count."""
    own = {hold.owner: hold for hold in ownership.all_holds()}
    found = []
    for each in holders:
        hold = own.get(each.owner)
        task = None if hold is None else hold.task()
        name = None if task is None else task.get_name()
        count = 1 if hold is None else hold.count
        found.append(HolderSnapshot(each.owner, count, each.remaining, task=name))
    return tuple(found)


def lock_ownership(
    context: Context,
    executor: StoreExecutor,
    name: Name,
    *,
    lease_kind: type[Lease] = Lease,
    reentrant: bool = True,
) -> TaskOwnership:
    """Return the holds of a client's tasks on one lock, and what their leases are.

    Raises:
        TypeError: The name is neither str nor bytes.
        ValueError: It is empty, longer than 4 KiB, no UTF-8, or has a NUL character.
    """
    text = name_of(context, name)
    store = executor.carrier.store
    commands = StoreLockCommands(
        text, fenced=issubclass(lease_kind, FencedLease), stay_taken=store.leases_are_exact
    )
    kind = TaskOwnership if store.ends_leases else EndedHere
    ownership = kind(context, name, commands, StoreView, reentrant=reentrant)
    ownership.lease_kind = lease_kind
    return ownership


class StoreLock(LockLike):
    """A lock of a store: the methods of every lock, and the holder is the current task.

    It promises what `RLock` does, with the store in the place of Redis; cancellation, times and
    errors are the same. The class of its client and `docs/stores.md` say what differs.
    """

    _ownership: TaskOwnership  # type: ignore[mutable-override]

    def __init__(self, make: Callable[[Name], TaskOwnership], name: Name) -> None:
        ownership = make(name)
        super().__init__(ownership, ownership.commands.key)
        self._make = make

    def _named(self, name: Name) -> Self:
        return type(self)(self._make, name)

    async def _state(self) -> State:
        view = self._ownership.view
        assert isinstance(view, StoreView)
        self._ownership.context.check()
        return await view.state()

    async def inspect(self) -> LockSnapshot:
        """Return the holder, and the waiters if the store knows them. Decide nothing from it."""
        state = await self._state()
        holders = () if state.holder is None else (state.holder,)
        return LockSnapshot(described(holders, self._ownership), state.waiters, state.keys)


@final
class FencedStoreLock(LockOf[FencedLease], StoreLock):
    """A lock of a store whose leases carry a fencing token; see `FencedLock`."""
