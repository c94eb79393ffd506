"""redis-py's own lock on its own cluster client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from redis.asyncio import RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.lock import Lock

from benchmarks.rivals.side import LEASE, LONG_LEASE, TaskSide


class RedisPyCluster(TaskSide):
    """As on one server: a lock object a task, and a connection for every call under way."""

    async def open(self, url: str) -> None:
        """Make a client that knows all nodes."""
        addresses = [address.rpartition(":") for address in urlsplit(url).netloc.split(",")]
        nodes = [ClusterNode(host, int(port)) for host, _, port in addresses]
        self.client = RedisCluster(startup_nodes=nodes, max_connections=2000)
        await self.client.ping()

    async def close(self) -> None:
        """Close the client and its connections."""
        await self.client.aclose()

    def lock(self, name: str) -> Lock:
        """Return a lock with our default lease; nothing renews it."""
        return self.client.lock(name, timeout=LEASE)

    async def keep(self, name: str) -> Callable[[], Awaitable[bool]]:
        """Hold `name` for long: it renews nothing."""
        lock = self.client.lock(name, timeout=LONG_LEASE)
        await lock.acquire()
        return lock.owned

    async def lend(self, name: str) -> Callable[[], Awaitable[object]]:
        """Hold `name` until what is returned is called."""
        lock = self.client.lock(name, timeout=LONG_LEASE)
        await lock.acquire()
        return lock.release
