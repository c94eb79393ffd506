"""semaphore.set with `replaces`, and semaphore.delete: what is taken counts, or is void."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from tests.lua.test_golden_vectors import listening
from tests.support.scripts.calls import A, B, Scripts, everything
from tests.support.scripts.permits import SemaphoreScripts


@pytest_asyncio.fixture
async def semaphore(scripts: Scripts, redis: Redis) -> AsyncIterator[SemaphoreScripts]:
    """A semaphore of which nothing is there yet."""
    semaphore = SemaphoreScripts(scripts)
    yield semaphore
    await redis.delete(semaphore.key, semaphore.permits, semaphore.counts)


class TestSetAll:
    @pytest.mark.parametrize(("units", "free"), [(9, 6), (5, 2), (3, 0), (1, -2), (0, -3)])
    async def test_what_is_taken_counts(
        self, semaphore: SemaphoreScripts, redis: Redis, units: int, free: int
    ) -> None:
        await semaphore.start(5)
        await semaphore.acquire(A, 2)
        await semaphore.acquire(B)
        async with listening(redis, semaphore.channel) as listener:
            assert await semaphore.set(units, replaces=1) == (units != 5)
            # Only what became free is news.
            assert await listener.heard() == ([b"6"] if units == 9 else [])
        assert await semaphore.value() == free
        assert await semaphore.held() == {A: 2, B: 1}
        assert [await semaphore.release(A), await semaphore.release(B)] == [1, 1]
        assert await semaphore.value() == units

    async def test_what_a_dead_holder_had_is_given_back_and_counted_once(
        self, semaphore: SemaphoreScripts, redis: Redis
    ) -> None:
        await semaphore.start(5)
        await semaphore.acquire(A, 2)
        await semaphore.acquire(B)
        await semaphore.end(A)
        async with listening(redis, semaphore.channel) as listener:
            assert await semaphore.set(4, replaces=1) == 1
            assert await listener.heard() == [b"3"]
        assert (await semaphore.value(), await semaphore.held()) == (3, {B: 1})

    async def test_dead_holders_beyond_the_bound_still_count(
        self, semaphore: SemaphoreScripts
    ) -> None:
        await semaphore.start(5)
        for owner in (A, B):
            await semaphore.acquire(owner)
        await semaphore.end(A, B)
        assert await semaphore.set(7, replaces=1, reclaims=1) == 1
        assert await semaphore.value() == 6
        assert await semaphore.available() == 7

    async def test_a_repetition_changes_nothing_and_gives_the_first_answer(
        self, semaphore: SemaphoreScripts
    ) -> None:
        await semaphore.start(5)
        await semaphore.acquire(A, 2)
        assert await semaphore.set(9, replaces=1, calls=1) == 1
        assert await semaphore.add(-4, "client-b") == 3
        assert await semaphore.set(9, replaces=1, calls=1) == 1
        assert await semaphore.value() == 3


class TestDelete:
    async def test_all_of_it_goes_and_waiters_look(
        self, semaphore: SemaphoreScripts, redis: Redis
    ) -> None:
        await semaphore.start(5)
        await semaphore.acquire(A, 2)
        async with listening(redis, semaphore.channel) as listener:
            assert [await semaphore.remove(), await semaphore.remove()] == [1, 0]
            assert await listener.heard() == [b"1"]
        assert {*await everything(redis)} == {semaphore.receipt()}
        assert await semaphore.acquire(B) == -4

    async def test_records_without_a_counter_go_too(
        self, semaphore: SemaphoreScripts, redis: Redis
    ) -> None:
        await semaphore.start(2)
        await semaphore.acquire(A)
        await semaphore.delete()
        assert await semaphore.remove() == 0
        assert {*await everything(redis)} == {semaphore.receipt()}

    async def test_a_repetition_spares_what_was_made_since(
        self, semaphore: SemaphoreScripts
    ) -> None:
        await semaphore.start(2)
        assert await semaphore.remove(calls=1) == 1
        await semaphore.set(3, "client-b")
        assert await semaphore.remove(calls=1) == 1
        assert await semaphore.value() == 3
