"""What the tests of faults have in common: what breaks, and who looks at the server meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from redis.asyncio import Redis

from redisson_py.testing import EmbeddedServer, FaultProxy
from tests.fixtures.redis_server import ProxyFactory


@pytest_asyncio.fixture
async def link(proxy: ProxyFactory) -> FaultProxy:
    """A proxy before the session's server."""
    return await proxy()


@pytest_asyncio.fixture
async def admin(own_server: EmbeddedServer) -> AsyncIterator[Redis]:
    """A plain client of the test's own server."""
    async with Redis.from_url(own_server.url) as redis:
        yield redis
