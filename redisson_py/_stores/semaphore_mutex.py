"""The semaphore mutex of a store: a lock that its holder cannot enter again."""

from __future__ import annotations

from typing import Self, final

from redisson_py._engine.context import Context
from redisson_py._keys import Name
from redisson_py._stores.commands import StoreLockCommands
from redisson_py._stores.executor import StoreExecutor
from redisson_py._stores.locks import StoreLock, StoreView, name_of
from redisson_py._stores.ownership import EndedHere
from redisson_py.locks.lock_like import LockLike


@final
class StoreSemaphoreMutex(StoreLock):
    """A lock that a task cannot acquire twice; made by `client.get_semaphore_mutex(name)`.

    A second acquire by the holder raises `RuntimeError` at once, without I/O. It excludes nobody
    but the users of this kind: a lock of the same name is another one.

    Cost: uncontended three round trips for an acquire and one for a release.
    """

    def __init__(self, context: Context, executor: StoreExecutor, name: Name) -> None:
        text = name_of(context, name)
        self._context = context
        self._executor = executor
        self._view = StoreView(executor, text, "semaphore")
        commands = StoreLockCommands(text, held="semaphore")
        ownership = EndedHere(context, name, commands, self._view, reentrant=False)
        LockLike.__init__(self, ownership, commands.key)

    def _named(self, name: Name) -> Self:
        return type(self)(self._context, self._executor, name)
