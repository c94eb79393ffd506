"""pottery's AIORedlock: Redlock over one server, polling with random pauses up to 0.2 s."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from importlib import import_module
from typing import Any

from redis.asyncio import Redis

from benchmarks.rivals.side import LEASE, LONG_LEASE, TaskSide

# Not an import: it is installed for benchmarks only.
_Lock: Any = import_module("pottery").AIORedlock


class Pottery(TaskSide):
    """A lock object a task; nothing renews it."""

    async def open(self, url: str) -> None:
        """Make a client."""
        self._client = Redis.from_url(url, max_connections=2000)
        await self._client.ping()

    async def close(self) -> None:
        """Close the client."""
        await self._client.aclose()

    def lock(self, name: str) -> AbstractAsyncContextManager[Any]:
        """Return a lock with our default lease."""
        lock: AbstractAsyncContextManager[Any] = self._new(name, LEASE)
        return lock

    async def hold(self, name: str) -> None:
        """Acquire with a long lease."""
        await self._new(name, LONG_LEASE).acquire()

    def _new(self, name: str, lease: float) -> Any:
        return _Lock(key=name, masters={self._client}, auto_release_time=lease)
