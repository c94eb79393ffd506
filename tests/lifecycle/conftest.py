"""The stage of a lifecycle test: one kind of lock or semaphore on real servers."""

from __future__ import annotations

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py.testing import FaultProxy
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.support.kinds import DISTINCT, KINDS, Stage


@pytest.fixture(params=DISTINCT)
def stage(request: pytest.FixtureRequest, clients: ClientFactory, redis: Redis) -> Stage:
    """One of each way to hold in turn, or those that a test names by indirect parameters."""
    kind = KINDS[request.param]
    fleet = request.getfixturevalue("fleet") if kind.servers > 1 else None
    return Stage(kind, clients, redis, fleet)


@pytest_asyncio.fixture
async def link(proxy: ProxyFactory) -> FaultProxy:
    """A proxy before the session's server."""
    return await proxy()
