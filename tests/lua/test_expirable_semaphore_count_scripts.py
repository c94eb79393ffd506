"""expirable_semaphore.set, add, available, update_lease, lease_left and inspect."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from redisson_py._time import now
from tests.lua.test_golden_vectors import listening
from tests.support.leases import assert_left
from tests.support.scripts.calls import LEASE, TOMBSTONE, Scripts, ask, everything
from tests.support.scripts.expirable import ExpirableScripts
from tests.support.scripts.permits import NEVER

W, X, Y = (bytes([n]) * 16 for n in (1, 2, 255))

Step = Callable[[ExpirableScripts], Awaitable[Any]]

#: Every script that touches both keys, for what they have in common.
STEPS: dict[str, Step] = {
    "acquire": lambda semaphore: semaphore.acquire(X, start_units=3),
    "release": lambda semaphore: semaphore.undo(W),
    "release_all": lambda semaphore: semaphore.release_all(W),
    "add": lambda semaphore: semaphore.add(2),
    "set": lambda semaphore: semaphore.set(2, replaces=1),
    "available": lambda semaphore: semaphore.available(),
    "update_lease": lambda semaphore: semaphore.update_lease(W),
    "lease_left": lambda semaphore: semaphore.lease_left(W),
    "inspect": lambda semaphore: semaphore.inspect(),
}


@pytest_asyncio.fixture
async def semaphore(scripts: Scripts, redis: Redis) -> AsyncIterator[ExpirableScripts]:
    """A semaphore of which nothing is there yet."""
    semaphore = ExpirableScripts(scripts)
    yield semaphore
    await redis.delete(semaphore.key, semaphore.permits)


class TestLooking:
    async def test_reading_tells_what_came_back(
        self, semaphore: ExpirableScripts, redis: Redis
    ) -> None:
        await semaphore.start(4)
        for read in (
            semaphore.available(),
            semaphore.update_lease(Y),
            semaphore.lease_left(Y),
        ):
            await semaphore.acquire(W + X)
            await semaphore.end(W, X)
            async with listening(redis, semaphore.channel) as listener:
                await read
                assert await listener.heard() == [b"4"]
            assert await semaphore.value() == 4

    async def test_what_is_left_of_a_lease(self, semaphore: ExpirableScripts, redis: Redis) -> None:
        began = now()
        await semaphore.start(3)
        await semaphore.acquire(W + X)
        assert_left(await semaphore.lease_left(W) / 1000, LEASE / 1000, began)
        assert await semaphore.lease_left(Y) == -2
        await ask(redis, "ZADD", semaphore.permits, NEVER, W)
        assert await semaphore.lease_left(W) == -1
        await semaphore.end(X)
        assert await semaphore.lease_left(X) == -2
        await semaphore.delete()
        assert await semaphore.lease_left(W) == -2

    async def test_which_permits_there_are(self, semaphore: ExpirableScripts, redis: Redis) -> None:
        began = now()
        assert await semaphore.inspect() == [b"", 0]
        await semaphore.start(3)
        await semaphore.acquire(W + X + Y)
        await semaphore.end(X)
        await ask(redis, "ZADD", semaphore.permits, NEVER, Y)
        before = await everything(redis)
        # What X had is free: its lease is over.
        value, holders, first, left, second, never = await semaphore.inspect()
        assert (value, holders, first, second, never) == (b"1", 2, W, Y, -1)
        assert_left(left / 1000, LEASE / 1000, began)
        assert await everything(redis) == before
        assert len(await semaphore.inspect(holders=1)) == 4


class TestUpdateLease:
    async def test_it_is_set_longer_and_shorter(self, semaphore: ExpirableScripts) -> None:
        await semaphore.start(3)
        await semaphore.acquire(W)
        assert await semaphore.update_lease(W, 1_000_000) == 1
        assert await semaphore.left(W) > LEASE
        assert [await semaphore.update_lease(W), await semaphore.update_lease(W)] == [1, 1]
        assert await semaphore.left(W) <= LEASE
        assert await semaphore.available() == [2, 1]


# inspect shows whatever is there.
@pytest.mark.parametrize("verb", sorted({*STEPS} - {"inspect"}))
async def test_what_is_no_number_is_an_error_and_stays(
    semaphore: ExpirableScripts, redis: Redis, verb: str
) -> None:
    await semaphore.start(2)
    await semaphore.acquire(W)
    await redis.set(semaphore.key, "1.5")
    before = await everything(redis)
    with pytest.raises(ResponseError, match="number"):
        await STEPS[verb](semaphore)
    assert await everything(redis) == before


async def test_the_receipt_expires(semaphore: ExpirableScripts, redis: Redis) -> None:
    await semaphore.add(1)
    assert TOMBSTONE - 20_000 < await redis.pttl(semaphore.receipt()) <= TOMBSTONE
