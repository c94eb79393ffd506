"""redis-py's own asyncio Lock, used as it wants to be."""

from __future__ import annotations

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.lock import Lock

from benchmarks.rivals.side import LEASE, LONG_LEASE, TaskSide


class RedisPy(TaskSide):
    """A lock object a task (its token lives in the object), and a connection for every call."""

    async def open(self, url: str) -> None:
        """Make a client whose pool is never the limit."""
        self.client = self._new_client(url)
        await self.client.ping()

    @staticmethod
    def _new_client(url: str) -> Redis:
        # No timeout, which hundreds of tasks on a busy machine exceed.
        return Redis.from_url(url, max_connections=2000, socket_timeout=None)

    async def close(self) -> None:
        """Close the client and its connections."""
        await self.client.aclose()

    def lock(self, name: str) -> Lock:
        """Return a lock with our default lease; nothing renews it."""
        return self.client.lock(name, timeout=LEASE)

    async def hold(self, name: str) -> None:
        """Acquire with a long lease."""
        await self.client.lock(name, timeout=LONG_LEASE).acquire()


class RedisPySmallPool(RedisPy):
    """The same, its calls waiting for one of 64 connections."""

    @staticmethod
    def _new_client(url: str) -> Redis:
        pool = BlockingConnectionPool.from_url(
            url, max_connections=64, timeout=None, socket_timeout=None
        )
        return Redis.from_pool(pool)
