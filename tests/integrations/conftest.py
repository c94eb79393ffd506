"""What the tests of OpenTelemetry share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from tests.integrations.telemetry import Telemetry


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    """Providers that keep everything in memory."""
    telemetry = Telemetry()
    yield telemetry
    telemetry.close()


@pytest_asyncio.fixture
async def no_semaphore_left(redis: Redis) -> AsyncIterator[None]:
    """Delete semaphores, which stay for ever."""
    yield
    await redis.delete("k", "{k}:timeout")
