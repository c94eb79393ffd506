"""RateLimiter: what it admits, when it says so, and what waiting for it costs."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio
import redis as redis_py
from redis.asyncio import Redis

from redisson_py import (
    AcquireTimeoutError,
    Admission,
    ClientClosedError,
    RateLimit,
    RateLimiter,
    Redisson,
    ScriptError,
)
from redisson_py._keys import rate_channel
from tests.fixtures.client import ClientFactory
from tests.support.counting import Counted
from tests.support.monitor import Monitor, words
from tests.support.streams import answered
from tests.support.waiting import until, until_listening, until_waiting

#: Seconds: nothing comes back while a test runs.
LONG = 600.0
#: Seconds: the moment of an admission is rounded up to a millisecond.
ROUNDED = 0.001


@pytest_asyncio.fixture(autouse=True)
async def _removed(redis: Redis) -> AsyncIterator[None]:
    """A limiter stays until it is deleted, as Redisson's does."""
    yield
    await redis.flushdb()


def limiter_of(client: Redisson, rate: int | None = 3, per: float = LONG) -> RateLimiter:
    """Return the limiter of the tests."""
    return client.get_rate_limiter("k", rate, per)


def start(limiter: RateLimiter, n: int = 1, **options: Any) -> asyncio.Task[Admission]:
    """Begin to acquire."""
    return asyncio.create_task(limiter.acquire(n, **options))


class TestAdmitting:
    async def test_as_many_as_the_rate_and_then_says_when_to_retry(self, client: Redisson) -> None:
        limiter = limiter_of(client)
        assert [await limiter.try_acquire() for _ in range(3)] == [
            Admission(allowed=True, retry_after=0.0, available=left) for left in (2, 1, 0)
        ]
        refused = await limiter.try_acquire()
        assert not refused
        assert (refused.allowed, refused.available) == (False, 0)
        assert LONG - 60 < refused.retry_after <= LONG + ROUNDED
        assert await limiter.available() == 0

    async def test_all_units_or_none(self, client: Redisson) -> None:
        limiter = limiter_of(client)
        assert await limiter.acquire(2)
        assert not await limiter.try_acquire(2)
        assert await limiter.available() == 1
        assert await limiter.try_acquire(1)

    async def test_the_moment_named_is_that_of_the_last_unit_needed(
        self, client: Redisson, redis: Redis
    ) -> None:
        limiter = limiter_of(client)
        for _ in range(3):
            await limiter.acquire()
        key = "{k}:permits"
        members: Any = await redis.zrange(key, 0, -1)
        for member, age in zip(members, (300, 200, 100), strict=True):
            await redis.zincrby(key, -age * 1000, member)
        for n, at in ((1, 300), (2, 400), (3, 500)):
            refused = await limiter.try_acquire(n)
            assert at - 60 < refused.retry_after <= at + ROUNDED

    async def test_one_set_of_units_for_all_clients(self, clients: ClientFactory) -> None:
        first, second = (limiter_of(clients()) for _ in range(2))
        await first.acquire(3)
        assert not await second.try_acquire()

    async def test_units_come_back_after_the_interval(self, client: Redisson) -> None:
        limiter = limiter_of(client, 2, 0.05)
        await limiter.acquire(2)
        assert await limiter.acquire(2, timeout=30)

    async def test_a_block_takes_a_unit_and_gives_nothing_back(self, client: Redisson) -> None:
        limiter = limiter_of(client)
        async with limiter as entered:
            assert entered is limiter
            assert await limiter.available() == 2
        assert await limiter.available() == 2

    async def test_a_decorated_function_takes_a_unit_a_call(self, client: Redisson) -> None:
        limiter = limiter_of(client)

        @limiter
        async def double(number: int) -> int:
            """Double it."""
            return 2 * number

        assert double.__doc__ == "Double it."
        assert [await double(each) for each in (1, 2)] == [2, 4]
        assert await limiter.available() == 1

    async def test_a_name_with_fields_is_filled_for_each_call(self, client: Redisson) -> None:
        @client.get_rate_limiter("of:{user}", 2, LONG)
        async def greet(user: str) -> str:
            return user

        for user in ("anna", "anna", "ben"):
            await greet(user)
        left = [await client.get_rate_limiter(f"of:{each}").available() for each in ("anna", "ben")]
        assert left == [0, 1]

    async def test_only_async_functions_are_decorated(self, client: Redisson) -> None:
        with pytest.raises(TypeError, match="async def"):
            limiter_of(client)(len)  # type: ignore[arg-type]


class TestRates:
    async def test_none_at_all(self, client: Redisson, redis: Redis) -> None:
        limiter = limiter_of(client, None)
        assert await limiter.rate() is None
        for call in (limiter.acquire, limiter.try_acquire, limiter.available):
            with pytest.raises(ScriptError, match=r"not initialized.* try_set_rate"):
                await call()
        assert await redis.keys("*") == []

    async def test_the_first_use_sets_it(self, client: Redisson) -> None:
        assert await limiter_of(client, 3, 5).rate() == RateLimit(3, 5.0, per_client=False)
        assert await limiter_of(client, None).available() == 3

    async def test_try_set_rate_sets_it_once(self, client: Redisson) -> None:
        limiter = limiter_of(client, None)
        assert await limiter.try_set_rate(5, timedelta(minutes=1))
        assert not await limiter.try_set_rate(6)
        assert await limiter.rate() == RateLimit(5, 60.0, per_client=False)

    async def test_set_rate_begins_anew(self, client: Redisson) -> None:
        limiter = limiter_of(client)
        await limiter.acquire(3)
        await limiter.set_rate(2, 60)
        assert await limiter.rate() == RateLimit(2, 60.0, per_client=False)
        assert await limiter.available() == 2

    async def test_another_rate_is_warned_of_once(
        self, client: Redisson, caplog: pytest.LogCaptureFixture
    ) -> None:
        await limiter_of(client).acquire()
        with caplog.at_level(logging.WARNING, "redisson_py"):
            for _ in range(3):
                await limiter_of(client, 7, 1).try_acquire()
        (record,) = caplog.records
        assert re.search("a rate of 3 per 600 s, not of 7 per 1 s.* set_rate", record.getMessage())

    async def test_after_set_rate_nothing_is_warned_of(
        self, client: Redisson, caplog: pytest.LogCaptureFixture
    ) -> None:
        limiter = limiter_of(client)
        await limiter.set_rate(7, 1)
        await limiter.acquire()
        assert not caplog.records

    async def test_more_than_the_rate_is_refused_before_any_wait(self, client: Redisson) -> None:
        limiter = limiter_of(client)
        await limiter.acquire(3)
        for call in (limiter.acquire, limiter.try_acquire):
            with pytest.raises(ValueError, match=r"at most the rate.*which is 3, not 4"):
                await call(4)

    async def test_more_than_the_rate_does_not_wait_behind_others(self, client: Redisson) -> None:
        limiter = limiter_of(client)
        await limiter.acquire(3)
        waiting = start(limiter, 3)
        await until_listening(client)
        for options in ({}, {"timeout": LONG}):
            with pytest.raises(ValueError, match=r"which is 3, not 4"):
                await asyncio.wait_for(limiter.acquire(4, **options), 30)
        assert not waiting.done()
        waiting.cancel()
        await asyncio.wait([waiting])

    async def test_those_behind_hear_with_the_first_answer_that_they_are_too_many(
        self, client: Redisson
    ) -> None:
        await limiter_of(client).acquire(3)
        limiter = client.get_rate_limiter("k")
        await answered(client)
        head, behind = start(limiter, 3), start(limiter, 4)
        with pytest.raises(ValueError, match=r"which is 3, not 4"):
            await asyncio.wait_for(behind, 30)
        assert not head.done()
        head.cancel()
        await asyncio.wait([head])

    async def test_a_rate_that_was_raised_is_asked_for_before_the_wait(
        self, client: Redisson, redis: Redis
    ) -> None:
        """Redisson announces no rate."""
        limiter = limiter_of(client)
        await limiter.acquire(3)
        waiting = start(limiter, 3)
        await until_listening(client)
        await redis.hset("k", "rate", "5")
        big = start(limiter, 5)
        await until_waiting(client, 2)
        # And those that fit no more are told when somebody hears of it.
        await redis.hset("k", "rate", "4")
        await limiter.available()
        with pytest.raises(ValueError, match=r"which is 4, not 5"):
            await asyncio.wait_for(big, 30)
        waiting.cancel()
        await asyncio.wait([waiting])

    async def test_delete(self, client: Redisson, redis: Redis) -> None:
        limiter = limiter_of(client)
        assert not await limiter.delete()
        await limiter.acquire()
        assert await limiter.delete()
        assert [key for key in await redis.keys("*") if b"receipt" not in key] == []
        assert await limiter.available() == 3

    async def test_each_client_has_its_own(self, clients: ClientFactory, redis: Redis) -> None:
        made = [clients(), clients()]
        first, second = (client.get_rate_limiter("k", 3, LONG, per_client=True) for client in made)
        await first.acquire(3)
        assert not await first.try_acquire()
        assert await second.try_acquire()
        assert await first.rate() == RateLimit(3, LONG, per_client=True)
        own = {
            key for each in made for key in (f"{{k}}:value:{each.id}", f"{{k}}:permits:{each.id}")
        }
        found: list[Any] = await redis.keys("*")
        assert {key.decode() for key in found} == own | {"k"}
        # What a client that has gone leaves ends by itself.
        assert all([await redis.pttl(key) > LONG * 1000 for key in own])

    async def test_a_client_that_was_opened_again_resets_what_it_has_now(
        self, clients: ClientFactory
    ) -> None:
        client = clients()
        async with client:
            set_later, deleted_later = (
                client.get_rate_limiter("k", 3, LONG, per_client=True) for _ in range(2)
            )
        async with client:
            used = client.get_rate_limiter("k", 3, LONG, per_client=True)
            await used.acquire(3)
            await set_later.set_rate(3, LONG)
            assert await used.available() == 3
            await used.acquire(3)
            assert await deleted_later.delete()
            assert await used.available() == 3


class TestInputs:
    @pytest.mark.parametrize(
        ("make", "error"),
        [
            (lambda c: c.get_rate_limiter("k", 0), ValueError),
            (lambda c: c.get_rate_limiter("k", -1), ValueError),
            (lambda c: c.get_rate_limiter("k", 1.5), TypeError),
            (lambda c: c.get_rate_limiter("k", True), TypeError),
            (lambda c: c.get_rate_limiter("k", 1, 0), ValueError),
            (lambda c: c.get_rate_limiter("k", 1, 0.0001), ValueError),
            (lambda c: c.get_rate_limiter("k", 1, float("nan")), ValueError),
            (lambda c: c.get_rate_limiter("k", 1, "1"), TypeError),
            (lambda c: c.get_rate_limiter("k", None, 0), ValueError),
            (lambda c: c.get_rate_limiter("k", 1, per_client=1), TypeError),
            (lambda c: c.get_rate_limiter("", 1), ValueError),
            (lambda c: c.get_rate_limiter(3, 1), TypeError),
        ],
    )
    async def test_of_the_limiter(
        self, client: Redisson, make: Callable[[Any], object], error: type[Exception]
    ) -> None:
        with pytest.raises(error):
            make(client)

    @pytest.mark.parametrize(
        ("call", "error"),
        [
            (lambda limiter: limiter.acquire(0), ValueError),
            (lambda limiter: limiter.acquire(1 << 32), ValueError),
            (lambda limiter: limiter.acquire(1.0), TypeError),
            (lambda limiter: limiter.acquire(True), TypeError),
            (lambda limiter: limiter.acquire(timeout=-1), ValueError),
            (lambda limiter: limiter.try_acquire(timeout=float("nan")), ValueError),
            (lambda limiter: limiter.set_rate(0), ValueError),
            (lambda limiter: limiter.set_rate(1, 0), ValueError),
            (lambda limiter: limiter.try_set_rate("1"), TypeError),
        ],
    )
    async def test_of_its_calls(
        self,
        client: Redisson,
        redis: Redis,
        call: Callable[[Any], Any],
        error: type[Exception],
    ) -> None:
        async with Counted(redis) as counted:
            with pytest.raises(error):
                await call(limiter_of(client))
        assert "evalsha" not in counted.calls

    @pytest.mark.parametrize(
        ("words", "advice"),
        [
            ({"blocking_timeout": 5}, "argument of acquire() and try_acquire()"),
            ({"ttl": 5}, "write per="),
            ({"limit": 5}, "write rate="),
            ({"blocking": False}, "returns an Admission"),
            ({"rates": 5}, "did you mean 'rate'?"),
            ({"on_lost": "raise"}, "Redisson.from_url(url, on_lost=...)"),
        ],
    )
    async def test_an_argument_of_another_library(
        self, client: Redisson, words: dict[str, Any], advice: str
    ) -> None:
        with pytest.raises(TypeError) as refused:
            client.get_rate_limiter("k", **words)
        assert "get_rate_limiter() has no argument" in str(refused.value)
        assert advice in str(refused.value)

    async def test_a_plain_with_is_refused(self, client: Redisson) -> None:
        with pytest.raises(TypeError, match="async with"), limiter_of(client):  # type: ignore[attr-defined]
            raise AssertionError


class TestWaiting:
    async def test_a_thousand_waiters_cost_a_command_a_grant(
        self, client: Redisson, redis: Redis
    ) -> None:
        limiter = limiter_of(client, 1, 0.002)
        await limiter.acquire()
        await answered(client)
        async with Counted(redis) as counted:
            await asyncio.gather(*(limiter.acquire() for _ in range(1000)))
        # A wait may end a moment early by the server's clock, and the first asks without one.
        assert counted.calls["evalsha"] <= 1000 + 20
        assert counted.calls.get("subscribe", 0) <= 2

    async def test_nobody_asks_while_nothing_can_have_changed(
        self, client: Redisson, redis: Redis, clients: ClientFactory
    ) -> None:
        """Beyond the interval after which waiters of a lock would look, in vain."""
        limiter = limiter_of(client, 1, 8.0)
        await limiter.acquire()
        async with Counted(redis) as counted:
            assert await limiter.acquire()
        # One that is refused, one to have heard what came before it listened, one that is admitted.
        assert counted.calls["evalsha"] <= 4

    async def test_many_that_fit_are_asked_for_at_once(
        self, client: Redisson, redis: Redis
    ) -> None:
        limiter = limiter_of(client, 5000)
        async with Counted(redis) as counted:
            await asyncio.gather(*(limiter.acquire() for _ in range(1000)))
        assert await limiter.available() == 4000
        assert counted.calls["evalsha"] < 40

    async def test_first_come_first_served(self, client: Redisson) -> None:
        limiter = limiter_of(client, 3, 0.02)
        order: list[int] = []

        async def take(number: int, n: int) -> None:
            await limiter.acquire(n)
            order.append(number)

        await asyncio.gather(*(take(number, number % 3 + 1) for number in range(100)))
        assert order == [*range(100)]

    async def test_a_try_does_not_overtake(self, client: Redisson) -> None:
        limiter = limiter_of(client)
        await limiter.acquire(1)
        waiting = start(limiter, 3)
        await until_listening(client)
        refused = await limiter.try_acquire(1)
        assert (refused.allowed, refused.available) == (False, 2)
        assert refused.retry_after > LONG - 60
        waiting.cancel()
        await asyncio.wait([waiting])
        assert await limiter.try_acquire(1)

    async def test_time_is_up(self, client: Redisson) -> None:
        limiter = limiter_of(client)
        await limiter.acquire(3)
        waiting = [start(limiter, timeout=0.05) for _ in range(3)]
        for each in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(each, AcquireTimeoutError)
            assert re.search(r"retry in \d+\.\d{3} s$", str(each))
        refused = await limiter.try_acquire(timeout=0.05)
        assert not refused
        assert refused.retry_after > LONG - 60
        assert client.statistics().timeouts == 4

    async def test_the_client_s_time_to_wait_is_the_default(self, clients: ClientFactory) -> None:
        limiter = limiter_of(clients(acquire_timeout=0.05))
        await limiter.acquire(3)
        with pytest.raises(AcquireTimeoutError):
            await limiter.acquire()
        with pytest.raises(AcquireTimeoutError):
            async with limiter:
                raise AssertionError

    @pytest.mark.parametrize("change", ["set_rate", "delete"])
    async def test_a_change_wakes_those_that_wait(
        self, change: str, client: Redisson, clients: ClientFactory
    ) -> None:
        limiter, others = limiter_of(client), limiter_of(clients())
        await limiter.acquire(3)
        waiting = [start(limiter) for _ in range(2)]
        await until_listening(client)
        await (others.set_rate(2, LONG) if change == "set_rate" else others.delete())
        assert all(await asyncio.wait_for(asyncio.gather(*waiting), 30))

    async def test_a_change_that_comes_with_the_answer_to_the_head_is_not_missed(
        self, client: Redisson, server_url: str
    ) -> None:
        """Both are read at once, before the next task listens, whose own moment is far."""
        limiter = limiter_of(client, 1)
        await limiter.acquire()
        waiting = [start(limiter) for _ in range(2)]
        await until_waiting(client, 2)
        await until_listening(client)
        with redis_py.Redis.from_url(server_url) as server:

            def change() -> None:
                # As `set_rate` of somebody else does it, while our event loop stands still.
                server.delete("{k}:value", "{k}:permits")
                server.publish(rate_channel(b"k"), "1")

            sent = client.statistics().commands_sent
            change()
            while not server.exists("{k}:permits"):
                await asyncio.sleep(0)
                checks = 2000 if client.statistics().commands_sent > sent else 0
                any(server.exists("{k}:permits") for _ in range(checks))
            change()
        assert all(await asyncio.wait_for(asyncio.gather(*waiting), 30))

    async def test_those_that_wait_hear_that_there_is_no_rate_any_more(
        self, client: Redisson, clients: ClientFactory
    ) -> None:
        await limiter_of(client).acquire(3)
        waiting = [start(limiter_of(client, None)) for _ in range(2)]
        await until_listening(client)
        await limiter_of(clients()).delete()
        for each in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(each, ScriptError)

    async def test_those_that_wait_hear_that_they_can_never_fit(
        self, client: Redisson, clients: ClientFactory
    ) -> None:
        limiter = limiter_of(client)
        await limiter.acquire(3)
        waiting = start(limiter, 3)
        await until_listening(client)
        await limiter_of(clients()).set_rate(2, LONG)
        with pytest.raises(ValueError, match="which is 2, not 3"):
            await waiting

    async def test_closing_the_client_ends_every_wait(self, clients: ClientFactory) -> None:
        client = clients()
        limiter = limiter_of(client)
        await limiter.acquire(3)
        waiting = [start(limiter) for _ in range(3)]
        await until_waiting(client, 3)
        await until_listening(client)
        await client.aclose()
        for each in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(each, ClientClosedError)

    async def test_two_clients_share_what_comes_back(
        self, client: Redisson, clients: ClientFactory, redis: Redis
    ) -> None:
        limiters = [limiter_of(each, 5, 0.02) for each in (client, clients())]
        async with Monitor(redis) as monitor:
            await asyncio.gather(*(each.acquire() for each in limiters for _ in range(100)))
            moments = admissions(await monitor.rows())
        assert len(moments) == 200
        assert_never_more(moments, 5, 20)


class TestLooking:
    async def test_a_snapshot(self, client: Redisson) -> None:
        limiter = limiter_of(client)
        await limiter.acquire(3)
        waiting = start(limiter)
        await until_listening(client)
        snapshot = await limiter.inspect()
        assert snapshot.limit == RateLimit(3, LONG, per_client=False)
        assert (snapshot.available, snapshot.waiters) == (0, 1)
        assert LONG - 60 < snapshot.retry_after <= LONG + ROUNDED
        assert snapshot.keys == ("k", "{k}:value", "{k}:permits")
        assert limiter.statistics().waiters == 1
        waiting.cancel()
        await asyncio.wait([waiting])

    async def test_looking_sets_nothing(self, client: Redisson, redis: Redis) -> None:
        snapshot = await limiter_of(client).inspect()
        assert (snapshot.limit, snapshot.available) == (None, 0)
        assert await redis.keys("*") == []

    async def test_a_closed_client_refuses(self, clients: ClientFactory) -> None:
        client = clients()
        limiter = limiter_of(client)
        await client.aclose()
        for call in (limiter.acquire, limiter.try_acquire, limiter.available, limiter.delete):
            with pytest.raises(ClientClosedError):
                await call()


class TestCancelling:
    async def test_the_head_that_leaves_lets_the_next_in(self, client: Redisson) -> None:
        limiter = limiter_of(client)
        await limiter.acquire(1)
        head, small = start(limiter, 3), start(limiter, 2)
        await until_listening(client)
        head.cancel()
        assert await asyncio.wait_for(small, 30)
        assert head.cancelled()
        assert await limiter.available() == 0

    async def test_one_that_waits_behind_others_takes_nothing(self, client: Redisson) -> None:
        limiter = limiter_of(client)
        await limiter.acquire(1)
        waiting = [start(limiter, n) for n in (3, 1, 1)]
        await until_listening(client)
        waiting[1].cancel()
        await until(waiting[1].done)
        waiting[0].cancel()
        await asyncio.wait_for(waiting[2], 30)
        assert await limiter.available() == 1


def admissions(rows: list[bytes]) -> list[int]:
    """Return the moments in a log of the server, in milliseconds, one for each unit."""
    return [
        int(float(command[2]))
        for command in map(words, rows)
        if command[0].upper() == "ZADD" and command[1].startswith("{k}:permits")
    ]


def assert_never_more(moments: list[int], rate: int, per_ms: int) -> None:
    """Fail if more than `rate` of these lie in any interval that ends before `per_ms`."""
    ordered = sorted(moments)
    for first, later in zip(ordered, ordered[rate:], strict=False):
        assert later - first >= per_ms


class TestIdleLimiters:
    async def test_it_ends_some_time_after_its_last_use(
        self, clients: ClientFactory, redis: Redis
    ) -> None:
        limiter = limiter_of(clients(idle_lifetime=3600), 3, 60)
        await limiter.available()
        assert 3_500_000 < await redis.pttl("k") <= 3_600_000
        await redis.pexpire("k", 100_000)
        await limiter.acquire()
        for key in ("k", "{k}:value", "{k}:permits"):
            assert 3_500_000 < await redis.pttl(key) <= 3_600_000
        await limiter.set_rate(3, 7200)
        # Not before its units come back.
        assert 7_100_000 < await redis.pttl("k") <= 7_200_000
        assert await redis.hget("k", "keepAliveTime") == b"7200000"
