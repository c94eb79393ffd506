"""What the tests of OpenTelemetry share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from tests.integrations.telemetry import Telemetry
from tests.support.last_look import let_any_busy_count


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    """Providers that keep everything in memory."""
    telemetry = Telemetry()
    yield telemetry
    telemetry.close()


@pytest.fixture
def old_busy_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have one "busy" be enough for a wait in vain."""
    let_any_busy_count(monkeypatch)


@pytest_asyncio.fixture
async def no_semaphore_left(redis: Redis) -> AsyncIterator[None]:
    """Delete semaphores, which stay for ever."""
    yield
    await redis.delete("k", "{k}:timeout")
