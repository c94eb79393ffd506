"""The scripts on the session's server."""

from __future__ import annotations

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from tests.support.scripts.any_lock import LOCKS, AnyLock
from tests.support.scripts.calls import Scripts
from tests.support.scripts.fair import FairScripts
from tests.support.scripts.lock import LockScripts


@pytest_asyncio.fixture
async def scripts(redis: Redis) -> Scripts:
    """Every script, by name."""
    return await Scripts.on(redis)


@pytest.fixture
def lock(scripts: Scripts) -> LockScripts:
    """One plain lock."""
    return LockScripts(scripts)


@pytest.fixture
def fenced(scripts: Scripts) -> LockScripts:
    """One fenced lock."""
    return LockScripts(scripts, fenced=True)


@pytest.fixture
def any_lock(scripts: Scripts, kind: str) -> AnyLock:
    """A lock of the kind that the test is run for; a fair one without a queue."""
    return FairScripts(scripts, places=0) if kind == "fair" else LOCKS[kind](scripts)
