"""Fencing tokens only grow, whatever becomes of the counter; what is shared with the plain
lock is in test_acquire_scripts.py."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from tests.support.scripts.calls import LEASE, A, B, ask, everything
from tests.support.scripts.lock import LockScripts

#: Where numbers in Lua stop being exact.
LIMIT = 2**53


async def server_time(redis: Redis) -> int:
    seconds, microseconds = await ask(redis, "TIME")
    return int(seconds) * 1_000_000 + int(microseconds)


async def granted(lock: LockScripts, owner: str = A, holds: int = 1, tokens: int = 4) -> int:
    code, first = await lock.acquire_fenced(owner, holds, tokens=tokens)
    assert code == 1
    return first


async def test_the_counter_is_left_at_the_end_of_the_range(
    fenced: LockScripts, redis: Redis
) -> None:
    first = await granted(fenced, tokens=64)
    assert await redis.get(fenced.token_key) == str(first + 63).encode()
    assert await redis.pttl(fenced.token_key) == -1
    assert await redis.incr(fenced.token_key) == first + 64


@pytest.mark.parametrize("tokens", [1, 2, 64])
async def test_a_repeated_acquire_returns_the_same_range(
    fenced: LockScripts, redis: Redis, tokens: int
) -> None:
    first = await granted(fenced, tokens=tokens)
    before = await everything(redis)
    assert await granted(fenced, tokens=tokens) == first
    assert await everything(redis) == before


async def test_re_entry_takes_no_token(fenced: LockScripts, redis: Redis) -> None:
    await granted(fenced)
    counter = await redis.get(fenced.token_key)
    assert await fenced.acquire_fenced(A, 2) == [1, 0]
    assert await fenced.acquire_fenced(A, 2) == [1, 0]
    assert await redis.get(fenced.token_key) == counter


async def test_ranges_of_different_holders_do_not_overlap(fenced: LockScripts) -> None:
    end = 0
    for owner in (A, B, A, B):
        first = await granted(fenced, owner, tokens=64)
        assert first > end
        end = first + 63
        await fenced.release(owner)


async def test_the_counter_outlives_release_and_forced_release(
    fenced: LockScripts, redis: Redis
) -> None:
    first = await granted(fenced)
    await fenced.release(A)
    assert await redis.get(fenced.token_key) == str(first + 3).encode()
    await fenced.acquire(B)
    counter = await redis.get(fenced.token_key)
    await fenced.force_release()
    assert await redis.get(fenced.token_key) == counter


async def test_a_counter_ahead_of_the_clock_is_gone_on_from(
    fenced: LockScripts, redis: Redis
) -> None:
    ahead = await server_time(redis) + 86_400_000_000
    await redis.set(fenced.token_key, ahead)
    assert await granted(fenced, tokens=64) == ahead + 1
    assert await redis.get(fenced.token_key) == str(ahead + 64).encode()


async def test_a_small_counter_of_redisson_is_skipped(fenced: LockScripts, redis: Redis) -> None:
    await redis.set(fenced.token_key, 17)
    before = await server_time(redis)
    assert await granted(fenced) >= before


@pytest.mark.parametrize("last", [1_800_000_000_000_001, 1_999_999_999_999_999, LIMIT - 200])
async def test_tokens_are_exact_and_written_in_digits(
    fenced: LockScripts, redis: Redis, last: int
) -> None:
    if last < await server_time(redis):
        last += await server_time(redis)
    await redis.set(fenced.token_key, last)
    for owner in (A, B, A):
        assert await granted(fenced, owner, tokens=3) == last + 1
        last += 3
        assert await redis.get(fenced.token_key) == str(last).encode()
        await fenced.release(owner)


async def test_a_corrupted_counter_is_an_error_and_nothing_is_granted(
    fenced: LockScripts, redis: Redis
) -> None:
    for counter in ("x", "", "inf", "-inf", "nan", "1.5", "1e300", "0x10"):
        await redis.set(fenced.token_key, counter)
        before = await everything(redis)
        with pytest.raises(ResponseError, match=r"must be|not a number"):
            await fenced.acquire_fenced(A)
        assert await everything(redis) == before


async def test_a_counter_beyond_exact_numbers_is_an_error(
    fenced: LockScripts, redis: Redis
) -> None:
    for last in (LIMIT - 3, LIMIT, LIMIT + 1, 2**63 - 1):
        await redis.set(fenced.token_key, last)
        before = await everything(redis)
        with pytest.raises(ResponseError, match=r"used up|not a number"):
            await fenced.acquire_fenced(A, tokens=4)
        assert await everything(redis) == before


async def test_a_refused_acquire_takes_no_token(fenced: LockScripts, redis: Redis) -> None:
    await granted(fenced)
    counter = await redis.get(fenced.token_key)
    code, left = await fenced.acquire_fenced(B)
    assert code == 0
    assert 0 <= left <= LEASE
    assert await fenced.acquire_fenced(B, 2) == [-2, 0]
    await fenced.undo(A)
    assert await fenced.acquire_fenced(A) == [-3, 0]
    assert await redis.get(fenced.token_key) == counter
