"""What several files have: one read-write lock from both sides, and a fair lock as Redis has it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import Redisson
from redisson_py.locks.read_write_lock import ReadWriteLock
from tests.fixtures.client import ClientFactory
from tests.primitives.read_write import read_write_lock
from tests.support.fair_locks import nothing_left, server_side
from tests.support.scripts.fair import FairScripts
from tests.support.waiting import until_async


@pytest.fixture
def lock(client: Redisson) -> ReadWriteLock:
    """One lock."""
    return read_write_lock(client)


@pytest.fixture
def far(clients: ClientFactory) -> ReadWriteLock:
    """The same lock for another client."""
    return read_write_lock(clients())


@pytest_asyncio.fixture
async def fair(redis: Redis) -> AsyncIterator[FairScripts]:
    """The lock `k` as Redis has it; in the end nothing of it is left."""
    fair = await server_side(redis)
    yield fair
    await until_async(lambda: nothing_left(fair))
