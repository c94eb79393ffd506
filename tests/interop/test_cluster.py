"""Java and Python on one cluster: each is woken by the other's release, whatever it waits for."""

from __future__ import annotations

import pytest

from redisson_py import Redisson
from redisson_py.testing import EmbeddedCluster
from tests.fixtures.client import ClientFactory
from tests.fixtures.java import RedissonFactory
from tests.fixtures.topologies import ClusterFactory
from tests.interop.both_ways import BothWays

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("only_messages")]
LEASE = 60


async def both_ways(
    client: Redisson, redissons: RedissonFactory, url: str, **settings: object
) -> BothWays:
    made = BothWays(client, await redissons(url, **settings))
    await made.make()
    return made


async def test_sharded(
    cluster: EmbeddedCluster, clients: ClientFactory, redissons: RedissonFactory
) -> None:
    client = clients(cluster.url, lease_time=LEASE)
    scene = await both_ways(client, redissons, cluster.url)
    await scene.take_and_wait()
    await scene.give_and_wake()


async def test_classic(
    cluster: EmbeddedCluster, clients: ClientFactory, redissons: RedissonFactory
) -> None:
    client = clients(cluster.url, lease_time=LEASE, sharded_pubsub="off")
    scene = await both_ways(client, redissons, cluster.url, shardedSubscriptionMode="OFF")
    await scene.take_and_wait()
    await scene.give_and_wake()


async def test_redis_62(
    cluster_factory: ClusterFactory, clients: ClientFactory, redissons: RedissonFactory
) -> None:
    cluster = await cluster_factory("redis62")
    client = clients(cluster.url, lease_time=LEASE)
    scene = await both_ways(client, redissons, cluster.url)
    await scene.take_and_wait()
    await scene.give_and_wake()
