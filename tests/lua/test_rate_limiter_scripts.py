"""The scripts of a rate limiter: each by itself, run twice, undone, and beside Redisson's."""

from __future__ import annotations

import random
import secrets
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from redisson_py._redis.commands.rate_limiter import Limit
from tests.support.scripts.calls import Scripts, ask
from tests.support.scripts.rate_limiter import RateLimiterScripts

A, B, C = (bytes([each]) * 16 for each in b"abc")
MINUTE = 60_000


@pytest_asyncio.fixture(autouse=True)
async def _removed(redis: Redis) -> AsyncIterator[None]:
    """A limiter stays until it is deleted, as Redisson's does."""
    yield
    await redis.flushdb()


@pytest.fixture
def limiter(scripts: Scripts) -> RateLimiterScripts:
    """One rate limiter."""
    return RateLimiterScripts(scripts)


class Clock:
    """What scripts take for the time, in milliseconds that somebody says."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts
        self.ms = 1_700_000_000_000

    def set(self, micros: int = 0) -> None:
        # A microsecond passes with each look.
        self._scripts._moment = self.ms * 1000 + micros - 1


class TestAcquire:
    async def test_a_repetition_takes_nothing(self, limiter: RateLimiterScripts) -> None:
        await limiter.set()
        for _ in range(3):
            assert (await limiter.acquire((A, 2)))[3:] == [3, 0, 1]

    async def test_several_at_once_up_to_the_first_that_does_not_fit(
        self, limiter: RateLimiterScripts
    ) -> None:
        await limiter.set()
        reply = await limiter.acquire((A, 2), (B, 4), (C, 1))
        assert (reply[3], reply[5]) == (3, 1)
        # The moment of the admission was rounded up to a millisecond.
        assert 0 < reply[4] <= MINUTE * 1000 + 1000

    async def test_a_repetition_of_several_goes_on_where_it_was(
        self, limiter: RateLimiterScripts
    ) -> None:
        await limiter.set()
        await limiter.acquire((B, 2))
        assert (await limiter.acquire((A, 2), (B, 2), (C, 1)))[3:] == [0, 0, 3]

    async def test_a_look_takes_nothing(self, limiter: RateLimiterScripts, redis: Redis) -> None:
        await limiter.set()
        await limiter.acquire((A, 4))
        before = await limiter.state()
        assert (await limiter.acquire((B, 1), looks=1))[3:] == [1, 0, 1]
        refused = await limiter.acquire((B, 2), looks=1)
        assert refused[5] == 0
        assert refused[4] > 0
        assert await limiter.state() == before

    async def test_without_a_rate_nothing_happens(
        self, limiter: RateLimiterScripts, redis: Redis
    ) -> None:
        assert await limiter.acquire((A, 1)) == [0] * 6
        assert await redis.keys("*") == []

    async def test_a_first_rate(self, limiter: RateLimiterScripts) -> None:
        first = Limit(3, MINUTE, per_client=True)
        assert await limiter.acquire((A, 1), first=first) == [3, MINUTE, 1, 2, 0, 1]
        other = Limit(9, 1, per_client=False)
        assert await limiter.acquire((B, 1), first=other) == [3, MINUTE, 1, 1, 0, 1]

    async def test_a_rate_that_is_no_number(
        self, limiter: RateLimiterScripts, redis: Redis
    ) -> None:
        await limiter.set()
        await ask(redis, "HSET", limiter.key, "rate", "many")
        with pytest.raises(ResponseError, match="not a number"):
            await limiter.acquire((A, 1))

    async def test_admissions_that_vanished_give_their_units_back(
        self, limiter: RateLimiterScripts, redis: Redis
    ) -> None:
        """Redisson's script raises an error there, and forever."""
        await limiter.set()
        await limiter.acquire((A, 5))
        await redis.delete("{r}:permits")
        assert (await limiter.acquire((B, 2)))[3:] == [3, 0, 1]

    async def test_a_number_that_vanished_is_counted_again(
        self, limiter: RateLimiterScripts, redis: Redis
    ) -> None:
        """Redisson's script admits the whole rate once more."""
        await limiter.set()
        await limiter.acquire((A, 4))
        await redis.delete("{r}:value")
        assert (await limiter.acquire((B, 2)))[5] == 0
        assert (await limiter.acquire((B, 1)))[3:] == [0, 0, 1]

    async def test_a_moment_is_rounded_up(
        self, limiter: RateLimiterScripts, scripts: Scripts
    ) -> None:
        clock = Clock(scripts)
        await limiter.set(1, 10)
        clock.set(400)
        await limiter.acquire((A, 1))
        assert (await limiter.state())[1] == [(clock.ms + 1, 1)]
        clock.ms += 10
        clock.set(900)
        assert (await limiter.acquire((B, 1)))[4:] == [100, 0]
        clock.ms += 1
        clock.set()
        assert (await limiter.acquire((B, 1)))[5] == 1

    async def test_what_has_ended_is_admitted_again(
        self, limiter: RateLimiterScripts, scripts: Scripts
    ) -> None:
        """A repetition that comes so late is for a use that comes as late."""
        clock = Clock(scripts)
        await limiter.set(1, 10)
        for _ in range(2):
            clock.set()
            assert (await limiter.acquire((A, 1)))[3:] == [0, 0, 1]
            clock.ms += 10


class TestUndo:
    async def test_of_an_admission(self, limiter: RateLimiterScripts, redis: Redis) -> None:
        await limiter.set()
        await limiter.acquire((A, 2), (B, 1))
        assert [await limiter.undo(A, 2) for _ in range(2)] == [1, 0]
        assert (await limiter.acquire((C, 1), looks=1))[3] == 4
        assert await redis.pttl("{r}:redisson_py:undone") > 0

    async def test_what_comes_later_takes_nothing(self, limiter: RateLimiterScripts) -> None:
        await limiter.set()
        assert await limiter.undo(A, 2) == 0
        assert (await limiter.acquire((A, 2), (B, 2)))[3:] == [3, 0, 2]

    async def test_without_units_it_only_refuses_copies(self, limiter: RateLimiterScripts) -> None:
        await limiter.set()
        await limiter.acquire((A, 2))
        assert await limiter.undo(A, 0) == 0
        assert (await limiter.acquire((A, 2)))[3:] == [3, 0, 1]
        assert await limiter.set() == 1
        assert (await limiter.acquire((A, 2)))[3:] == [5, 0, 1]

    async def test_it_is_forgotten(self, limiter: RateLimiterScripts, redis: Redis) -> None:
        await limiter.set()
        await limiter.undo(A, 1, 1)
        await limiter.undo(B, 1)
        assert await redis.zrange("{r}:redisson_py:undone", 0, -1) in ([B], [A, B])

    async def test_of_a_client_s_own(self, limiter: RateLimiterScripts) -> None:
        await limiter.set(per_client=1)
        await limiter.acquire((A, 2))
        assert await limiter.undo(A, 2) == 1
        assert (await limiter.acquire((C, 1), looks=1))[3] == 5


class TestChanges:
    @pytest.mark.parametrize("replaces", [0, 1])
    async def test_set_repeated_sets_nothing(
        self, limiter: RateLimiterScripts, replaces: int
    ) -> None:
        assert await limiter.set(replaces=replaces, calls=7) == 1
        await limiter.set(9)
        for calls in (7, 6):
            assert await limiter.set(replaces=replaces, calls=calls) in (0, 1)
        assert (await limiter.acquire((A, 1), looks=1))[0] == 9

    async def test_another_type_leaves_nothing_of_the_first(
        self, limiter: RateLimiterScripts, redis: Redis
    ) -> None:
        await limiter.set()
        await limiter.acquire((A, 1))
        await limiter.set(per_client=1)
        assert {*await redis.keys("*")} == {b"r", b"{r}:redisson_py:receipt:a"}

    async def test_delete_repeated_spares_what_was_set_since(
        self, limiter: RateLimiterScripts
    ) -> None:
        await limiter.set()
        assert await limiter.delete(calls=7) == 1
        assert await limiter.delete(calls=7) == 1
        await limiter.set()
        # An older call than that: nobody waits for its answer.
        assert await limiter.delete(calls=7) == 0
        assert (await limiter.acquire((A, 1), looks=1))[0] == 5

    async def test_delete_spares_what_is_no_limiter(
        self, limiter: RateLimiterScripts, redis: Redis
    ) -> None:
        await redis.set("r", "of others", ex=60)
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            await limiter.delete()


@pytest.mark.parametrize("seed", range(5))
async def test_the_same_as_redisson_at_every_step(scripts: Scripts, seed: int) -> None:
    """Redisson's script and ours, asked the same at the same moments, write the same."""
    chance, clock = random.Random(seed), Clock(scripts)
    rate, interval = chance.randint(1, 8), chance.randint(2, 40)
    ours, java = RateLimiterScripts(scripts), RateLimiterScripts(scripts, b"j")
    for each in (ours, java):
        await each.set(rate, interval)
    admitted = 0
    for _ in range(300):
        clock.ms += chance.choice((0, 0, 1, 2, interval // 3, interval))
        if chance.random() < 0.05:
            for each in (ours, java):
                # Not so many that units are left where nothing is used: ours says there are more.
                await each.redisson_release(1)
        units = chance.randint(1, min(rate, 3))
        request_id = secrets.token_bytes(16)
        clock.set()
        reply = await ours.acquire((request_id, units))
        there = await java.redisson_acquire(clock.ms, request_id, units)
        assert (reply[5] == 1) == (there is None)
        if there is None:
            admitted += 1
        else:
            # Theirs is that of the oldest admission, and 3 ms more.
            assert reply[4] >= (there - 3) * 1000
        assert await ours.state() == await java.state()
    assert admitted > 20
