"""python-redis-lock: for threads, woken by BLPOP on a list that a release fills."""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any

import redis

from benchmarks.rivals.side import LEASE, LONG_LEASE, ThreadSide

# Not an import: it is installed for benchmarks only, and has no types.
_Lock: Any = import_module("redis_lock").Lock


class PythonRedisLock(ThreadSide):
    """A lock object and a connection a thread, as both want to be used."""

    renewed_after = 2 / 3

    async def open(self, url: str) -> None:
        """Make a client."""
        # It waits in BLPOP for up to a lease, longer than redis-py's default timeout allows.
        self._client = redis.Redis.from_url(url, max_connections=2000, socket_timeout=None)
        self._client.ping()
        self._held: list[Any] = []

    async def close(self) -> None:
        """Close the client."""
        self._client.close()

    def lock(self, name: str) -> AbstractContextManager[Any]:
        """Return a lock with our default lease, not renewed."""
        lock: AbstractContextManager[Any] = _Lock(self._client, name, expire=LEASE)
        return lock

    async def hold(self, name: str) -> None:
        """Acquire with a long lease."""
        _Lock(self._client, name, expire=LONG_LEASE).acquire()

    async def hold_renewed(self, name: str, lease: float) -> None:
        """Acquire with a thread that renews it; it knows whole seconds only."""
        lock = _Lock(self._client, name, expire=max(1, int(lease)), auto_renewal=True)
        lock.acquire()
        self._held.append(lock)
