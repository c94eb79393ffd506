"""What tests of real Sentinels and replicas share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from redis.asyncio import Redis

from redisson_py import Redisson
from redisson_py._redis.topology.finder import FinderRouter, SentinelFinder
from redisson_py._time import now
from redisson_py.testing import EmbeddedSentinel, EmbeddedServer


def finder_of(client: Redisson) -> SentinelFinder:
    """Return what finds the master for a client."""
    assert isinstance(client._router, FinderRouter)
    finder = client._router._finder
    assert isinstance(finder, SentinelFinder)
    return finder


def listens(client: Redisson, count: int = 3) -> bool:
    """Return whether a client listens to `count` Sentinels."""
    known = finder_of(client).sentinels.known
    return sum(each.stream.ready and not each.stream.waiting for each in known) == count


async def has(server: EmbeddedServer, *keys: str) -> bool:
    """Return whether a server has all of these keys."""
    return int(await server.execute("EXISTS", *keys)) == len(keys)


@asynccontextmanager
async def announcements(servers: EmbeddedSentinel) -> AsyncGenerator[list[float]]:
    """Hand out the moments at which Sentinels announce another master, as they come."""
    moments: list[float] = []

    async def hear(pubsub: Any) -> None:
        while True:
            if await pubsub.get_message(ignore_subscribe_messages=True, timeout=None):
                moments.append(now())

    async with AsyncExitStack() as stack:
        for sentinel in servers.sentinels:
            redis = await stack.enter_async_context(Redis(host=sentinel.host, port=sentinel.port))
            pubsub = await stack.enter_async_context(redis.pubsub())
            await pubsub.subscribe("+switch-master")
            stack.callback(asyncio.create_task(hear(pubsub)).cancel)
        yield moments
