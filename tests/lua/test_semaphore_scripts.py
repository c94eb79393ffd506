"""semaphore.acquire: who gets what, what a repetition does, and what dead holders had."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py._time import now
from tests.lua.test_golden_vectors import listening
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


class TestMakingOne:
    @pytest.mark.parametrize(
        ("units", "start", "heard"), [(1, 3, [b"2"]), (3, 3, []), (4, 3, [b"3"]), (1, 0, [])]
    )
    async def test_what_is_left_for_others_is_told(
        self,
        semaphore: SemaphoreScripts,
        redis: Redis,
        units: int,
        start: int,
        heard: list[bytes],
    ) -> None:
        await semaphore.delete()
        async with listening(redis, semaphore.channel) as listener:
            await semaphore.acquire(A, units, start_units=start)
            assert await listener.heard() == heard

    async def test_a_late_acquire_makes_none(
        self, semaphore: SemaphoreScripts, redis: Redis
    ) -> None:
        await semaphore.undo(A)
        await semaphore.delete()
        assert await semaphore.acquire(A, start_units=3) == -3
        assert list(await everything(redis)) == [semaphore.tombstone(A)]


class TestReclaim:
    @pytest.mark.parametrize(
        ("taken", "wanted", "heard"),
        [(5, 2, [b"3"]), (5, 5, []), (3, 2, [b"3"]), (3, 3, []), (2, 3, []), (3, 6, [b"5"])],
    )
    async def test_only_what_is_more_than_before_is_told(
        self,
        semaphore: SemaphoreScripts,
        redis: Redis,
        taken: int,
        wanted: int,
        heard: list[bytes],
    ) -> None:
        await semaphore.acquire(A, taken)
        await semaphore.end(A)
        async with listening(redis, semaphore.channel) as listener:
            await semaphore.acquire(B, wanted)
            assert await listener.heard() == heard

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
