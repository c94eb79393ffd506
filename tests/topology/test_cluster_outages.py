"""Clusters that are hard to reach, or not all there."""

from __future__ import annotations

import asyncio

import pytest

from redisson_py import ConnectionLostError, Redisson
from redisson_py._redis.stream.call import Call, ReplyError
from redisson_py._redis.topology.discovery import Discovery
from redisson_py.testing import EmbeddedCluster, find_server, server_version
from tests.fixtures.client import ClientFactory
from tests.fixtures.topologies import ClusterFactory
from tests.support.waiting import until, until_async
from tests.topology.cluster_nodes import connections, names_at, router_of, stream_to

#: No server listens there.
DEAD = "127.0.0.1:1"


async def pair(client: Redisson, name: str = "pair") -> None:
    """Acquire and release."""
    async with client.get_lock(name).hold(timeout=60):
        pass


async def test_seeds_that_are_dead_or_replicas(
    cluster: EmbeddedCluster, clients: ClientFactory
) -> None:
    masters = await cluster.masters()
    replica = next(node for node in cluster.nodes if node not in masters)
    for seeds in (f"{DEAD},{replica.address}", f"{replica.address},{DEAD}", replica.address):
        client = clients(f"redis+cluster://{seeds}")
        await pair(client)
        for number in range(20):
            await pair(client, f"name{number}")


async def test_a_cluster_that_is_all_away_and_one_seed_for_ever(
    cluster_factory: ClusterFactory, clients: ClientFactory
) -> None:
    """With nobody else to ask, nodes that were away tell of each other, and of themselves."""
    cluster = await cluster_factory(masters=3, replicas=0)
    nodes = cluster.nodes
    client = clients(f"redis+cluster://{DEAD},{nodes[0].address}", lease_time=60)
    names = ["a", "b", "c", "d", "e", "f"]
    leases = [await client.get_lock(name).acquire() for name in names]
    assert len({await cluster.master_of(name) for name in names}) == 3
    # All at once: the first would be back before a slow one had ended its connection.
    for node in nodes:
        stream_to(client, node).abort("the test says so")
    await until(lambda: all(not stream_to(client, node).ready for node in nodes))
    await asyncio.gather(*(pair(client, f"{{{name}}}other") for name in names))
    for lease in leases:
        await lease.release()


async def test_an_unassigned_slot_is_named_and_works_later(
    cluster_factory: ClusterFactory, clients: ClientFactory
) -> None:
    config = {"cluster-require-full-coverage": "no"}
    cluster = await cluster_factory(masters=3, replicas=0, config=config)
    client = clients(cluster.url)
    await pair(client)
    owner = await cluster.master_of("nobody")
    slot = int(await owner.execute("CLUSTER", "KEYSLOT", "nobody"))
    for node in cluster.nodes:
        await node.execute("CLUSTER", "DELSLOTS", slot)
    # And one that has never known it.
    stranger = clients(cluster.url)
    await stranger.ping()

    async def refused(each: Redisson, words: str) -> None:
        with pytest.raises(ConnectionLostError, match=words):
            await each.get_lock("nobody").acquire(timeout=2)
        await pair(each)

    await asyncio.gather(
        refused(client, f"slot {slot}|CLUSTERDOWN"), refused(stranger, f"serves slot {slot}")
    )
    await refused(client, f"slot {slot}|CLUSTERDOWN")
    waiting = [asyncio.create_task(pair(each, "nobody")) for each in (client, stranger)]
    await owner.execute("CLUSTER", "ADDSLOTS", slot)
    await asyncio.wait_for(asyncio.gather(*waiting), 60)


async def test_a_cluster_goes_down_and_comes_back(
    cluster_factory: ClusterFactory, clients: ClientFactory
) -> None:
    cluster = await cluster_factory(masters=3, replicas=0)
    client = clients(cluster.url, lease_time=60)
    names = ["a", "b", "c", "d"]
    leases = [await client.get_lock(name).acquire() for name in names]
    for node in cluster.nodes:
        await cluster.kill(node)
    with pytest.raises(ConnectionLostError, match="no connection to Redis at 127"):
        await client.get_lock("a2").acquire(timeout=1.5)
    waiting = [asyncio.create_task(pair(client, f"{{{name}}}x")) for name in names]
    for node in cluster.nodes:
        await cluster.revive(node)
    await asyncio.wait_for(asyncio.gather(*waiting), 60)
    # Nothing was saved: told by the first answer.
    await until(lambda: client.statistics().losses_by_reason["taken"] == len(names), 30)
    assert not any(lease.remaining for lease in leases)


async def test_nodes_without_names(
    cluster_factory: ClusterFactory, clients: ClientFactory, server_choice: str
) -> None:
    """Nodes that announce no host are at the host of the node that was asked."""
    if server_version(find_server(server_choice)) < (7, 0, 0):
        pytest.skip("this server always says its address")
    cluster = await cluster_factory(
        masters=3, replicas=0, config={"cluster-preferred-endpoint-type": "unknown-endpoint"}
    )
    client = clients(f"redis+cluster://{cluster.nodes[1].address}")
    for number in range(20):
        await pair(client, f"name{number}")
    # MOVED names only a port.
    for _ in range(2):
        await cluster.migrate("pair")
        await pair(client)


async def test_the_end_of_a_subscription_does_not_follow_ask(
    cluster: EmbeddedCluster, clients: ClientFactory
) -> None:
    """Redis 8 says ASK to SUNSUBSCRIBE while the slot moves; HELLO behind it stays here."""
    client = clients(cluster.url, sync_replicas=0)
    source, target, *_ = await cluster.masters()
    for node in (source, target):
        await pair(client, (await names_at(cluster, node, 1))[0])
    router = router_of(client)
    before = router.traffic.commands
    end = Call(("SUNSUBSCRIBE", b"c"), 0, must=True, channel=b"c")
    assert router.redirected(stream_to(client, source), end, ReplyError(f"ASK 1 {target.address}"))
    assert router.traffic.commands == before


async def test_a_failed_background_task_is_started_again(
    cluster: EmbeddedCluster,
    clients: ClientFactory,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = clients(cluster.url, client_name="failing", sync_replicas=0)
    lease = await client.get_lock("held").acquire()
    ask = Discovery.ask

    async def fail(*_: object, **__: object) -> None:
        monkeypatch.setattr(Discovery, "ask", ask)
        raise RuntimeError("not foreseen")

    monkeypatch.setattr(Discovery, "ask", fail)
    router_of(client).ask()
    root = client._life._root
    assert root is not None
    await until(root.done)
    assert "not foreseen" in caplog.text
    await pair(client)
    await lease.release()

    async def is_tidy() -> bool:
        return max(await connections(cluster, "failing")) == 1

    await until_async(is_tidy)
