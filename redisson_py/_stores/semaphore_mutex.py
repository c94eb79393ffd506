"""The semaphore mutex of a store: a lock that its holder cannot enter again."""

from __future__ import annotations

from typing import final

from redisson_py._engine.context import Context
from redisson_py._keys import Name
from redisson_py._stores.commands import StoreLockCommands
from redisson_py._stores.locks import StoreLock, StoreView, name_of
from redisson_py._stores.ownership import EndedHere


def semaphore_mutex_ownership(context: Context, name: Name) -> EndedHere:
    """Return the holds of a client's tasks on one semaphore mutex; errors as for a lock."""
    text = name_of(context, name)
    commands = StoreLockCommands(text, held="semaphore")
    return EndedHere(context, name, commands, StoreView, reentrant=False)


@final
class StoreSemaphoreMutex(StoreLock):
    """A lock that a task cannot acquire twice; made by `client.get_semaphore_mutex(name)`.

    A second acquire by the holder raises `RuntimeError` at once, without I/O. A lock of the same
    name is another lock.

    Cost: uncontended three round trips for an acquire, five for a `try_acquire`, and one for a
    release.
    """
