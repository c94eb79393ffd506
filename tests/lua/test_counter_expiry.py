"""Redisson's addPermits and drainPermits drop the expiry of a counter: nothing taken is lost."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from redisson_py._redis.scripts.source import load
from tests.support.counting import Counted
from tests.support.scripts.calls import A, B, Scripts, ask
from tests.support.scripts.expirable import ExpirableScripts
from tests.support.scripts.permits import SemaphoreScripts
from tests.support.waiting import until_async

LIFE = 100_000
P, Q = b"p" * 16, b"q" * 16


@pytest_asyncio.fixture
async def plain(scripts: Scripts, redis: Redis) -> AsyncIterator[SemaphoreScripts]:
    """A semaphore of five with an expiry, one of them taken."""
    semaphore = SemaphoreScripts(scripts)
    await redis.set(semaphore.key, 5, px=LIFE)
    assert await semaphore.acquire(A) is None
    yield semaphore
    await redis.delete(semaphore.key, semaphore.permits, semaphore.counts)


@pytest_asyncio.fixture
async def permits(scripts: Scripts, redis: Redis) -> AsyncIterator[ExpirableScripts]:
    """The same, of permits with ids."""
    semaphore = ExpirableScripts(scripts)
    await redis.set(semaphore.key, 5, px=LIFE)
    assert await semaphore.acquire(P) is None
    yield semaphore
    await redis.delete(semaphore.key, semaphore.permits)


async def expiries(redis: Redis, *keys: bytes) -> list[bool]:
    """Return which of these keys have an expiry; fails for one that does not exist."""
    left = [await redis.pttl(key) for key in keys]
    assert -2 not in left
    return [ms >= 0 for ms in left]


async def redisson_adds(redis: Redis, key: bytes, units: int = 1) -> None:
    """Do what addPermits does: SET, without the expiry."""
    await redis.set(key, int(await ask(redis, "GET", key)) + units)


async def renew(semaphore: Any, field: Any, counts: bytes) -> int:
    """Renew one lease as a client that also says where counter and units are."""
    script_keys = [semaphore.permits, semaphore.key, counts]
    (renewed,) = await run_renew(semaphore.scripts, script_keys, [field])
    return int(renewed)


async def run_renew(scripts: Scripts, keys: list[bytes], fields: list[Any]) -> list[int]:
    script = load("permit.renew")
    text = scripts.wording(script).text
    reply: list[int] = await ask(scripts.redis, "EVAL", text, len(keys), *keys, 30_000, 0, *fields)
    return reply


PLAIN_TOUCHES: dict[str, Callable[[SemaphoreScripts], Awaitable[Any]]] = {
    "granted": lambda s: s.acquire(B),
    "granted again": lambda s: s.acquire(A),
    "busy": lambda s: s.acquire(B, 100),
    "available": lambda s: s.available(),
    "renewed": lambda s: renew(s, A, s.counts),
}
PERMIT_TOUCHES: dict[str, Callable[[ExpirableScripts], Awaitable[Any]]] = {
    "granted": lambda s: s.acquire(Q),
    "granted again": lambda s: s.acquire(P),
    "busy": lambda s: s.acquire(b"".join(bytes([n]) * 16 for n in range(100))),
    "available": lambda s: s.available(),
    "asked after": lambda s: s.lease_left(P),
    "lease set": lambda s: s.update_lease(P),
    "renewed": lambda s: renew(s, P, s.permits),
}


@pytest.mark.parametrize("touch", PLAIN_TOUCHES)
async def test_records_stay_as_long_as_the_counter_again(
    plain: SemaphoreScripts, redis: Redis, touch: str
) -> None:
    keys = (plain.key, plain.permits, plain.counts)
    assert await expiries(redis, *keys) == [True] * 3
    await redisson_adds(redis, plain.key)
    assert await expiries(redis, *keys) == [False, True, True]
    await PLAIN_TOUCHES[touch](plain)
    assert await expiries(redis, *keys) == [False] * 3


@pytest.mark.parametrize("touch", PLAIN_TOUCHES)
async def test_records_end_with_a_counter_that_got_an_expiry(
    plain: SemaphoreScripts, redis: Redis, touch: str
) -> None:
    keys = (plain.key, plain.permits, plain.counts)
    await redis.pexpire(plain.key, 10 * LIFE)
    await PLAIN_TOUCHES[touch](plain)
    for key in keys:
        assert 10 * LIFE - 20_000 < await redis.pttl(key) <= 10 * LIFE


@pytest.mark.parametrize("touch", PERMIT_TOUCHES)
async def test_ids_stay_as_long_as_the_counter_again(
    permits: ExpirableScripts, redis: Redis, touch: str
) -> None:
    keys = (permits.key, permits.permits)
    assert await expiries(redis, *keys) == [True] * 2
    await redisson_adds(redis, permits.key)
    assert await expiries(redis, *keys) == [False, True]
    await PERMIT_TOUCHES[touch](permits)
    assert await expiries(redis, *keys) == [False] * 2


@pytest.mark.more
async def test_what_a_dead_holder_had_comes_back_after_drain(
    plain: SemaphoreScripts, redis: Redis
) -> None:
    await redis.pexpire(plain.key, 3_000)
    await plain.acquire(B)
    # drainPermits: SET, without the expiry. Then a client asks, in time.
    await redis.set(plain.key, 0)
    assert await plain.acquire("client-c:1") is not None
    await redis.set("marker", "the old expiry has passed when this is gone", px=3_500)
    await until_async(lambda: gone(redis, "marker"))
    await plain.end(A, B)
    assert await plain.available() == 2


async def gone(redis: Redis, key: str) -> bool:
    return not await redis.exists(key)


async def test_nothing_is_given_back_to_another_semaphore_of_this_name(
    plain: SemaphoreScripts, redis: Redis
) -> None:
    await redis.pexpire(plain.key, 1_200)
    assert await plain.available() == 4
    await until_async(lambda: gone(redis, plain.key.decode()))
    assert await plain.set(5) == 1
    assert await plain.release(A) is None
    assert await plain.available() == 5


async def test_one_look_for_all_permits_of_a_semaphore(
    permits: ExpirableScripts, redis: Redis
) -> None:
    assert await permits.acquire(Q) is None
    pairs = [permits.permits] * 2 + [permits.key] * 2 + [permits.permits] * 2
    async with Counted(redis) as counted:
        assert await run_renew(permits.scripts, pairs, [P, Q]) == [1, 1]
    assert counted.calls["pttl"] == 2


async def test_a_field_has_one_key_or_three(permits: ExpirableScripts) -> None:
    with pytest.raises(ResponseError, match="each field has one key, or three"):
        await run_renew(permits.scripts, [permits.permits, permits.key], [P])


async def test_without_an_expiry_an_acquire_costs_no_more(scripts: Scripts, redis: Redis) -> None:
    semaphore = SemaphoreScripts(scripts)
    await semaphore.start(5)
    await semaphore.acquire(A)
    await semaphore.release(A)
    async with Counted(redis) as counted:
        await semaphore.acquire(A)
    commands = {"time": 1, "exists": 1, "incrby": 1, "zadd": 1, "hset": 1, "pttl": 1}
    assert counted.calls == {"evalsha": 1, **commands}
    await redis.delete(semaphore.key, semaphore.permits, semaphore.counts)
