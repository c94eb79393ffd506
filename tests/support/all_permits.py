"""A semaphore as a lock."""

from __future__ import annotations

import functools
from typing import Any


class AllPermits:
    """A semaphore as a lock: whoever acquires it has all its permits. It has `locked()`.

    It has nothing else that a lock has and a semaphore has not.
    """

    def __init__(self, semaphore: Any, units: int) -> None:
        self._semaphore = semaphore
        self.units = units

    # `async with` looks both up on the same object, so it gets the two halves of one block.
    __aenter__ = property(lambda self: self._semaphore.__aenter__)
    __aexit__ = property(lambda self: self._semaphore.__aexit__)
    __call__ = property(lambda self: self._semaphore.__call__)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._semaphore, name)
        if self.units > 1 and name in ("acquire", "try_acquire", "hold"):
            return functools.partial(found, self.units)
        return found

    async def locked(self) -> bool:
        """Return whether all are taken."""
        return bool(await self._semaphore.available() == 0)
