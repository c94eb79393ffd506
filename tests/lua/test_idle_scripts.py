"""Scripts with `idle_ms`: a counter that nobody uses expires, and never before the last lease."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py._redis.scripts.source import Arg
from tests.support.scripts.calls import LEASE, A, B, Scripts, ask, everything
from tests.support.scripts.expirable import ExpirableScripts
from tests.support.scripts.lock import LockScripts
from tests.support.scripts.permits import NEVER, SemaphoreScripts

IDLE = 10 * LEASE
LONG = 3 * LEASE
#: How late a look may be, in milliseconds.
LATE = 10_000
P, Q = b"p" * 16, b"q" * 16

Either = SemaphoreScripts | ExpirableScripts


@pytest_asyncio.fixture(params=[SemaphoreScripts, ExpirableScripts])
async def semaphore(
    scripts: Scripts, redis: Redis, request: pytest.FixtureRequest
) -> AsyncIterator[Either]:
    """A semaphore of which nothing is there yet."""
    semaphore: Either = request.param(scripts)
    yield semaphore
    await redis.delete(semaphore.key, semaphore.permits, semaphore.side)


def mark(semaphore: Either, plain: str, with_id: bytes) -> Any:
    return plain if isinstance(semaphore, SemaphoreScripts) else with_id


async def acquire(semaphore: Either, first: bool = True, **values: Arg) -> int | None:
    """Ask for one permit, as one of two owners."""
    who: Any = mark(semaphore, A if first else B, P if first else Q)
    return await semaphore.acquire(who, **{"start_units": 1, "idle_ms": IDLE, **values})


async def stays(redis: Redis, key: bytes, ms: int) -> bool:
    """Whether a key expires after so long, but for the time until this look.

    A lease that is renewed within a millisecond of its grant ends a millisecond later.
    """
    return bool(ms - LATE < await redis.pttl(key) <= ms + 1)


async def test_one_that_is_made_stays_idle_longer_than_its_lease(
    semaphore: Either, redis: Redis
) -> None:
    assert await acquire(semaphore) is None
    for key in {semaphore.key, semaphore.permits, semaphore.side}:
        assert await stays(redis, key, LEASE + IDLE)


async def test_one_that_was_there_for_ever_does_so_from_now_on(
    semaphore: Either, redis: Redis
) -> None:
    await semaphore.start(1)
    assert await acquire(semaphore) is None
    assert await stays(redis, semaphore.key, LEASE + IDLE)
    assert await stays(redis, semaphore.permits, LEASE + IDLE)


async def test_a_use_of_a_client_without_it_leaves_it(semaphore: Either, redis: Redis) -> None:
    await acquire(semaphore)
    await acquire(semaphore, False, idle_ms=0)
    await semaphore.renew(mark(semaphore, A, P), idle_ms=0)
    assert await stays(redis, semaphore.key, LEASE + IDLE)


TOUCHES: dict[str, Callable[[Either], Awaitable[Any]]] = {
    "granted again": acquire,
    "busy": lambda semaphore: acquire(semaphore, False),
    "renewed": lambda semaphore: semaphore.renew(mark(semaphore, A, P), idle_ms=IDLE),
    "extended": lambda semaphore: semaphore.set_lease(mark(semaphore, A, P), LEASE, idle_ms=IDLE),
}


@pytest.mark.parametrize("touch", TOUCHES.values(), ids=TOUCHES)
async def test_each_use_begins_it_anew(
    semaphore: Either, redis: Redis, touch: Callable[[Either], Awaitable[Any]]
) -> None:
    await acquire(semaphore)
    for key in {semaphore.key, semaphore.permits, semaphore.side}:
        await redis.pexpire(key, LATE)
    await touch(semaphore)
    for key in {semaphore.key, semaphore.permits, semaphore.side}:
        assert await stays(redis, key, LEASE + IDLE)


async def test_an_extension_counts_from_the_new_end(semaphore: Either, redis: Redis) -> None:
    await acquire(semaphore)
    assert await semaphore.set_lease(mark(semaphore, A, P), LONG, idle_ms=IDLE) == 1
    for key in {semaphore.key, semaphore.permits, semaphore.side}:
        assert await stays(redis, key, LONG + IDLE)


async def test_what_was_to_stay_longer_does(semaphore: Either, redis: Redis) -> None:
    await acquire(semaphore, idle_ms=3 * IDLE)
    await acquire(semaphore, False)
    assert await stays(redis, semaphore.key, LEASE + 3 * IDLE)


async def test_after_the_last_release_it_stays_at_least_so_long(
    semaphore: Either, redis: Redis
) -> None:
    await acquire(semaphore)
    assert await semaphore.release(mark(semaphore, A, P)) == 1
    assert IDLE <= await redis.pttl(semaphore.key) <= LEASE + IDLE
    assert await redis.exists(semaphore.permits, semaphore.side) == 0


async def test_a_permit_that_never_ends_keeps_it_for_ever(scripts: Scripts, redis: Redis) -> None:
    semaphore = ExpirableScripts(scripts)
    await acquire(semaphore, start_units=3)
    await ask(redis, "ZADD", semaphore.permits, NEVER, b"j" * 16)
    await acquire(semaphore, False)
    assert await redis.pttl(semaphore.key) == await redis.pttl(semaphore.permits) == -1
    await redis.delete(semaphore.key, semaphore.permits)


async def test_a_lease_that_is_set_by_its_id_counts_too(scripts: Scripts, redis: Redis) -> None:
    semaphore = ExpirableScripts(scripts)
    await acquire(semaphore)
    assert await semaphore.update_lease(P, LONG, idle_ms=IDLE) == 1
    assert await stays(redis, semaphore.key, LONG + IDLE)
    assert await stays(redis, semaphore.permits, LONG + IDLE)
    await redis.delete(semaphore.key, semaphore.permits)


async def test_one_that_is_set_expires_too(semaphore: Either, redis: Redis) -> None:
    assert await semaphore.set(3, life_ms=IDLE) == 1
    assert await stays(redis, semaphore.key, IDLE)
    assert await acquire(semaphore) is None
    assert await stays(redis, semaphore.key, LEASE + IDLE)


class TestTokens:
    """The counter of a fenced lock."""

    async def test_it_stays_idle_longer_than_the_lease(
        self, fenced: LockScripts, redis: Redis
    ) -> None:
        code, first = await fenced.acquire_fenced(idle_ms=IDLE)
        assert code == 1
        assert await stays(redis, fenced.token_key, LEASE + IDLE)
        await redis.pexpire(fenced.token_key, LATE)
        # A repetition reads it, and a re-entry relies on it for as long as the hold lasts.
        assert await fenced.acquire_fenced(idle_ms=IDLE) == [1, first]
        assert await stays(redis, fenced.token_key, LEASE + IDLE)
        assert await fenced.acquire_fenced(A, 2, LONG, idle_ms=IDLE) == [1, 0]
        assert await stays(redis, fenced.token_key, LONG + IDLE)

    async def test_a_re_entry_with_a_short_lease_cuts_nothing(
        self, fenced: LockScripts, redis: Redis
    ) -> None:
        await fenced.acquire_fenced(A, 1, LONG, idle_ms=IDLE)
        await fenced.acquire_fenced(A, 2, LEASE, idle_ms=IDLE)
        assert await stays(redis, fenced.token_key, LONG + IDLE)

    async def test_a_holder_without_it_keeps_it_for_ever(
        self, fenced: LockScripts, redis: Redis
    ) -> None:
        await fenced.acquire_fenced(idle_ms=IDLE)
        await fenced.release(A)
        await fenced.acquire_fenced(B)
        assert await redis.pttl(fenced.token_key) == -1

    async def test_a_busy_lock_changes_nothing(self, fenced: LockScripts, redis: Redis) -> None:
        await fenced.acquire_fenced(A)
        before = await everything(redis)
        assert (await fenced.acquire_fenced(B, idle_ms=IDLE))[0] == 0
        assert await everything(redis) == before

    async def test_a_renewal_renews_it(self, fenced: LockScripts, redis: Redis) -> None:
        await fenced.acquire_fenced(idle_ms=IDLE)
        await redis.pexpire(fenced.token_key, LATE)
        await redis.pexpire(fenced.key, LATE)
        for _ in range(2):
            assert await fenced.renew_fenced(idle_ms=IDLE) == 1
            assert await stays(redis, fenced.token_key, LEASE + IDLE)
            assert await stays(redis, fenced.key, LEASE)
        # It cuts neither.
        await redis.pexpire(fenced.key, LONG)
        assert await fenced.renew_fenced(idle_ms=IDLE) == 1
        assert await stays(redis, fenced.token_key, LONG + IDLE)
        assert await stays(redis, fenced.key, LONG)

    @pytest.mark.parametrize("text", [None, "mine"])
    async def test_another_owner_renews_nothing(
        self, fenced: LockScripts, redis: Redis, text: str | None
    ) -> None:
        await fenced.acquire_fenced(idle_ms=IDLE)
        await redis.pexpire(fenced.token_key, LATE)
        if text is not None:
            await redis.set(fenced.key, text, px=LEASE)
        assert await fenced.renew_fenced(B, idle_ms=IDLE) == 0
        assert await stays(redis, fenced.token_key, LATE)
        if text is None:
            assert await fenced.set_lease_fenced(B, idle_ms=IDLE) == 0
            assert await stays(redis, fenced.token_key, LATE)

    async def test_an_extension_counts_from_the_new_end(
        self, fenced: LockScripts, redis: Redis
    ) -> None:
        await fenced.acquire_fenced(idle_ms=IDLE)
        for lease_ms in (LONG, LEASE):
            for _ in range(2):
                assert await fenced.set_lease_fenced(A, lease_ms, idle_ms=IDLE) == 1
                assert await stays(redis, fenced.token_key, lease_ms + IDLE)
                assert await stays(redis, fenced.key, lease_ms)
