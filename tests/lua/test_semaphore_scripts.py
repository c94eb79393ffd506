"""semaphore.acquire: who gets what, what a repetition does, and what dead holders had."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from redisson_py._time import now
from tests.support.leases import assert_left
from tests.support.scripts.calls import A, B, Scripts, ask, everything
from tests.support.scripts.permits import SemaphoreScripts


@pytest_asyncio.fixture
async def semaphore(scripts: Scripts, redis: Redis) -> AsyncIterator[SemaphoreScripts]:
    """A semaphore of five."""
    semaphore = SemaphoreScripts(scripts)
    await semaphore.start(5)
    yield semaphore
    await redis.delete(semaphore.key, semaphore.permits, semaphore.counts)


class TestReclaim:
    @pytest.mark.parametrize("count", ["x", "", "1.5", "-3"])
    async def test_a_corrupted_record_gives_nothing_back_and_stops_nobody(
        self, semaphore: SemaphoreScripts, redis: Redis, count: str
    ) -> None:
        await semaphore.acquire(A, 2)
        await ask(redis, "HSET", semaphore.counts, A, count)
        await semaphore.end(A)
        assert await semaphore.acquire(B, 3) is None
        assert await semaphore.held() == {B: 3}
        assert await semaphore.value() == 0


class TestExpiryOfTheKey:
    """A semaphore may be made for a time; what was taken from it ends with it at the latest."""

    async def test_the_counter_keeps_its_expiry(
        self, semaphore: SemaphoreScripts, redis: Redis
    ) -> None:
        began = now()
        # parity, weakness 11: Redisson's addPermits and drainPermits drop it.
        await redis.pexpire(semaphore.key, 50_000)
        await semaphore.acquire(A)
        await semaphore.release(A)
        await semaphore.add(3)
        await semaphore.drain()
        assert await semaphore.value() == 0
        assert_left(await redis.pttl(semaphore.key) / 1000, 50, began)


@pytest.mark.parametrize("count", ["x", "", "1.5", "0"])
async def test_a_corrupted_record_cannot_be_given_back_and_stays(
    semaphore: SemaphoreScripts, redis: Redis, count: str
) -> None:
    await semaphore.acquire(A, 2)
    await ask(redis, "HSET", semaphore.counts, A, count)
    before = await everything(redis)
    with pytest.raises(ResponseError, match="number"):
        await semaphore.undo(A)
    assert await everything(redis) == before
