"""A server that was made a replica, took over the data of its master, and is promoted again."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from redisson_py import Lease, LeaseLostError
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ServerFactory
from tests.support.waiting import until_async, until_listening


async def test_server_that_took_over_anothers_data_is_a_loss(
    clients: ClientFactory, server_factory: ServerFactory
) -> None:
    # A master at its defaults lets a replica wait for more replicas first.
    config = {"repl-diskless-sync-delay": "0"}
    server, master = [await server_factory(config=config) for _ in range(2)]
    client, waiter = clients(server.url, lease_time=3), clients(server.url)
    async with Redis.from_url(server.url) as redis:

        async def take_over() -> None:
            await redis.replicaof(master.host, str(master.port))
            await until_async(lambda: has_synced(redis), 30)
            await redis.replicaof("NO", "ONE")

        taking_over: asyncio.Task[None] | None = None
        waiting: asyncio.Task[Lease] | None = None
        with pytest.raises(LeaseLostError):
            async with client.get_fenced_lock("k") as lease:
                waiting = asyncio.create_task(waiter.get_fenced_lock("k").acquire(timeout=60))
                await until_listening(waiter)
                # A task of its own: a loss on the way must not end it.
                taking_over = asyncio.create_task(take_over())
                await asyncio.sleep(30)
        assert taking_over is not None
        await taking_over
        assert waiting is not None
        async with await waiting as next_one:
            assert lease.token is not None
            assert next_one.token is not None
            assert next_one.token > lease.token


async def has_synced(redis: Redis) -> bool:
    return bool((await redis.info("replication"))["master_link_status"] == "up")
