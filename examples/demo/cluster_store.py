"""The book in a key of a cluster, whose masters may die with what they have not replicated.

A write counts only when a replica has it too, if there is one: WAIT behind SET, on one connection.
What is not known to have been written is left to the referee (`journal.py`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from redis.asyncio import Redis, RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisClusterException, RedisError, ResponseError

from examples.demo.ledger import Book, KeyStore, NotWrittenError, Store, plain_client

#: Milliseconds for which a write waits for the replica.
_PATIENCE_MS = 2000
_SECONDS = 3.0


class ClusterKeyStore:
    """A book in a key of a cluster."""

    name = "key"

    def __init__(self, cluster: RedisCluster, key: str) -> None:
        self._cluster = cluster
        self._key = key

    async def read(self) -> Book:
        """Return the book as it is now."""
        text = await self._cluster.get(self._key)
        if text is None:
            raise RuntimeError(f"somebody deleted {self._key}")
        return Book.from_text(text)

    async def write(self, book: Book, ready: Callable[[], None], writer: str) -> None:
        """Set the key and have a replica confirm it; see `Store`.

        Raises:
            NotWrittenError: The node has refused it.
            RedisError: Nobody knows.
        """
        text = book.to_text()
        try:
            node = self._cluster.get_node_from_key(self._key)
        except RedisClusterException as error:
            raise NotWrittenError(str(error)) from error
        assert node is not None
        async with _one_connection(node) as redis:
            await redis.ping()
            ready()
            pipeline = redis.pipeline(transaction=False)
            pipeline.set(self._key, text)
            pipeline.info("replication")
            said, facts = await pipeline.execute(raise_on_error=False)
            if isinstance(said, ResponseError):
                raise NotWrittenError(str(said))
            # With none, which is so after each failover, there is nobody to ask.
            if "online" in str(facts):
                replicas = await redis.wait(1, _PATIENCE_MS)
                if replicas < 1:
                    raise RedisError("no replica has confirmed the write")

    async def delete(self) -> None:
        """Delete the key."""
        await self._cluster.delete(self._key)


def _one_connection(node: ClusterNode) -> Redis:
    return Redis(
        host=str(node.host),
        port=int(node.port),
        single_connection_client=True,
        retry=Retry(NoBackoff(), 0),
        socket_timeout=_SECONDS,
        socket_connect_timeout=_SECONDS,
    )


@asynccontextmanager
async def key_store(url: str, key: str) -> AsyncGenerator[Store]:
    """Open the book in a key of the server or cluster at `url` for the time of a block."""
    parts = urlsplit(url)
    if parts.scheme != "redis+cluster":
        async with plain_client(url) as redis:
            yield KeyStore(redis, key)
        return
    addresses = [address.rpartition(":") for address in parts.netloc.split(",")]
    nodes = [ClusterNode(host, int(port)) for host, _, port in addresses]
    async with RedisCluster(startup_nodes=nodes, socket_timeout=_SECONDS) as cluster:
        yield ClusterKeyStore(cluster, key)
