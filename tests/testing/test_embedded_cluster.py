"""Clusters start, fail over, move their slots and end as `redisson_py.testing` says."""

from __future__ import annotations

import pytest
from redis.asyncio import RedisCluster
from redis.crc import key_slot

from redisson_py.testing import (
    CommandError,
    EmbeddedCluster,
)
from redisson_py.testing._topologies.views import slot_of


async def read(cluster: EmbeddedCluster, key: str) -> str | None:
    value: str | None = await (await cluster.master_of(key)).execute("GET", key)
    return value


async def write(cluster: EmbeddedCluster, key: str, value: str) -> None:
    await (await cluster.master_of(key)).execute("SET", key, value)


@pytest.mark.parametrize(
    "key", ["k", "a{b}c", "{}x", "a}b{c}", "x{", "a{b", "{a}{b}", "a{{b}}", "ä{ö}"]
)
def test_slots_are_those_of_the_servers(key: str) -> None:
    assert slot_of(key) == slot_of(key.encode()) == key_slot(key.encode())


async def test_the_session_cluster_is_three_masters_with_a_replica_each(
    cluster: EmbeddedCluster,
) -> None:
    masters = await cluster.masters()
    assert len(cluster.nodes) == 6
    assert len(masters) == 3
    for master in masters:
        [replica] = await cluster.replicas_of(master)
        assert replica not in masters
    host, port = cluster.nodes[0].address.split(":")
    async with RedisCluster(host=host, port=int(port)) as client:
        for number in range(30):
            await client.set(f"key:{number}", number)
            assert await read(cluster, f"key:{number}") == str(number)


async def test_graceful_failover_loses_nothing(cluster: EmbeddedCluster) -> None:
    old = await cluster.master_of("k")
    await write(cluster, "k", "v")
    new = await cluster.failover("k")
    assert new is not old
    assert await cluster.master_of("k") is new
    assert await cluster.replicas_of(new) == [old]
    assert await read(cluster, "k") == "v"
    with pytest.raises(CommandError, match=f"MOVED {slot_of('k')} {new.address}"):
        await old.execute("GET", "k")


async def test_restore_mends_the_cluster(cluster: EmbeddedCluster) -> None:
    home = await cluster.master_of("k")
    away = await cluster.migrate("k")
    half = await cluster.begin_migration("j")
    await cluster.freeze(half.target)
    [replica] = await cluster.replicas_of(home)
    await cluster.kill(replica)
    await cluster.restore()
    assert await cluster.master_of("k") is home is not away
    assert await cluster.master_of("j") is half.source
    assert all(node.running and not node.paused for node in cluster.nodes)
    for node in await cluster.masters():
        assert "->-" not in (shown := await node.execute("CLUSTER", "NODES"))
        assert "-<-" not in shown
