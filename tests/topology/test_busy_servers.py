"""A busy server refuses SUBSCRIBE and UNSUBSCRIBE only for now, on every stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import Redisson
from redisson_py._redis.commands.wakes import lock_wakes
from redisson_py.testing import EmbeddedCluster, EmbeddedServer
from tests.fixtures.client import ClientFactory
from tests.fixtures.topologies import ClusterFactory
from tests.support.busy_server import busy_with_a_script
from tests.support.scripts.calls import ask
from tests.support.waiting import until, until_async, until_listening
from tests.topology.conftest import Pair

CHANNEL = b"redisson_lock__channel:{k}"


async def come_and_go(
    client: Redisson, server: EmbeddedServer, admin: Redis, subscribers: str
) -> None:
    """Join the channel, and leave it, while the server is busy; the server hears of both."""

    async def are(count: int) -> bool:
        return bool(await ask(admin, subscribers, CHANNEL) == [(CHANNEL, count)])

    lease = await client.get_lock("k").acquire()
    with ExitStack() as waiting:
        async with busy_with_a_script(server):
            sleeper = waiting.enter_context(client._context.bus.listen(CHANNEL, lock_wakes))
            await until_listening(client)
        async with asyncio.timeout(20):
            # A release may have been missed: the sleeper is to ask again.
            await sleeper.wait(None)
            await until_async(lambda: are(1))
            sleeper.arm()
            await lease.release()
            await sleeper.wait(None)
    async with busy_with_a_script(server):
        await until(lambda: not client._context.bus.table.channels)
    await until_async(lambda: are(0))
    # No answer is out of step.
    async with client.get_lock("k"):
        pass
    assert client.statistics().reconnects == 0


async def test_on_the_stream_of_grants(pair: Pair, clients: ClientFactory) -> None:
    client = clients(pair.url, sync_replicas=1)
    await come_and_go(client, pair.master, pair.redis, "PUBSUB NUMSUB")


@pytest_asyncio.fixture
async def masters(cluster_factory: ClusterFactory) -> AsyncIterator[EmbeddedCluster]:
    """A cluster in which nobody takes the place of a busy node."""
    yield await cluster_factory(masters=3, replicas=0)


@pytest.mark.parametrize("mode", ["on", "off"])
async def test_in_a_cluster(
    masters: EmbeddedCluster, clients: ClientFactory, server_choice: str, mode: str
) -> None:
    if mode == "on" and server_choice == "redis62":
        pytest.skip("Redis 6.2 has no sharded pub/sub")
    client, node = clients(masters.url, sharded_pubsub=mode), await masters.master_of("k")
    async with Redis.from_url(node.url) as admin:
        subscribers = "PUBSUB SHARDNUMSUB" if mode == "on" else "PUBSUB NUMSUB"
        await come_and_go(client, node, admin, subscribers)
