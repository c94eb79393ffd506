"""The scripts of a latch, each by itself, and beside Redisson's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from tests.lua.test_golden_vectors import Listener, listening
from tests.support.scripts.calls import TOMBSTONE, Scripts, everything
from tests.support.scripts.latch import LatchScripts
from tests.support.waiting import until_async

#: What Redisson's latch does to the key (section 14.2).
REDISSON_SET = """
if redis.call('exists', KEYS[1]) == 1 then return 0 end
redis.call('set', KEYS[1], ARGV[2])
redis.call('publish', ARGV[1], 1)
return 1
"""
REDISSON_COUNT_DOWN = """
local left = redis.call('decr', KEYS[1])
if left <= 0 then redis.call('del', KEYS[1]) end
if left == 0 then redis.call('publish', ARGV[1], 0) end
"""
REDISSON_DELETE = """
if redis.call('del', KEYS[1]) == 0 then return 0 end
redis.call('publish', ARGV[1], 1)
return 1
"""


class TestTrySetCount:
    @pytest.mark.parametrize("was_set", [False, True])
    async def test_a_repetition_answers_the_same_and_sets_nothing(
        self, latch: LatchScripts, was_set: bool
    ) -> None:
        if was_set:
            await latch.set(1, caller="b")
        first = await latch.set(3, calls=7)
        await latch.delete(caller="b")
        assert await latch.set(3, calls=7) == first == (not was_set)
        assert await latch.value() is None

    async def test_an_older_call_that_comes_late_sets_nothing(self, latch: LatchScripts) -> None:
        await latch.set(3, calls=7)
        await latch.delete(calls=8)
        assert await latch.set(3, calls=7) == 0
        assert await latch.value() is None


class TestEnd:
    async def test_it_is_set_with_the_count_and_not_moved_by_what_follows(
        self, latch: LatchScripts, redis: Redis
    ) -> None:
        assert await latch.set(3, expire_ms=TOMBSTONE, calls=7) == 1
        await redis.pexpire(latch.key, TOMBSTONE // 2)
        assert await latch.set(3, expire_ms=TOMBSTONE, calls=7) == 1, "a repetition"
        assert await latch.set(5, expire_ms=TOMBSTONE, caller="b") == 0
        assert await latch.set(5, caller="c") == 0
        assert await latch.down(caller="d") == 2
        assert 0 < await redis.pttl(latch.key) <= TOMBSTONE // 2

    async def test_who_looks_learns_when_it_is(self, latch: LatchScripts) -> None:
        await latch.set(3, expire_ms=TOMBSTONE)
        left, ends = await latch.look()
        assert left == 3
        assert 0 < ends <= TOMBSTONE
        # Somebody with a first count finds it set.
        left, ends = await latch.look(2)
        assert left == 3
        assert 0 < ends <= TOMBSTONE
        assert await latch.down(3) == 0
        assert await latch.look() == 0

    async def test_then_it_is_unset_for_both_sides(self, latch: LatchScripts, redis: Redis) -> None:
        await latch.set(3, expire_ms=1)
        await until_async(lambda: _is_gone(redis, latch.key))
        assert await latch.look() == 0
        assert await latch.down() == 0
        assert await latch.eval(REDISSON_SET, 2) == 1
        assert await redis.pttl(latch.key) == -1
        await latch.delete()

    async def test_redisson_counts_it_down_and_the_end_stays(
        self, latch: LatchScripts, redis: Redis
    ) -> None:
        await latch.set(2, expire_ms=TOMBSTONE)
        assert await latch.eval(REDISSON_SET, 9) == 0
        await latch.eval(REDISSON_COUNT_DOWN)
        assert await latch.value() == b"1"
        assert 0 < await redis.pttl(latch.key) <= TOMBSTONE
        await latch.eval(REDISSON_COUNT_DOWN)
        assert await latch.value() is None

    @pytest.mark.parametrize("wrong", ["-1", "1.5", "x", "", str(2**60)])
    async def test_what_is_no_time_changes_nothing(
        self, latch: LatchScripts, redis: Redis, wrong: str
    ) -> None:
        with pytest.raises(ResponseError, match="must be whole numbers"):
            await latch.set(2, expire_ms=wrong)
        assert await everything(redis) == {}


async def _is_gone(redis: Redis, key: bytes) -> bool:
    return not await redis.exists(key)


class TestCountDown:
    async def test_an_expiry_that_somebody_gave_the_count_is_kept(
        self, latch: LatchScripts, redis: Redis
    ) -> None:
        await latch.set(2)
        await redis.pexpire(latch.key, TOMBSTONE)
        await latch.down()
        assert 0 < await redis.pttl(latch.key) <= TOMBSTONE

    async def test_a_repetition_gets_the_first_answer_and_counts_nothing(
        self, latch: LatchScripts
    ) -> None:
        await latch.set(5)
        assert await latch.down(2, calls=7) == 3
        assert await latch.down(caller="b") == 2
        assert await latch.down(2, calls=7) == 3
        assert await latch.value() == b"2"
        await latch.delete()

    async def test_an_older_call_that_comes_late_counts_nothing(self, latch: LatchScripts) -> None:
        await latch.set(5)
        await latch.down(calls=7)
        await latch.down(calls=8)
        assert await latch.down(calls=7) == 3
        assert await latch.value() == b"3"
        await latch.delete()

    async def test_a_repetition_does_not_open_the_next_round(self, latch: LatchScripts) -> None:
        await latch.set(1)
        assert await latch.down(calls=7) == 0
        await latch.set(1, caller="b")
        assert await latch.down(calls=7) == 0
        assert await latch.value() == b"1"
        await latch.delete(caller="b")

    async def test_callers_do_not_disturb_each_other(self, latch: LatchScripts) -> None:
        await latch.set(9)
        assert await latch.down(caller="b", calls=50) == 8
        assert await latch.down(caller="c", calls=1) == 7
        assert await latch.down(caller="b", calls=50) == 8
        assert await latch.value() == b"7"
        await latch.delete()

    async def test_once_only_for_all_calls_with_one_start(self, latch: LatchScripts) -> None:
        assert await latch.down(1, 1) == 0
        assert await latch.down(1, 5) == 0
        assert await latch.count(5) == 0
        assert await latch.value() is None
        assert await latch.down(1, 5, start="another") == 4
        await latch.delete()


class TestCount:
    async def test_it_reads_and_writes_nothing(self, latch: LatchScripts, redis: Redis) -> None:
        assert await latch.count() == 0
        assert await everything(redis) == {}
        await latch.set(3)
        before = await everything(redis)
        assert await latch.count() == 3
        assert await everything(redis) == before
        await latch.delete()

    async def test_what_redisson_would_call_open_is_reported_as_it_is(
        self, latch: LatchScripts, redis: Redis
    ) -> None:
        await redis.set(latch.key, "-2")
        assert await latch.count() == -2
        assert await latch.down() == 0
        assert await latch.value() is None


class TestDelete:
    @pytest.mark.parametrize("was_set", [False, True])
    async def test_a_repetition_answers_the_same_and_spares_the_next_round(
        self, latch: LatchScripts, was_set: bool
    ) -> None:
        if was_set:
            await latch.set(1, caller="b")
        first = await latch.delete(calls=7)
        await latch.set(4, caller="b")
        assert await latch.delete(calls=7) == first == was_set
        assert await latch.value() == b"4"
        await latch.delete(calls=8)


Use = Callable[[LatchScripts], Awaitable[int]]
USES: dict[str, Use] = {
    "try_set_count": lambda latch: latch.set(3),
    "count_down": lambda latch: latch.down(),
    "count": lambda latch: latch.count(),
    "count and set": lambda latch: latch.count(3),
    "delete": lambda latch: latch.delete(),
}


@pytest.mark.parametrize("use", [USES["count_down"], USES["count"], USES["count and set"]])
async def test_a_corrupted_count_is_an_error_and_stays(
    use: Use, latch: LatchScripts, redis: Redis
) -> None:
    for count in ("x", "", "2.5", "inf", "007", str(2**60)):
        await redis.set(latch.key, count, px=TOMBSTONE)
        before = await everything(redis)
        with pytest.raises(ResponseError, match="not a number"):
            await use(latch)
        assert await everything(redis) == before


async def messages(listener: Listener, calls: list[Awaitable[int]]) -> list[bytes]:
    for call in calls:
        await call
    return await listener.heard()


@pytest.mark.parametrize("name", [b"l", b"{t}l", b"a{b", b"a}b", b"\xff\x00"])
async def test_each_change_publishes_exactly_one_message(
    scripts: Scripts, redis: Redis, name: bytes
) -> None:
    """The channel has braces around the name whatever the name is: section 14.1."""
    latch = LatchScripts(scripts, name)
    async with listening(redis, b"redisson_countdownlatch__channel__{" + name + b"}") as listener:
        assert await messages(listener, [latch.set(3, calls=1), latch.set(3, calls=1)]) == [b"1"]
        assert await messages(listener, [latch.set(3), latch.count(3)]) == []
        assert await messages(listener, [latch.down(9, calls=20)]) == [b"0"]
        assert await messages(listener, [latch.down(9, calls=20)]) == []
        assert await messages(listener, [latch.down(1, 3, calls=21, start="b")]) == [b"1"]
        assert await messages(listener, [latch.down(2, calls=22)]) == [b"0"]
        assert await messages(listener, [latch.down(1, 1, calls=23, start="c")]) == [b"0"]
        assert await messages(listener, [latch.count(1, start="d")]) == [b"1"]
        assert await messages(listener, [latch.delete(calls=30)]) == [b"1"]
        assert await messages(listener, [latch.delete(calls=30), latch.delete(calls=31)]) == []


async def test_redisson_and_we_count_the_same_latch(scripts: Scripts, redis: Redis) -> None:
    latch = LatchScripts(scripts)
    async with listening(redis, latch.channel) as listener:
        assert await latch.eval(REDISSON_SET, 3) == 1
        assert await latch.set(5) == 0
        assert await latch.down() == 2
        await latch.eval(REDISSON_COUNT_DOWN)
        assert await latch.count() == 1
        assert await listener.heard() == [b"1"]
        assert await latch.down() == 0
        assert await listener.heard() == [b"0"]
        assert await latch.set(2) == 1
        assert await latch.eval(REDISSON_SET, 3) == 0
        assert await latch.down() == 1
        await latch.eval(REDISSON_COUNT_DOWN)
        assert await latch.count() == 0
        assert await listener.heard() == [b"1", b"0"]
        await latch.set(2)
        assert await latch.eval(REDISSON_DELETE) == 1
        assert await latch.delete() == 0
        assert await listener.heard() == [b"1", b"1"]
