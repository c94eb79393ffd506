"""Real clusters, masters of sentinels and replicas, named in each way that there is."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis, RedisCluster, Sentinel

from redisson_py import Redisson
from redisson_py._addresses import Address, write_address
from redisson_py.testing import EmbeddedCluster, EmbeddedServer
from tests.fixtures.client import SYNC_TIMEOUT
from tests.fixtures.topologies import SentinelFactory

pytestmark = pytest.mark.also("floor")

#: Locks of several slots, and so of several nodes.
NAMES = ("a", "b", "c", "d")


async def use(client: Redisson) -> None:
    """Use a client, and close it."""
    async with client:
        for name in NAMES:
            async with client.get_lock(name) as lease:
                assert not lease.lost
            assert not await client.get_lock(name).locked()


def seen(server: EmbeddedServer) -> Address:
    return server.host, server.port


def uri(server: EmbeddedServer) -> str:
    return f"redis://{write_address(*seen(server))}"


def write(folder: Path, section: str, **values: Any) -> Path:
    path = folder / "redisson.json"
    path.write_text(json.dumps({section: values}), "utf-8")
    return path


async def test_a_cluster_by_a_client(cluster: EmbeddedCluster) -> None:
    """Whatever its replies look like and wherever it reads; it stays open and works."""
    host, port = seen(cluster.nodes[0])
    with warnings.catch_warnings():
        # Deprecated since redis-py 5.3.
        warnings.simplefilter("ignore", DeprecationWarning)
        theirs = RedisCluster(host=host, port=port, decode_responses=True, read_from_replicas=True)
    async with theirs:
        await use(Redisson(theirs, sync_timeout=SYNC_TIMEOUT))
        assert await theirs.set("k", "v")
        await use(Redisson(theirs, sync_timeout=SYNC_TIMEOUT))
    await cluster.wait_healthy()


async def test_a_master_of_sentinels(sentinel_factory: SentinelFactory, tmp_path: Path) -> None:
    """By URL, by a client, by a file; servers and sentinels have passwords of their own."""
    servers = await sentinel_factory(password="data", sentinel_password="seen", service="orders")
    await use(Redisson.from_url(servers.url, sync_timeout=SYNC_TIMEOUT))

    make: Any = Sentinel
    addresses = [seen(each) for each in servers.sentinels]
    manager = make(addresses, sentinel_kwargs={"password": "seen"}, password="data")
    theirs: Redis = manager.master_for("orders", decode_responses=True)
    try:
        await use(Redisson(theirs, sync_timeout=SYNC_TIMEOUT))
        assert await theirs.set("k", "v")
        await use(Redisson(theirs, sync_timeout=SYNC_TIMEOUT))
    finally:
        await theirs.aclose()
        for each in manager.sentinels:
            await each.aclose()

    path = write(
        tmp_path,
        "sentinelServersConfig",
        masterName="orders",
        sentinelAddresses=[uri(each) for each in servers.sentinels],
        sentinelPassword="seen",
        password="${PASSWORD_OF_ORDERS:-data}",
    )
    announced: list[Address] = []

    def same(host: str, port: int) -> Address:
        announced.append((host, port))
        return host, port

    await use(Redisson.from_file(path, sync_timeout=SYNC_TIMEOUT, address_map=same))
    assert seen(await servers.master()) in announced
