"""pottery's Redlock, polling with random pauses up to 0.2 s."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from importlib import import_module
from typing import Any

import redis
from redis.asyncio import Redis

from benchmarks.rivals.side import LEASE, LONG_LEASE, TaskSide, ThreadSide

# Not an import: it is installed for benchmarks only.
_pottery: Any = import_module("pottery")


class Pottery(TaskSide):
    """AIORedlock: a lock object a task, which asks all servers at once; nothing renews it."""

    async def open(self, url: str) -> None:
        """Make a client for each server."""
        self._clients = {Redis.from_url(one, max_connections=2000) for one in url.split(",")}
        for client in self._clients:
            await client.ping()

    async def close(self) -> None:
        """Close the clients."""
        for client in self._clients:
            await client.aclose()

    def lock(self, name: str) -> AbstractAsyncContextManager[Any]:
        """Return a lock with our default lease."""
        lock: AbstractAsyncContextManager[Any] = self._new(name, LEASE)
        return lock

    async def hold(self, name: str) -> None:
        """Acquire with a long lease."""
        await self._new(name, LONG_LEASE).acquire()

    def _new(self, name: str, lease: float) -> Any:
        return _pottery.AIORedlock(key=name, masters=self._clients, auto_release_time=lease)


class PotteryThreads(ThreadSide):
    """Redlock: made for threads; it starts threads of its own to ask all servers at once."""

    async def open(self, url: str) -> None:
        """Make a client for each server."""
        self._clients = {redis.Redis.from_url(one, max_connections=2000) for one in url.split(",")}
        for client in self._clients:
            client.ping()

    async def close(self) -> None:
        """Close the clients."""
        for client in self._clients:
            client.close()

    def lock(self, name: str) -> AbstractContextManager[Any]:
        """Return a lock with our default lease."""
        lock: AbstractContextManager[Any] = _pottery.Redlock(
            key=name, masters=self._clients, auto_release_time=LEASE
        )
        return lock
