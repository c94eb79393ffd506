"""aioredlock: Redlock over one server, on the retired client aioredis 1.

It needs `distutils`, which Python 3.12 dropped and setuptools brings back.
"""

from __future__ import annotations

import warnings
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from benchmarks.rivals.side import LEASE, LONG_LEASE, TaskSide

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    # Not an import: it is installed for benchmarks only, and has no types.
    _Manager: Any = import_module("aioredlock").Aioredlock

#: It gives up after three attempts by default; the others here wait.
_FOR_EVER = 1 << 30


class Aioredlock(TaskSide):
    """One manager; it polls with random pauses of 0.1 to 0.3 s."""

    renewed_after = 0.6

    async def open(self, url: str) -> None:
        """Make a manager."""
        server = urlsplit(url)
        self._address = [(server.hostname, server.port)]
        self._manager = _Manager(self._address, retry_count=_FOR_EVER)
        self._renewing: Any = None
        async with self.lock("hello"):
            pass

    async def close(self) -> None:
        """Close the manager."""
        await self._manager.destroy()

    def lock(self, name: str) -> AbstractAsyncContextManager[Any]:
        """Return a lock with our default lease, not renewed."""
        return _Lock(self._manager, name)

    async def hold(self, name: str) -> None:
        """Acquire with a long lease."""
        await self._manager.lock(name, lock_timeout=LONG_LEASE)

    async def hold_renewed(self, name: str, lease: float) -> None:
        """Acquire with a task that renews it."""
        if self._renewing is None:
            self._renewing = _Manager(self._address, internal_lock_timeout=lease)
        await self._renewing.lock(name)


class _Lock:
    """Enters again and again, which aioredlock's own block does not."""

    def __init__(self, manager: Any, name: str) -> None:
        self._manager = manager
        self._name = name
        self._lock: Any = None

    async def __aenter__(self) -> None:
        self._lock = await self._manager.lock(self._name, lock_timeout=LEASE)

    async def __aexit__(self, *_: object) -> None:
        await self._manager.unlock(self._lock)
