"""fair_lock.acquire: who gets it, who takes a place, who keeps it."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from tests.support.scripts.calls import LEASE, A, B, C, ask, everything
from tests.support.scripts.fair import WAIT, FairScripts, about

D = "client-d:1"


async def test_a_busy_acquire_is_queued_and_returns_the_remaining_lease(
    fair: FairScripts, redis: Redis
) -> None:
    await fair.acquire(A)
    for owner in (B, C):
        reply = await fair.acquire(owner)
        assert reply is not None
        assert LEASE - 20_000 < reply <= LEASE
    assert await fair.queued() == [B, C]
    assert await fair.moments() == {B: about(LEASE + WAIT), C: about(LEASE + 2 * WAIT)}
    assert await fair.alive() == {B: about(LEASE), C: about(LEASE)}
    # It outlives every moment in the queue, so that Redisson's rule may follow it.
    assert await redis.pttl(fair.waiters) >= LEASE + 2 * WAIT


async def test_a_lock_without_lease_is_busy_for_ever(fair: FairScripts, redis: Redis) -> None:
    await fair.acquire(A)
    await redis.persist(fair.key)
    assert await fair.acquire(B) == -1
    assert await fair.moments() == {B: about(WAIT + LEASE)}
    await fair.release(A)


async def test_asking_again_keeps_the_position_and_moves_the_own_moments_outward(
    fair: FairScripts,
) -> None:
    await fair.acquire(A)
    await fair.acquire(B)
    await fair.acquire(C)
    await fair.set_moment(B, 5)
    await fair.set_moment(B, 5, fair.waiters)
    await fair.acquire(B)
    assert await fair.queued() == [B, C]
    assert (await fair.moments())[B] == about(WAIT + LEASE)
    assert (await fair.alive())[B] == about(LEASE)


async def test_the_first_has_its_wait_from_the_end_of_a_long_lease(fair: FairScripts) -> None:
    await fair.acquire(A, lease_ms=10 * LEASE)
    await fair.acquire(B)
    assert await fair.moments() == {B: about(10 * LEASE + WAIT)}


async def test_asking_again_never_brings_the_own_moment_nearer(fair: FairScripts) -> None:
    await fair.acquire(A)
    await fair.acquire(B)
    await fair.set_moment(B, 10 * WAIT)
    await fair.acquire(B)
    assert await fair.moments() == {B: about(10 * WAIT)}


async def test_a_waiter_purged_by_redisson_is_queued_again_at_the_tail(
    fair: FairScripts, redis: Redis
) -> None:
    await fair.acquire(A)
    await fair.acquire(B)
    await fair.acquire(C)
    await ask(redis, "LPOP", fair.queue)
    await ask(redis, "ZREM", fair.timeouts, B)
    await fair.acquire(B)
    assert await fair.queued() == [C, B]
    assert (await fair.moments())[B] == about(LEASE + 3 * WAIT)


@pytest.mark.parametrize("which", ["queue", "waiters"])
async def test_a_waiter_that_lost_its_position_or_record_is_queued_once(
    fair: FairScripts, redis: Redis, which: str
) -> None:
    await fair.acquire(A)
    await fair.acquire(B)
    await fair.acquire(C)
    await redis.delete(getattr(fair, which))
    for owner in (B, C, B):
        await fair.acquire(owner)
    assert await fair.queued() == [B, C]
    assert (await fair.moments()).keys() == (await fair.alive()).keys() == {B, C}


async def test_what_is_recorded_of_others_outlasts_asking_again(
    fair: FairScripts, redis: Redis
) -> None:
    await fair.acquire(A)
    for owner in (B, C, D):
        await fair.acquire(owner)
    await fair.acquire(B)
    assert await redis.pttl(fair.waiters) >= LEASE + 3 * WAIT


async def test_a_waiter_that_lost_only_its_timeout_keeps_its_position(
    fair: FairScripts, redis: Redis
) -> None:
    await fair.acquire(A)
    await fair.acquire(B)
    await fair.acquire(C)
    await redis.delete(fair.timeouts)
    await fair.acquire(B)
    assert await fair.queued() == [B, C]
    assert await fair.moments() == {B: about(WAIT + LEASE)}


async def test_re_entry_into_a_hold_that_is_gone_is_lost_and_takes_no_position(
    fair: FairScripts, redis: Redis
) -> None:
    assert await fair.acquire(A, 2) == -2
    await fair.acquire(B)
    assert await fair.acquire(A, 2) == -2
    assert list(await everything(redis)) == [fair.key]


@pytest.mark.parametrize("score", ["inf", "1e300", "-inf", "1.5"])
async def test_scores_that_nobody_should_have_written_do_no_harm(
    fair: FairScripts, redis: Redis, score: str
) -> None:
    await fair.acquire(A)
    await fair.java_tries(B)
    await ask(redis, "ZADD", fair.timeouts, score, B)
    await fair.acquire(C)
    await fair.acquire(C)
    assert await fair.queued() == [B, C]
    await fair.release(A)
    reply = await fair.acquire(C)
    assert reply is None or reply > 0
