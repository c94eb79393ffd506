"""semaphore.add, set, drain, available and inspect: the counter of a plain semaphore."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from tests.support.counting import Counted
from tests.support.scripts.calls import LEASE, TOMBSTONE, A, B, Scripts, everything
from tests.support.scripts.permits import SemaphoreScripts

Step = Callable[[SemaphoreScripts], Awaitable[Any]]

#: Every script that touches all the keys, for what they have in common.
STEPS: dict[str, Step] = {
    "acquire": lambda semaphore: semaphore.acquire(B, start_units=3),
    "release": lambda semaphore: semaphore.undo(A),
    "add": lambda semaphore: semaphore.add(2),
    "set": lambda semaphore: semaphore.set(2),
    "set all": lambda semaphore: semaphore.set(2, replaces=1),
    "delete": lambda semaphore: semaphore.remove(),
    "drain": lambda semaphore: semaphore.drain(),
    "available": lambda semaphore: semaphore.available(),
    "inspect": lambda semaphore: semaphore.inspect(),
}
every_step = pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)


@pytest_asyncio.fixture
async def semaphore(scripts: Scripts, redis: Redis) -> AsyncIterator[SemaphoreScripts]:
    """A semaphore of which nothing is there yet."""
    semaphore = SemaphoreScripts(scripts)
    yield semaphore
    await redis.delete(semaphore.key, semaphore.permits, semaphore.counts)


class TestAdd:
    async def test_the_receipt_is_one_key_that_expires(
        self, semaphore: SemaphoreScripts, redis: Redis
    ) -> None:
        for calls in (9, 10):
            await semaphore.add(3, calls=calls)
        assert await redis.get(semaphore.receipt()) == b"10 6"
        assert TOMBSTONE - 20_000 < await redis.pttl(semaphore.receipt()) <= TOMBSTONE


class TestLooking:
    async def test_inspect_lists_holders_permits_and_remaining_time(
        self, semaphore: SemaphoreScripts, redis: Redis
    ) -> None:
        """Of those whose leases have not ended; what the others had is free."""
        await semaphore.start(5)
        await semaphore.acquire(A, 2, lease_ms=1_000_000)
        await semaphore.acquire(B)
        before = await everything(redis)
        value, holders, first, one, left_of_b, second, two, left = await semaphore.inspect()
        assert (value, holders, first, one) == (b"2", 2, B.encode(), b"1")
        assert (second, two) == (A.encode(), b"2")
        assert 0 < left_of_b <= LEASE < left <= 1_000_000
        assert await everything(redis) == before
        assert len(await semaphore.inspect(holders=1)) == 5
        await semaphore.end(B)
        before = await everything(redis)
        assert (await semaphore.inspect())[:4] == [b"3", 1, A.encode(), b"2"]
        await semaphore.end(A)
        assert await semaphore.inspect() == [b"5", 0]
        assert len(before) == len(await everything(redis))

    async def test_inspect_counts_a_bounded_number_of_dead_holders(
        self, semaphore: SemaphoreScripts, redis: Redis
    ) -> None:
        await semaphore.start(5)
        dead: list[str] = [f"dead:{n}" for n in range(10_007)]
        await redis.zadd(semaphore.permits, dict.fromkeys(dead, 1))
        await redis.hset(semaphore.counts, mapping=dict.fromkeys(dead, 1))
        await semaphore.acquire(A, reclaims=1)
        async with Counted(redis) as counted:
            assert (await semaphore.inspect())[:3] == [b"10005", 1, A.encode()]
        assert counted.calls["hget"] == 10_001


# set and delete only look whether anything is there, inspect shows whatever is.
@pytest.mark.parametrize("verb", sorted({*STEPS} - {"set", "delete", "inspect"}))
async def test_what_is_no_number_is_an_error_and_stays(
    semaphore: SemaphoreScripts, redis: Redis, verb: str
) -> None:
    await semaphore.start(2)
    await semaphore.acquire(A)
    await redis.set(semaphore.key, "1.5")
    before = await everything(redis)
    with pytest.raises(ResponseError, match="number"):
        await STEPS[verb](semaphore)
    assert await everything(redis) == before


async def test_to_reclaim_more_than_there_are_takes_no_longer(semaphore: SemaphoreScripts) -> None:
    """A loop that counted on to the greatest number would stop the server."""
    await semaphore.set(3)
    assert await semaphore.available(reclaims=9007199254740991) == 3
