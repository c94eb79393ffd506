"""Concurrent `aclose()`: all of them return when the first has finished (issue 12, item 15)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import ClientClosedError, Redisson
from redisson_py.testing import FaultProxy
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.support.streams import answered
from tests.support.waiting import until_async

NAME = "closing"


async def turns(count: int = 20) -> None:
    """Let everything go on that waits for nothing."""
    for _ in range(count):
        await asyncio.sleep(0)


async def connected(redis: Redis) -> bool:
    """Whether the server still has the client's connection."""
    rows: list[dict[str, Any]] = await redis.client_list()
    return any(row["name"] == NAME for row in rows)


async def gone(redis: Redis) -> bool:
    return not await connected(redis)


async def test_second_close_waits_for_the_first(
    clients: ClientFactory, proxy: ProxyFactory, redis: Redis
) -> None:
    link = await proxy()
    client = clients(link.url, client_name=NAME)
    await client.get_lock("k").acquire()
    link.hold()
    closing = [asyncio.create_task(client.aclose()) for _ in range(3)]
    await link.wait_until(lambda link: link.held > 0)
    await turns()
    # The release has no answer yet.
    assert [task.done() for task in closing] == [False] * 3
    link.release_held()
    async with asyncio.timeout(30):
        await asyncio.gather(*closing)
    assert not await redis.exists("k")
    await until_async(lambda: gone(redis))
    await client.aclose()


async def test_second_close_that_returns_finds_everything_released(
    clients: ClientFactory, redis: Redis
) -> None:
    client = clients(client_name=NAME)
    await asyncio.gather(*[client.get_lock(f"k{n}").acquire() for n in range(100)])
    first = asyncio.create_task(client.aclose())
    await asyncio.sleep(0)
    await client.aclose()
    assert await redis.keys("k*") == []
    assert client.statistics().held_leases == 0
    await first
    await until_async(lambda: gone(redis))


async def closed_twice(
    clients: ClientFactory, link: FaultProxy
) -> tuple[Redisson, asyncio.Task[None], asyncio.Task[None]]:
    """Return a client that holds the lock `k`, and two closes that wait for its release."""
    client = clients(link.url, client_name=NAME)
    await client.get_lock("k").acquire()
    link.hold()
    first, second = (asyncio.create_task(client.aclose()) for _ in range(2))
    await link.wait_until(lambda link: link.held > 0)
    await turns()
    assert not second.done()
    return client, first, second


async def test_cancelled_close_does_not_leave_the_second_hanging(
    clients: ClientFactory, link: FaultProxy, redis: Redis
) -> None:
    client, first, second = await closed_twice(clients, link)
    first.cancel()
    link.release_held()
    async with asyncio.timeout(30):
        await second
        await asyncio.gather(first, return_exceptions=True)
    await until_async(lambda: gone(redis))
    with pytest.raises(ClientClosedError):
        await answered(client)
    # If Redis got no release, the lease ends.
    await redis.delete("k")


async def test_cancelled_second_close_leaves_the_first_alone(
    clients: ClientFactory, link: FaultProxy, redis: Redis
) -> None:
    _, first, second = await closed_twice(clients, link)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert not first.done()
    link.release_held()
    async with asyncio.timeout(30):
        await first
    assert not await redis.exists("k")
    await until_async(lambda: gone(redis))


async def test_close_inside_a_block_of_the_client(clients: ClientFactory, redis: Redis) -> None:
    """`async with client` closes at its end what another task closes already."""
    client: Redisson = clients(client_name=NAME)
    async with client:
        await client.get_lock("k").acquire()
        closing = asyncio.create_task(client.aclose())
        await asyncio.sleep(0)
    assert not await redis.exists("k")
    await closing
    await until_async(lambda: gone(redis))
