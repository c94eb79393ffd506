"""expirable_semaphore.acquire, release and release_all: ids decide what comes back, once."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from tests.support.scripts.calls import TOMBSTONE, Scripts, everything
from tests.support.scripts.expirable import ExpirableScripts

#: Ids with bytes that end texts elsewhere.
W, X, Y, Z = (bytes([n]) + b"\x00\r\n\xff" + b"0123456789a" for n in range(4))
BAD_COUNTS = ("x", "", "-1", "0", "1.5", "inf", "2")


@pytest_asyncio.fixture
async def semaphore(scripts: Scripts, redis: Redis) -> AsyncIterator[ExpirableScripts]:
    """A semaphore of three."""
    semaphore = ExpirableScripts(scripts)
    await semaphore.start(3)
    yield semaphore
    await redis.delete(semaphore.key, semaphore.permits)


class TestRelease:
    async def test_one_id_twice_comes_back_once(self, semaphore: ExpirableScripts) -> None:
        await semaphore.acquire(W)
        assert await semaphore.release(W + W) == 1
        assert await semaphore.value() == 3

    async def test_with_a_receipt_a_repetition_gives_the_first_answer(
        self, semaphore: ExpirableScripts, redis: Redis
    ) -> None:
        await semaphore.acquire(W + X)
        await semaphore.end(X)
        for permit, first in ((W, 1), (X, 0), (Y, None)):
            assert await semaphore.release(permit, calls=None) == first
            calls = semaphore._calls["client-a"]
            assert await semaphore.release(permit, calls=calls) == first
        assert TOMBSTONE - 20_000 < await redis.pttl(semaphore.receipt()) <= TOMBSTONE
        assert await semaphore.value() == 3


class TestReleaseAll:
    async def test_one_id_twice_comes_back_once(self, semaphore: ExpirableScripts) -> None:
        await semaphore.acquire(W + X)
        assert await semaphore.release_all(W + W) == 1
        assert await semaphore.available() == [2, 1]


class TestRefusals:
    async def test_a_number_that_is_not_that_of_the_ids_is_refused(
        self, semaphore: ExpirableScripts, redis: Redis
    ) -> None:
        await semaphore.acquire(X)
        before = await everything(redis)
        for units in BAD_COUNTS:
            for refused in (
                semaphore.acquire(W, units=units),
                semaphore.release(X, units=units, tombstone_ms=TOMBSTONE),
                semaphore.release_all(X, units=units),
            ):
                with pytest.raises(ResponseError, match="ids"):
                    await refused
            assert await everything(redis) == before
