"""Clients of several servers of which one is master, while the roles change."""

from __future__ import annotations

import asyncio

import pytest

from redisson_py import ConnectionLostError
from redisson_py._topology.master import FinderRouter
from redisson_py._topology.replicated import ReplicatedFinder
from redisson_py.testing import EmbeddedReplicas
from tests.fixtures.client import ClientFactory
from tests.support.waiting import until_async, until_listening
from tests.topology.sentinels import has

pytestmark = pytest.mark.also("floor")


async def test_a_server_that_hands_over_is_followed(
    own_replicas: EmbeddedReplicas, clients: ClientFactory
) -> None:
    # The master is named last.
    addresses = ",".join(node.address for node in reversed(own_replicas.nodes))
    client, waiter = [clients(f"redis://{addresses}", lease_time=60) for _ in range(2)]
    lease = await client.get_lock("held").acquire()
    assert isinstance(client._router, FinderRouter)
    assert isinstance(client._router._finder, ReplicatedFinder)
    assert client._router._finder.where == own_replicas.nodes[0].address
    waiting = asyncio.create_task(waiter.get_lock("held").acquire())
    await until_listening(waiter)
    for _ in range(3):
        new = await own_replicas.failover()
        async with client.get_lock("fresh"):
            assert await has(new, "fresh", "held")
        await own_replicas.wait_healthy()
    await lease.release()
    async with await waiting:
        assert await has(await own_replicas.master(), "held")
    assert client.statistics().losses == 0


async def test_a_promoted_replica_is_found_when_the_master_died(
    own_replicas: EmbeddedReplicas, clients: ClientFactory
) -> None:
    client = clients(own_replicas.url, lease_time=60)
    old, new, other = own_replicas.nodes
    lease = await client.get_lock("held").acquire()
    await until_async(lambda: has(new, "held"))
    await own_replicas.kill(old)
    with pytest.raises(ConnectionLostError) as caught:
        await client.get_lock("fresh").acquire(timeout=2)
    for node in (new, other):
        assert f"Redis at {node.address} is a replica" in str(caught.value)
    assert f"no connection to Redis at {old.address}" in str(caught.value)
    asking = asyncio.create_task(client.get_lock("fresh").acquire(timeout=60))
    await own_replicas.promote(new)
    async with await asking:
        assert await has(new, "fresh")
    await lease.release()
