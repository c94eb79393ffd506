"""Clusters start, fail over, move their slots and end as `redisson_py.testing` says."""

from __future__ import annotations

import asyncio
import os
from urllib.parse import urlsplit

import pytest
from redis.asyncio import RedisCluster
from redis.crc import key_slot

from redisson_py.testing import (
    CommandError,
    EmbeddedCluster,
    TopologyError,
    embedded_cluster,
)
from redisson_py.testing._topologies.views import slot_of
from tests.fixtures.topologies import ClusterFactory


async def read(cluster: EmbeddedCluster, key: str) -> str | None:
    value: str | None = await (await cluster.master_of(key)).execute("GET", key)
    return value


async def write(cluster: EmbeddedCluster, key: str, value: str = "v") -> None:
    await (await cluster.master_of(key)).execute("SET", key, value)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    "key", ["k", "a{b}c", "{}x", "a}b{c}", "x{", "a{b", "{a}{b}", "a{{b}}", "ä{ö}"]
)
def test_slots_are_those_of_the_servers(key: str) -> None:
    assert slot_of(key) == slot_of(key.encode()) == key_slot(key.encode())


async def test_takeover_needs_no_master(cluster: EmbeddedCluster) -> None:
    old = await cluster.master_of("k")
    await cluster.freeze(old)
    new = await cluster.failover("k", "takeover")
    assert await cluster.master_of("k") is new is not old
    await cluster.thaw(old)
    await cluster.wait_healthy()
    assert await cluster.replicas_of(new) == [old]


async def test_a_slot_moves_atomically(cluster: EmbeddedCluster) -> None:
    if cluster.version < (9, 0, 0):
        with pytest.raises(TopologyError, match="MIGRATESLOTS"):
            await cluster.migrate("k", atomic=True)
        return
    source = await cluster.master_of("k")
    await write(cluster, "k")
    target = await cluster.migrate("k", atomic=True)
    assert target is not source
    assert await target.execute("GET", "k") == "v"
    assert await cluster.migrate("k", source, atomic=True) is source
    assert await source.execute("GET", "k") == "v"


async def test_a_move_can_halt_between_keys(cluster: EmbeddedCluster) -> None:
    for key in ("{k}moved", "{k}here"):
        await write(cluster, key)
    move = await cluster.begin_migration("{k}")
    await move.move_keys("{k}moved")
    assert await move.keys() == ["{k}here"]
    assert await move.source.execute("GET", "{k}here") == "v"
    for key in ("{k}moved", "{k}absent"):
        with pytest.raises(CommandError, match=f"ASK {move.slot} {move.target.address}"):
            await move.source.execute("GET", key)
    with pytest.raises(CommandError, match=r"TRYAGAIN|ASK"):
        await move.source.execute("MGET", "{k}here", "{k}moved")
    with pytest.raises(TopologyError, match="no key"):
        await move.move_keys("{k}absent")
    await move.finish()
    assert await move.target.execute("MGET", "{k}here", "{k}moved") == ["v", "v"]
    with pytest.raises(TopologyError, match="already"):
        await cluster.migrate("{k}", move.target)


async def test_restore_mends_everything(cluster: EmbeddedCluster) -> None:
    home = await cluster.master_of("k")
    away = await cluster.migrate("k")
    await write(cluster, "j")
    half = await cluster.begin_migration("j")
    await half.move_keys("j")
    await cluster.freeze(half.target)
    [replica] = await cluster.replicas_of(home)
    await cluster.kill(replica)
    await cluster.restore()
    assert await cluster.master_of("k") is home is not away
    assert await cluster.master_of("j") is half.source
    assert await read(cluster, "j") == "v"
    assert all(node.running and not node.paused for node in cluster.nodes)
    for node in await cluster.masters():
        text = await node.execute("CLUSTER", "NODES")
        assert "->-" not in text
        assert "-<-" not in text


async def test_nodes_come_and_go(own_cluster: EmbeddedCluster) -> None:
    master = await own_cluster.master_of("k")
    replica = await own_cluster.add_node(replica_of=master)
    assert replica in await own_cluster.replicas_of(master)
    with pytest.raises(TopologyError, match="still has slots or replicas"):
        await own_cluster.remove_node(master)
    await own_cluster.remove_node(replica)
    assert not replica.directory.exists()
    newcomer = await own_cluster.add_node()
    await write(own_cluster, "k")
    await own_cluster.migrate("k", newcomer)
    assert await newcomer.execute("GET", "k") == "v"
    await own_cluster.migrate("k", master)
    await own_cluster.remove_node(newcomer)
    assert len(own_cluster.nodes) == 6
    for node in own_cluster.nodes:
        assert newcomer.address not in await node.execute("CLUSTER", "NODES")


async def test_passwords_and_users(cluster_factory: ClusterFactory) -> None:
    rules = "on >pw ~app:* &* +@all -flushall"
    cluster = await cluster_factory(
        masters=1, replicas=1, password="p w/", users={"app": rules}, config={"maxmemory": "50mb"}
    )
    assert urlsplit(cluster.url).password == "p%20w%2F"
    node = await cluster.master_of("k")
    assert await node.execute("CONFIG", "GET", "maxmemory") == ["maxmemory", str(50 << 20)]
    async with RedisCluster(
        host=node.host, port=node.port, username="app", password="pw"
    ) as client:
        assert await client.set("app:k", "v")
    async with RedisCluster(host=node.host, port=node.port, password="p w/") as client:
        assert await client.get("app:k") == b"v"
    await cluster.failover("k")
    async with RedisCluster(host=node.host, port=node.port, password="p w/") as client:
        assert await client.get("app:k") == b"v"
        await client.delete("app:k")


async def test_other_servers(cluster_factory: ClusterFactory) -> None:
    async def works(kind: str) -> None:
        cluster = await cluster_factory(kind)
        await write(cluster, "k")
        new = await cluster.failover("k")
        assert await new.execute("GET", "k") == "v"
        assert await (await cluster.migrate("k")).execute("GET", "k") == "v"

    await asyncio.gather(works("redis62"), works("redis7"))


async def test_a_failed_start_names_the_node_and_leaves_nothing() -> None:
    cluster = EmbeddedCluster(masters=2, replicas=0, config={"maxmemory": "nonsense"})
    with pytest.raises(RuntimeError, match=r"(?s)did not start.*maxmemory"):
        await cluster.start()
    assert not any(node.running or node.directory.exists() for node in cluster.nodes)


async def test_what_does_not_come_about_names_the_node_and_nothing_is_left() -> None:
    async with EmbeddedCluster(masters=1, replicas=0) as cluster:
        [node] = cluster.nodes
        pid = node.pid
        await node.execute("CLUSTER", "DELSLOTS", 0)
        with pytest.raises(TopologyError, match=rf"(?s){node.address}.*its log ends:\n.*Ready"):
            await cluster.wait_healthy(timeout=3)
        with pytest.raises(TopologyError, match="slot 0"):
            await cluster.master_of(0)
        await cluster.freeze(node)
    assert not alive(pid)
    assert not node.directory.exists()


async def test_a_cancelled_start_leaves_nothing() -> None:
    cluster = EmbeddedCluster(masters=1, replicas=1)
    task = asyncio.create_task(cluster.start())
    while not any(node.running for node in cluster.nodes):
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not any(node.running or node.directory.exists() for node in cluster.nodes)


async def test_embedded_cluster_gives_a_url() -> None:
    async with embedded_cluster(masters=1, replicas=0) as url:
        parts = urlsplit(url)
        assert parts.scheme == "redis+cluster"
        async with RedisCluster(host=str(parts.hostname), port=parts.port or 0) as client:
            assert await client.ping()


def test_what_makes_no_cluster_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one master"):
        EmbeddedCluster(masters=0)
    with pytest.raises(ValueError, match="is not a slot"):
        slot_of(16384)
