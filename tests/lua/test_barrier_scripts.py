"""barrier.wait, leave, abort, reset and inspect, each by itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from redisson_py._redis.scripts.source import load
from redisson_py._time import now
from tests.lua.test_golden_vectors import listening
from tests.support.leases import assert_left
from tests.support.scripts.barrier import (
    BROKEN,
    RELEASED,
    VOID,
    WAITING,
    BarrierScripts,
    Look,
    Reply,
)
from tests.support.scripts.calls import LEASE, TOMBSTONE, Scripts, ask, everything


class TestWait:
    async def test_looking_again_keeps_the_arrival_alive(self, barrier: BarrierScripts) -> None:
        began = now()
        first = await barrier.wait("a", lease_ms=10_000)
        assert (await barrier.look()).waiting["a"] <= 10_000
        await barrier.wait("a", str(first.generation))
        assert_left((await barrier.look()).waiting["a"] / 1000, LEASE / 1000, began)
        await barrier.reset()

    async def test_looking_again_keeps_what_the_owner_was_given(
        self, barrier: BarrierScripts, redis: Redis
    ) -> None:
        first = await barrier.wait("a", receipt_ms=5000)
        await barrier.wait("a", str(first.generation))
        assert TOMBSTONE - 20_000 < await redis.pttl(barrier.arrival("a")) <= TOMBSTONE
        await barrier.reset()

    async def test_a_waiting_party_learns_when_another_may_be_dead(
        self, barrier: BarrierScripts
    ) -> None:
        began = now()
        alone = await barrier.wait("a", lease_ms=10_000)
        assert alone.other_ms == -1
        second = await barrier.wait("b")
        assert_left(second.other_ms / 1000, 10, began)
        seen = await barrier.wait("a", lease_ms=10_000)
        assert 10_000 < seen.other_ms <= LEASE
        await barrier.reset()

    async def test_a_barrier_that_the_server_forgot_is_broken_for_waiters(
        self, barrier: BarrierScripts, redis: Redis
    ) -> None:
        """Never "released": nobody has seen all parties come."""
        seen = await barrier.wait("a")
        await redis.flushdb()
        assert (await barrier.wait("a", str(seen.generation))).state == BROKEN
        assert await everything(redis) == {}

    async def test_an_arrival_that_the_server_forgot_breaks_it(
        self, barrier: BarrierScripts, redis: Redis
    ) -> None:
        seen, other = await barrier.fill("a", "b")
        await redis.zrem(barrier.arrivals, "a")
        assert (await barrier.wait("a", str(seen.generation))).state == BROKEN
        assert (await barrier.wait("b", str(other.generation))).state == BROKEN
        await barrier.reset()

    async def test_arrivals_without_their_barrier_do_not_count(
        self, barrier: BarrierScripts, redis: Redis
    ) -> None:
        await barrier.fill("a", "b")
        await redis.delete(barrier.key)
        assert await barrier.look() == Look(False, 0, 0, 0, {})
        assert (await barrier.wait("c")).position == 0
        assert {*(await barrier.look()).waiting} == {"c"}
        await barrier.reset()

    async def test_a_generation_is_remembered_for_a_while_only(
        self, barrier: BarrierScripts, redis: Redis
    ) -> None:
        short = [await barrier.wait(owner, lease_ms=2500, receipt_ms=2500) for owner in "abc"]
        await barrier.fill("d", "e", "f")
        names = await ask(redis, "ZRANGE", barrier.released, 0, -1)
        assert b"%d" % short[0].generation in names
        await barrier.wait_for_server(2501)
        await barrier.fill("g", "h", "i")
        # The key itself lasts longer, for the second.
        names = await ask(redis, "ZRANGE", barrier.released, 0, -1)
        # Each generation with the owner that came last.
        assert len(names) == 4
        assert b"%d" % short[0].generation not in names
        assert TOMBSTONE - 20_000 < await redis.pttl(barrier.released) <= TOMBSTONE

    async def test_a_corrupted_barrier_is_an_error_and_stays(
        self, barrier: BarrierScripts, redis: Redis
    ) -> None:
        await barrier.wait("a")
        await ask(redis, "HSET", barrier.key, "parties", "x")
        before = await everything(redis)
        with pytest.raises(ResponseError, match="not a number"):
            await barrier.wait("b")
        assert await everything(redis) == before
        await barrier.reset()


class TestLeave:
    async def test_an_arrival_after_its_leave_is_void(
        self, barrier: BarrierScripts, redis: Redis
    ) -> None:
        assert await barrier.leave("a") == -1
        assert (await barrier.wait("a")).state == VOID
        assert (await barrier.look()).waiting == {}
        assert 0 < await redis.pttl(barrier.arrival("a")) <= TOMBSTONE


class TestInspect:
    async def test_it_lists_the_waiting_parties_and_writes_nothing(
        self, barrier: BarrierScripts, redis: Redis
    ) -> None:
        first, _ = await barrier.fill("a", "b")
        before = await everything(redis)
        seen = await barrier.look()
        assert (seen.broken, seen.generation, seen.parties) == (False, first.generation, 3)
        assert {*seen.waiting} == {"a", "b"}
        assert all(0 < left <= LEASE for left in seen.waiting.values())
        assert await everything(redis) == before
        await barrier.reset()


VERBS: tuple[Callable[[BarrierScripts], Awaitable[object]], ...] = (
    lambda barrier: barrier.wait("a"),
    lambda barrier: barrier.leave("a"),
    lambda barrier: barrier.abort(),
    lambda barrier: barrier.reset(),
    lambda barrier: barrier.look(),
)


async def test_a_party_with_a_shorter_lease_publishes_a_message(
    barrier: BarrierScripts, redis: Redis
) -> None:
    async with listening(redis, barrier.channel) as listener:
        await barrier.wait("a")
        await barrier.wait("b", lease_ms=LEASE - 1000)
        assert await listener.heard() == [b"0"]
        await barrier.wait("b", lease_ms=LEASE - 2000)
        await barrier.wait("a")
        assert await listener.heard() == []
        await barrier.reset()


async def test_every_message_is_for_all_and_says_nothing(
    barrier: BarrierScripts, redis: Redis
) -> None:
    async with listening(redis, b"redisson_py_barrier:{b}") as listener:
        seen, *_ = await barrier.fill("a", "b", "a")
        assert await listener.heard() == []
        await barrier.fill("c", "c")
        assert await listener.heard() == [b"0"]
        await barrier.wait("a", str(seen.generation))
        await barrier.leave("a")
        assert await listener.heard() == []
        await barrier.wait("d")
        await barrier.leave("d")
        await barrier.leave("d")
        assert await listener.heard() == [b"0"]
        await barrier.abort()
        await barrier.wait("e")
        assert await listener.heard() == []
        await barrier.reset(calls=50)
        await barrier.reset(calls=50)
        await barrier.reset(calls=51)
        assert await listener.heard() == [b"0"]
        await barrier.abort(calls=52)
        await barrier.abort(calls=52)
        await barrier.reset()
        assert await listener.heard() == [b"0", b"0"]


_TIME = "redis.call('TIME')"


class StoppedClock(BarrierScripts):
    """A barrier whose `wait` always sees the same moment; the server does all the rest."""

    moment = ""

    async def arrive(self, owner: str, generation: str = "0") -> Reply:
        """Arrive, or look again at a generation."""
        text = self.scripts.wording(load("barrier.wait")).text
        assert text.count(_TIME) == 1
        if not self.moment:
            seconds, microseconds = await ask(self.redis, "TIME")
            self.moment = f"{{'{int(seconds)}', '{int(microseconds)}'}}"
        keys = self.key, self.arrivals, self.released, self.arrival(owner)
        args = owner, self.parties, generation, LEASE, TOMBSTONE, self.channel
        text = text.replace(_TIME, self.moment)
        return Reply(*await ask(self.redis, "EVAL", text, len(keys), *keys, *args))


@pytest.mark.parametrize("rounds", [1, 3])
async def test_a_round_is_none_that_was_released(scripts: Scripts, rounds: int) -> None:
    barrier = StoppedClock(scripts)
    names = set[int]()
    for each in range(rounds):
        replies = [await barrier.arrive(f"{each}{party}") for party in "abc"]
        assert [reply.state for reply in replies] == [WAITING, WAITING, RELEASED]
        names |= {reply.generation for reply in replies}
    assert len(names) == rounds
    first = await barrier.arrive("d")
    # The repetition of an arrival whose reply was lost, and a look.
    assert (await barrier.arrive("d")).state == WAITING
    assert (await barrier.arrive("d", str(first.generation))).state == WAITING
    assert await barrier.leave("d") == -1
    assert (await barrier.look()).broken


async def test_released_parties_still_learn_it(scripts: Scripts) -> None:
    barrier = StoppedClock(scripts)
    replies = [await barrier.arrive(party) for party in "abcd"]
    for position, reply in enumerate(replies[:3]):
        seen = await barrier.arrive("abc"[position], str(reply.generation))
        assert (seen.state, seen.position) == (RELEASED, position)
