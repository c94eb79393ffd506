"""The stage of a lifecycle test: one kind of lock or semaphore on real servers."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from tests.fixtures.client import ClientFactory
from tests.support.kinds import KINDS, Stage


@pytest.fixture(params=KINDS)
def stage(request: pytest.FixtureRequest, clients: ClientFactory, redis: Redis) -> Stage:
    """Every kind in turn, or those that a test names by indirect parameters."""
    kind = KINDS[request.param]
    fleet = request.getfixturevalue("fleet") if kind.servers > 1 else None
    return Stage(kind, clients, redis, fleet)
