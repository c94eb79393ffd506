"""lock.hand_over, fenced_lock.hand_over and lock.adopt: one owner follows the other, once."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from tests.support.scripts.calls import LEASE, TOMBSTONE, A, B, C, ask, everything
from tests.support.scripts.lock import LockScripts

LONG = 10 * LEASE


async def moment(redis: Redis) -> float:
    """Return the milliseconds of the server's epoch."""
    seconds, microseconds = await ask(redis, "TIME")
    return int(seconds) * 1000 + int(microseconds) / 1000


async def test_it_says_until_when_it_is_kept(lock: LockScripts, redis: Redis) -> None:
    await lock.acquire(A)
    before = await moment(redis)
    until = await lock.hand_over(A, LONG)
    assert before - 1 <= until - LONG <= await moment(redis)
    assert LONG - 20_000 < await lock.left() <= LONG
    assert await lock.holds() == {A: 1}


async def test_it_never_shortens(lock: LockScripts, redis: Redis) -> None:
    await lock.acquire(A, 1, LONG)
    before = await moment(redis)
    assert await lock.hand_over(A, 1000) > before + LONG - 20_000
    assert await lock.left() > LONG - 20_000
    assert LONG - 20_000 < await lock.adopt(B, lease_ms=1000) <= LONG
    assert await lock.left() > LONG - 20_000


async def test_a_stranger_hands_over_nothing(lock: LockScripts, redis: Redis) -> None:
    assert await lock.hand_over(A) == 0
    assert await everything(redis) == {}
    await lock.acquire(B)
    before = await everything(redis)
    assert await lock.hand_over(A, LONG) == 0
    assert await everything(redis) == before


async def test_the_adopter_has_it_once(lock: LockScripts, redis: Redis) -> None:
    await lock.acquire(A)
    await lock.acquire(A, 2)
    await lock.hand_over(A)
    for _ in range(2):
        assert LEASE - 20_000 < await lock.adopt(B) <= LEASE, "a repetition finds it"
        assert await lock.holds() == {B: 1}
    assert await lock.adopt(C) == -4
    assert await lock.release(A) is None, "the giver has nothing to release"
    assert await lock.renew(A) == 0
    assert await lock.holds() == {B: 1}
    assert await lock.release(B) == 1
    before = await everything(redis)
    assert await lock.adopt(C) == -4
    assert await lock.adopt(B) == -5, "what B had is over: nobody else was first"
    assert await everything(redis) == before


async def test_a_late_acquire_of_the_giver_is_refused(lock: LockScripts) -> None:
    await lock.acquire(A)
    await lock.hand_over(A)
    await lock.adopt(B)
    await lock.release(B)
    assert await lock.acquire(A) == -3, "the adoption leaves a tombstone"
    await lock.acquire(C)
    await lock.hand_over(C)
    assert await lock.acquire(C) is None, "it is still there: a repetition of the grant"
    await lock.redis.delete(lock.key)
    assert await lock.acquire(C) == -3, "its lease is over, and it was uncertain"


async def test_what_came_before_it_and_arrives_later(lock: LockScripts) -> None:
    await lock.acquire(A)
    assert await lock.hand_over(A, LONG, version=8, version_ms=TOMBSTONE) > 0
    assert await lock.set_lease(A, 1000, version=7) == 2
    assert await lock.hand_over(A, LONG, version=7) == -1
    assert await lock.hand_over(A, LONG, version=8) > 0, "a repetition"
    assert await lock.left() > LEASE


async def test_when_it_is_not_there(lock: LockScripts, redis: Redis) -> None:
    soon = round(await moment(redis)) + LEASE
    assert await lock.adopt(B, until_ms=soon) == -2, "it was freed before its end"
    assert await lock.adopt(B, until_ms=soon - 2 * LEASE) == -5
    await lock.acquire(C)
    assert await lock.adopt(B, until_ms=soon) == -2
    assert await lock.holds() == {C: 1}


async def test_who_does_not_know_the_secret_gets_nothing(lock: LockScripts, redis: Redis) -> None:
    soon = round(await moment(redis)) + LEASE
    await lock.acquire(A)
    assert await lock.adopt(B, until_ms=soon) == -2, "it was not handed over"
    await lock.hand_over(A, secret="one")
    await lock.hand_over(A, secret="two")
    for wrong in ("", "1", "one", A, B):
        assert await lock.adopt(B, secret=wrong, until_ms=soon) == -2
    assert await lock.holds() == {A: 1}
    assert await lock.adopt(B, secret="two", until_ms=soon) > 0
    for secret in ("two", A, B):
        assert await lock.adopt(C, secret=secret, until_ms=soon) in (-2, -4)
    assert await lock.holds() == {B: 1}


async def test_the_owner_goes_on_although_it_was_to_be_handed_over(lock: LockScripts) -> None:
    await lock.acquire(A)
    await lock.hand_over(A)
    assert await lock.acquire(A, 2) is None
    assert await lock.renew(A) == 1
    assert await lock.set_lease(A) == 1
    assert await lock.release(A, 1) == 0
    assert await lock.release(A) == 1


async def test_an_undo_that_came_first(lock: LockScripts) -> None:
    await lock.acquire(A)
    await lock.hand_over(A)
    await lock.undo(B)
    assert await lock.adopt(B) == -3
    assert await lock.holds() == {A: 1}, "another adopter may have it"
    assert await lock.adopt(C) > 0


@pytest.mark.parametrize("left", [None, 3])
async def test_the_counter_outlives_the_wait(
    fenced: LockScripts, redis: Redis, left: int | None
) -> None:
    await fenced.acquire_fenced(A, idle_ms=TOMBSTONE)
    if left is not None:
        await redis.pexpire(fenced.token_key, 1000 * left)
    assert await fenced.hand_over_fenced(A, LONG, idle_ms=TOMBSTONE) > 0
    assert LONG < await redis.pttl(fenced.token_key) <= LONG + TOMBSTONE


async def test_nothing_of_it_stays(lock: LockScripts, redis: Redis) -> None:
    await lock.acquire(A)
    await lock.hand_over(A, version=3, version_ms=TOMBSTONE)
    await lock.adopt(B)
    for key in await everything(redis):
        assert 0 < await redis.pttl(key) <= TOMBSTONE
