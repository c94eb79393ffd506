"""Connections to proxies and servers for the tests of `redisson_py.testing`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from redisson_py.testing import FaultProxy

SOON = 30.0


@asynccontextmanager
async def connected(
    url: str, protocol: int = 3, socket_timeout: float = SOON
) -> AsyncGenerator[Redis, None]:
    """Give a client with one open connection, which does not try again.

    `socket_timeout` counts from then on: a busy machine may connect slowly.
    """
    client = Redis.from_url(
        url,
        protocol=protocol,
        socket_timeout=SOON,
        retry=Retry(NoBackoff(), 0),
        single_connection_client=True,
    )
    async with client:
        await client.ping()
        assert client.connection is not None
        client.connection.socket_timeout = socket_timeout
        yield client


@asynccontextmanager
async def raw(
    link: FaultProxy,
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter], None]:
    """Give a bare connection, to see exactly what arrives."""
    reader, writer = await asyncio.open_connection(link.host, link.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)


def has_received(commands: int, link: FaultProxy) -> bool:
    return link.up.frames == commands


@pytest.fixture
async def direct(server_url: str) -> AsyncIterator[Redis]:
    """A client that goes around the proxy."""
    async with connected(server_url) as client:
        yield client


@pytest.fixture
async def key(direct: Redis) -> AsyncIterator[str]:
    name = f"proxy-test:{uuid4()}"
    yield name
    await direct.delete(name)
