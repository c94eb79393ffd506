"""Locks made of several, of which some are in a cluster: it is one server to them."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from redisson_py import MultiLock, Redisson, RedLock
from redisson_py._redis.topology.cluster import ClusterRouter
from redisson_py.testing import EmbeddedCluster
from tests.fixtures.client import ClientFactory
from tests.fixtures.fleet import Fleet
from tests.support.cluster_look import plain_client
from tests.support.streams import answered, answered_at

#: Names whose keys are on each of three masters.
NAMES = ("a", "b", "k")


@pytest.fixture
def parts(cluster: EmbeddedCluster, clients: ClientFactory) -> tuple[Redisson, Redisson]:
    """Clients of one cluster that name different nodes of it."""
    first, second, *_ = cluster.nodes
    return clients(f"redis+cluster://{first.address}"), clients(f"redis+cluster://{second.address}")


async def held(cluster: EmbeddedCluster) -> list[str]:
    redis = plain_client(cluster.url)
    try:
        return sorted([key for key in (*NAMES, "c") if await redis.exists(key)])
    finally:
        await redis.aclose()


async def test_members_of_a_red_lock_are_not_of_one_cluster(
    cluster: EmbeddedCluster, clients: ClientFactory, parts: tuple[Redisson, Redisson], fleet: Fleet
) -> None:
    names = [clients(cluster.url).get_lock(name) for name in NAMES[:2]]
    with pytest.raises(ValueError, match="in one cluster"):
        RedLock(*names)
    # On two nodes of it, whose ids come with the map.
    one, other = parts[0].get_lock("a"), parts[1].get_lock("b")
    lock = RedLock(one, other, fleet.clients(1)[0].get_lock("a"))
    for _ in range(2):
        with pytest.raises(ValueError, match=r"lock '.' at .* in one cluster"):
            await lock.acquire(timeout=20)
    assert not await one.locked()
    assert not await other.locked()


async def test_a_cluster_is_one_vote(
    cluster: EmbeddedCluster, clients: ClientFactory, fleet: Fleet
) -> None:
    client = clients(cluster.url)
    others = fleet.clients(2)
    lock = RedLock(client.get_lock("a"), *(each.get_lock("a") for each in others))
    async with lock.hold(timeout=20):
        async with lock:
            # Two of the three have said yes; by now the third has as well.
            await asyncio.gather(answered_at(client, "a"), *map(answered, others))
            assert await held(cluster) == ["a"]
            assert await fleet.held("a", 2) == 2


async def test_members_of_a_multi_lock_are_on_any_nodes(
    cluster: EmbeddedCluster, clients: ClientFactory, parts: tuple[Redisson, Redisson]
) -> None:
    client = clients(cluster.url)
    lock = client.get_multi_lock(*[client.get_lock(name) for name in NAMES])
    async with lock:
        assert await held(cluster) == sorted(NAMES)
        owners = {(await cluster.master_of(name)).address for name in NAMES}
        assert len(owners) == 3
    # One lock, that would wait for itself, is refused however its cluster was named.
    twice = MultiLock(*[each.get_lock("c") for each in parts])
    with pytest.raises(ValueError, match="are the same lock in Redis"):
        await twice.acquire(timeout=20)
    assert await held(cluster) == []


async def test_clients_that_know_different_nodes_of_a_cluster_are_clients_of_one(
    parts: tuple[Redisson, Redisson],
) -> None:
    await asyncio.gather(*map(answered, parts))
    # As if it had asked a node that has not heard of another one yet.
    slots = cast("ClusterRouter", parts[0]._router)._slots
    assert slots is not None
    slots.node_ids -= {min(slots.node_ids)}
    twice = MultiLock(*[each.get_lock("c") for each in parts])
    with pytest.raises(ValueError, match="are the same lock in Redis"):
        await twice.acquire(timeout=20)
