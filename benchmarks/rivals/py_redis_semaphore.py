"""py-redis-semaphore: a set of holders with leases; who waits does so in BLPOP, or polls."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from importlib import import_module
from typing import Any

from redis.asyncio import Redis

from benchmarks.rivals.kinds import PERMITS
from benchmarks.rivals.side import LEASE, LONG_LEASE, TaskSide

# Not an import: it is installed for benchmarks only.
_package: Any = import_module("redis_semaphore")


class PyRedisSemaphore(TaskSide):
    """A semaphore object a task; each held permit has a task that renews it."""

    _mode = "blpop"

    async def open(self, url: str) -> None:
        """Make a client."""
        # It waits in BLPOP for seconds, up to redis-py's default timeout.
        self._client = Redis.from_url(url, max_connections=2000, socket_timeout=None)
        await self._client.ping()
        self._held: list[Any] = []

    async def close(self) -> None:
        """Close the client."""
        await self._client.aclose()

    def lock(self, name: str) -> AbstractAsyncContextManager[Any]:
        """Return a semaphore with our default lease."""
        semaphore: AbstractAsyncContextManager[Any] = self._new(name, LEASE)
        return semaphore

    async def hold(self, name: str) -> None:
        """Acquire all permits with a long lease."""
        for _ in range(PERMITS):
            self._held.append(self._new(name, LONG_LEASE))
            await self._held[-1].aacquire()

    def _new(self, name: str, lease: float) -> Any:
        config = _package.SemaphoreConfig(
            name=name,
            limit=PERMITS,
            lock_timeout=lease,
            acquire_mode=_package.AcquireMode(self._mode),
        )
        return _package.Semaphore(self._client, config)


class PyRedisSemaphorePolling(PyRedisSemaphore):
    """Its other mode, with its default pause of 0.1 s."""

    _mode = "polling"
