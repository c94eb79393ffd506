"""permit.renew and permit.set_lease, and what a full server does to permits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio
from redis.asyncio import Redis

from tests.support.scripts.calls import LEASE, A, B, Scripts, ask
from tests.support.scripts.expirable import ExpirableScripts
from tests.support.scripts.permits import NEVER, SemaphoreScripts

ID = bytes(range(16))


@pytest_asyncio.fixture
async def plain(scripts: Scripts, redis: Redis) -> AsyncIterator[SemaphoreScripts]:
    """A plain semaphore of three, one taken by A."""
    semaphore = SemaphoreScripts(scripts, b"semaphore:plain")
    await semaphore.start(3)
    await semaphore.acquire(A)
    yield semaphore
    await redis.delete(semaphore.key, semaphore.permits, semaphore.counts)


@pytest_asyncio.fixture
async def expirable(scripts: Scripts, redis: Redis) -> AsyncIterator[ExpirableScripts]:
    """A semaphore of three permits, one taken."""
    semaphore = ExpirableScripts(scripts, b"semaphore:expirable")
    await semaphore.start(3)
    await semaphore.acquire(ID)
    yield semaphore
    await redis.delete(semaphore.key, semaphore.permits)


class TestRenew:
    async def test_a_lease_is_extended_and_never_shortened(self, plain: SemaphoreScripts) -> None:
        assert await plain.renew(A, 1_000_000) == 1
        assert await plain.left(A) > LEASE
        assert await plain.renew(A, LEASE) == 1
        assert await plain.left(A) > LEASE
        assert await plain.held() == {A: 1}

    async def test_what_has_ended_is_not_brought_back(self, plain: SemaphoreScripts) -> None:
        await plain.end(A)
        assert await plain.renew(A) == 0
        assert await plain.left(A) < 0

    async def test_nothing_is_ever_made(self, plain: SemaphoreScripts) -> None:
        assert await plain.renew(B) == 0
        assert await plain.held() == {A: 1}

    async def test_what_never_ends_is_left_so(
        self, expirable: ExpirableScripts, redis: Redis
    ) -> None:
        await ask(redis, "ZADD", expirable.permits, NEVER, ID)
        assert await expirable.renew(ID) == 1
        assert await expirable.lease_left(ID) == -1

    async def test_a_batch_answers_for_each_permit_by_itself(
        self, plain: SemaphoreScripts, expirable: ExpirableScripts, redis: Redis
    ) -> None:
        await redis.set("string", "mine", px=LEASE)
        keys = [plain.permits, b"string", expirable.permits, b"gone", plain.permits]
        marks: list[Any] = [A, A, ID, A, B]
        replies = await plain.scripts.run_batch(
            "permit.renew", keys, marks, lease_ms=1_000_000, idle_ms=0
        )
        assert replies == [1, 0, 1, 0, 0]
        assert min(await plain.left(A), await expirable.left(ID)) > LEASE
        assert await redis.exists("gone") == 0


class TestSetLease:
    async def test_it_may_be_made_longer_and_shorter(self, plain: SemaphoreScripts) -> None:
        assert await plain.set_lease(A, 1_000_000) == 1
        assert await plain.left(A) > LEASE
        assert [await plain.set_lease(A), await plain.set_lease(A)] == [1, 1]
        assert LEASE - 20_000 < await plain.left(A) <= LEASE

    async def test_what_has_ended_or_unknown_is_not_brought_back(
        self, plain: SemaphoreScripts
    ) -> None:
        await plain.end(A)
        assert [await plain.set_lease(A), await plain.set_lease(B)] == [0, 0]
        assert await plain.left(A) < 0
        assert await plain.held() == {A: 1}
