"""Once, in a store that can record that something is done."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Self, cast, final

from redisson_py._engine.context import Context
from redisson_py._engine.hold import Hold
from redisson_py._keys import Name
from redisson_py._stores.commands import StoreLockCommands
from redisson_py._stores.contract import OnceStore, RecordState
from redisson_py._stores.executor import StoreExecutor
from redisson_py._stores.locks import StoreView, described, name_of
from redisson_py._stores.requests import OwnedSpecial, Special
from redisson_py._time import Duration, check_lease_time
from redisson_py.locks.once import Once, OnceLease, OnceOwnership, OnceSnapshot, Statement


class _OnceCommands(StoreLockCommands):
    """The requests of who runs something: its lock has a name of its own.

    Args:
        name: The name, as stores take it.
    """

    __slots__ = ()

    def __init__(self, name: str) -> None:
        super().__init__(f"redisson_py:once:{name}", held="once")
        self.tokens = 1


class _Recorder:
    """Records in a store that something is done."""

    __slots__ = ("_executor", "_keep", "_name", "_store")

    def __init__(self, executor: StoreExecutor, name: str, keep: float) -> None:
        self._executor = executor
        self._store = cast("OnceStore", executor.carrier.store)
        self._name = name
        self._keep = keep

    async def complete(
        self, hold: Hold, token: int, result: str | bytes, connection: Any
    ) -> str | bytes | None:
        """Record a result, if the hold is in force; return what is recorded."""
        name, owner, keep = self._name, hold.owner, self._keep
        if connection is not None:
            return await self._store.complete_inside(connection, name, owner, token, result, keep)
        ask = partial(self._store.complete, name, owner, token, result, keep)
        call = self._executor.start(OwnedSpecial(ask, name, owner), must=True)
        recorded: str | bytes | None = await self._executor.answer(call)
        return recorded

    def recording(self, hold: Hold, token: int, result: str | bytes) -> Sequence[Statement]:
        """Return what records a result in a transaction of the user's, on any connection to it."""
        return self._store.recording(self._name, hold.owner, token, result, self._keep)


@final
class StoreOnce(Once):
    """A `Once` that a store keeps."""

    def __init__(
        self, context: Context, executor: StoreExecutor, name: Name, keep: Duration
    ) -> None:
        self._keep = check_lease_time(keep, "keep")
        self._context = context
        self._executor = executor
        self._store = cast("OnceStore", executor.carrier.store)
        commands = _OnceCommands(name_of(context, name))
        self._text = commands.name
        # Tasks of one client stand in a local queue: the store knows one of them.
        ownership = OnceOwnership(context, name, commands, StoreView, reentrant=False)
        ownership.lease_kind = OnceLease
        ownership.server = _Recorder(executor, commands.name, self._keep)
        super().__init__(ownership, commands.key)

    def _named(self, name: Name) -> Self:
        return type(self)(self._context, self._executor, name, self._keep)

    async def forget(self) -> bool:
        """Forget that it is done; see `Once.forget`."""
        self._context.check()
        call = self._executor.start(Special(partial(self._store.forget, self._text)), must=True)
        return bool(await self._executor.answer(call))

    async def inspect(self) -> OnceSnapshot:
        """Return who runs it, and whether it is done, for people. Decide nothing from it."""
        self._context.check()
        view = self._ownership.view
        assert isinstance(view, StoreView)
        look = Special(partial(self._store.look_for_record, self._text))
        record: RecordState | None = await self._executor.answer(self._executor.start(look))
        state = await view.state()
        holders = () if state.holder is None else (state.holder,)
        return OnceSnapshot(
            described(holders, self._ownership),
            state.waiters,
            state.keys,
            done=record is not None,
            kept=None if record is None else record.kept,
            token=None if record is None else record.token,
            size=0 if record is None else record.size,
        )
