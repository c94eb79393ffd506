"""semaphore.release: what is taken comes back once, whatever arrives how often."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from tests.support.scripts.calls import A, Scripts, ask, everything
from tests.support.scripts.permits import SemaphoreScripts


@pytest_asyncio.fixture
async def semaphore(scripts: Scripts, redis: Redis) -> AsyncIterator[SemaphoreScripts]:
    """A semaphore of five."""
    semaphore = SemaphoreScripts(scripts)
    await semaphore.start(5)
    yield semaphore
    await redis.delete(semaphore.key, semaphore.permits, semaphore.counts)


class TestRefusals:
    @pytest.mark.parametrize("count", ["x", "", "1.5", "0"])
    async def test_a_corrupted_record_is_an_error_and_stays(
        self, semaphore: SemaphoreScripts, redis: Redis, count: str
    ) -> None:
        await semaphore.acquire(A, 2)
        await ask(redis, "HSET", semaphore.counts, A, count)
        before = await everything(redis)
        with pytest.raises(ResponseError, match="number"):
            await semaphore.undo(A)
        assert await everything(redis) == before
