"""What tests of real clusters share: names by node, streams by node, what the nodes have."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from redisson_py import Redisson
from redisson_py._redis.stream.stream import Stream
from redisson_py._redis.topology.cluster import ClusterRouter
from redisson_py.testing import CommandError, EmbeddedCluster, EmbeddedServer
from tests.support.node_info import info


def router_of(client: Redisson) -> ClusterRouter:
    """Return the router of a client of a cluster."""
    assert isinstance(client._router, ClusterRouter)
    return client._router


def stream_to(client: Redisson, node: EmbeddedServer) -> Stream:
    """Return a client's stream to a node."""
    stream = router_of(client)._nodes.get((node.host, node.port))
    assert stream is not None
    return stream


async def names_at(
    cluster: EmbeddedCluster, node: EmbeddedServer, count: int, prefix: str = "name"
) -> list[str]:
    """Return names that a node serves."""
    found: list[str] = []
    for number in itertools.count():
        if await cluster.master_of(f"{prefix}{number}") is node:
            found.append(f"{prefix}{number}")
            if len(found) == count:
                break
    return found


def standing(cluster: EmbeddedCluster) -> Iterator[EmbeddedServer]:
    """Yield the nodes that can answer."""
    return (node for node in cluster.nodes if node.running and not node.paused)


async def redirects(cluster: EmbeddedCluster) -> int:
    """Return how often nodes have sent a call elsewhere."""
    total = 0
    for node in standing(cluster):
        for name, value in (await info(node, "errorstats")).items():
            if name.removeprefix("errorstat_") in ("MOVED", "ASK"):
                total += int(value.removeprefix("count="))
    return total


async def connections(cluster: EmbeddedCluster, name: str) -> list[int]:
    """Return how many connections of this name each node has, as far as it can answer."""
    found = []
    for node in standing(cluster):
        rows = str(await node.execute("CLIENT", "LIST")).splitlines()
        found.append(sum(f" name={name} " in row for row in rows))
    return found


async def keys(cluster: EmbeddedCluster) -> set[str]:
    """Return the keys of all nodes, but for tombstones, counters and descriptions."""
    found: set[str] = set()
    for node in standing(cluster):
        found.update(str(key) for key in await node.execute("KEYS", "*"))
    return {key for key in found if "redisson_py:" not in key and "token" not in key}


async def channels(cluster: EmbeddedCluster) -> list[str]:
    """Return the channels that somebody listens to."""
    found: list[str] = []
    for node in standing(cluster):
        for words in (("PUBSUB", "SHARDCHANNELS"), ("PUBSUB", "CHANNELS")):
            try:
                found += await node.execute(*words)
            except CommandError:
                assert words[1] == "SHARDCHANNELS"
    return found
