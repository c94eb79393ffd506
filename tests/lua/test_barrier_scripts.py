"""barrier.wait, leave, abort, reset and inspect, each by itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from redisson_py._time import now
from tests.support.leases import assert_left
from tests.support.scripts.barrier import (
    BROKEN,
    OTHER_PARTIES,
    RELEASED,
    VOID,
    WAITING,
    BarrierScripts,
    Look,
    Reply,
)
from tests.support.scripts.calls import BAD_MS, LEASE, TOMBSTONE, Scripts, ask, everything


@pytest.fixture
def barrier(scripts: Scripts) -> BarrierScripts:
    """A barrier of three."""
    return BarrierScripts(scripts)


async def lasting(redis: Redis) -> set[bytes]:
    """Return the keys without an expiry."""
    return {key for key, (_, expires) in (await everything(redis)).items() if not expires}


class TestWait:
    async def test_the_last_to_come_lets_all_go(self, barrier: BarrierScripts) -> None:
        replies = await barrier.fill("a", "b", "c")
        assert [reply.state for reply in replies] == [WAITING, WAITING, RELEASED]
        assert [reply.position for reply in replies] == [0, 1, 2]
        assert len({reply.generation for reply in replies}) == 1
        generation = str(replies[0].generation)
        for position, owner in enumerate("abc"):
            seen = await barrier.wait(owner, generation)
            assert (seen.state, seen.position) == (RELEASED, position)

    async def test_nothing_lasts(self, barrier: BarrierScripts, redis: Redis) -> None:
        await barrier.fill("a", "b")
        assert await redis.exists(barrier.key, barrier.arrivals) == 2
        assert await lasting(redis) == set()
        await barrier.wait("c")
        assert await redis.exists(barrier.key, barrier.arrivals) == 0
        assert await lasting(redis) == set()

    async def test_generations_follow_each_other_and_all_remember_theirs(
        self, barrier: BarrierScripts
    ) -> None:
        rounds = [await barrier.fill(*(f"{n}{each}" for each in "abc")) for n in range(5)]
        names = [replies[0].generation for replies in rounds]
        assert names == sorted(names)
        for n, replies in enumerate(rounds):
            assert [reply.position for reply in replies] == [0, 1, 2]
            again = await barrier.wait(f"{n}a", str(replies[0].generation))
            assert again == Reply(RELEASED, 0, names[n], -1)

    async def test_a_barrier_of_one_lets_go_at_once(self, scripts: Scripts) -> None:
        barrier = BarrierScripts(scripts, parties=1)
        for owner in "ab":
            reply = await barrier.wait(owner)
            assert (reply.state, reply.position) == (RELEASED, 0)
            assert await barrier.wait(owner) == reply

    async def test_a_repeated_arrival_is_none(self, barrier: BarrierScripts) -> None:
        first = await barrier.wait("a")
        assert await barrier.wait("a") == first
        assert await barrier.wait("a") == first
        assert len((await barrier.look()).waiting) == 1
        await barrier.reset()

    async def test_the_last_arrival_repeated_is_none_of_the_next_generation(
        self, barrier: BarrierScripts
    ) -> None:
        *_, last = await barrier.fill("a", "b", "c")
        await barrier.wait("d")
        assert await barrier.wait("c") == last
        assert {*(await barrier.look()).waiting} == {"d"}
        await barrier.reset()

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
        assert TOMBSTONE - 5000 < await redis.pttl(barrier.arrival("a")) <= TOMBSTONE
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

    async def test_another_number_of_parties_is_told_and_changes_nothing(
        self, barrier: BarrierScripts, redis: Redis
    ) -> None:
        await barrier.wait("a")
        before = await everything(redis)
        reply = await barrier.wait("b", parties=2)
        assert (reply.state, reply.position) == (OTHER_PARTIES, 3)
        assert await everything(redis) == before
        await barrier.reset()
        assert (await barrier.wait("b", parties=1)).state == RELEASED

    async def test_a_dead_party_breaks_the_barrier_for_a_party_that_asks_again(
        self, barrier: BarrierScripts
    ) -> None:
        _, seen = await barrier.fill("a", "b")
        await barrier.die("a")
        assert (await barrier.wait("b", str(seen.generation))).state == BROKEN
        assert (await barrier.look()).broken
        await barrier.reset()

    async def test_a_dead_party_breaks_the_barrier_for_newcomers(
        self, barrier: BarrierScripts
    ) -> None:
        await barrier.fill("a", "b")
        await barrier.die("b")
        assert (await barrier.wait("c")).state == BROKEN
        assert (await barrier.wait("d")).state == BROKEN
        await barrier.reset()

    async def test_a_party_that_wakes_after_its_end_finds_it_broken(
        self, barrier: BarrierScripts
    ) -> None:
        first = await barrier.wait("a")
        await barrier.die("a")
        assert (await barrier.wait("a", str(first.generation))).state == BROKEN
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
        assert TOMBSTONE - 5000 < await redis.pttl(barrier.released) <= TOMBSTONE

    async def test_a_bad_generation_is_refused(self, barrier: BarrierScripts, redis: Redis) -> None:
        for generation in ("", "x", "-1", "1.5"):
            with pytest.raises(ResponseError, match="must be"):
                await barrier.wait("a", generation)
        assert await everything(redis) == {}

    async def test_bad_numbers_are_refused_before_anything_is_written(
        self, barrier: BarrierScripts, redis: Redis
    ) -> None:
        for bad in BAD_MS:
            for asked in (
                barrier.wait("a", parties=bad),
                barrier.wait("a", lease_ms=bad),
                barrier.wait("a", receipt_ms=bad),
                barrier.leave("a", receipt_ms=bad),
                barrier.abort(receipt_ms=bad),
                barrier.reset(receipt_ms=bad),
            ):
                with pytest.raises(ResponseError, match="must be"):
                    await asked
        assert await everything(redis) == {}

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
    async def test_a_party_that_leaves_breaks_it_for_the_others(
        self, barrier: BarrierScripts
    ) -> None:
        seen, _ = await barrier.fill("a", "b")
        assert await barrier.leave("b") == -1
        assert (await barrier.wait("a", str(seen.generation))).state == BROKEN
        assert (await barrier.wait("c")).state == BROKEN
        await barrier.reset()

    async def test_leaving_after_release_returns_the_position_and_breaks_nothing(
        self, barrier: BarrierScripts
    ) -> None:
        await barrier.fill("a", "b", "c", "d")
        assert [await barrier.leave(owner) for owner in "abc"] == [0, 1, 2]
        assert [await barrier.leave(owner) for owner in "abc"] == [0, 1, 2]
        seen = await barrier.look()
        assert (seen.broken, {*seen.waiting}) == (False, {"d"})
        await barrier.reset()

    async def test_an_arrival_after_its_leave_is_void(
        self, barrier: BarrierScripts, redis: Redis
    ) -> None:
        assert await barrier.leave("a") == -1
        assert (await barrier.wait("a")).state == VOID
        assert (await barrier.look()).waiting == {}
        assert 0 < await redis.pttl(barrier.arrival("a")) <= TOMBSTONE

    async def test_a_party_that_has_left_does_not_break_a_reset_barrier(
        self, barrier: BarrierScripts
    ) -> None:
        await barrier.wait("a")
        await barrier.leave("a")
        await barrier.reset()
        await barrier.wait("b")
        assert await barrier.leave("a") == -1
        assert (await barrier.wait("a")).state == VOID
        assert not (await barrier.look()).broken
        await barrier.reset()

    async def test_a_stranger_leaves_nothing(self, barrier: BarrierScripts) -> None:
        await barrier.wait("a")
        await barrier.leave("z")
        assert not (await barrier.look()).broken
        await barrier.reset()

    async def test_a_refused_party_leaves_nothing(self, barrier: BarrierScripts) -> None:
        await barrier.wait("a")
        await barrier.wait("b", parties=2)
        await barrier.leave("b")
        assert not (await barrier.look()).broken
        await barrier.reset()


class TestAbortAndReset:
    async def test_an_aborted_barrier_is_broken_until_reset(
        self, barrier: BarrierScripts, redis: Redis
    ) -> None:
        seen = await barrier.wait("a")
        assert [await barrier.abort(), await barrier.abort()] == [1, 0]
        assert (await barrier.wait("a", str(seen.generation))).state == BROKEN
        assert (await barrier.wait("b")).state == BROKEN
        assert await lasting(redis) == {barrier.key}
        assert [await barrier.reset(), await barrier.reset()] == [1, 0]
        assert (await barrier.fill("c", "d", "e"))[-1].state == RELEASED

    async def test_an_idle_barrier_can_be_aborted(self, barrier: BarrierScripts) -> None:
        await barrier.abort()
        assert await barrier.look() == Look(True, 0, 0, 0, {})
        await barrier.reset()
        assert await barrier.look() == Look(False, 0, 0, 0, {})

    async def test_reset_breaks_the_barrier_for_waiting_parties_only(
        self, barrier: BarrierScripts
    ) -> None:
        seen = await barrier.wait("a")
        await barrier.reset()
        assert (await barrier.wait("b")).position == 0
        assert (await barrier.wait("a", str(seen.generation))).state == BROKEN
        assert (await barrier.wait("a")).state == BROKEN
        assert {*(await barrier.look()).waiting} == {"b"}
        await barrier.reset()

    async def test_a_repeated_abort_spares_what_was_mended(self, barrier: BarrierScripts) -> None:
        assert await barrier.abort(calls=7) == 1
        await barrier.reset(calls=8)
        await barrier.wait("a")
        await barrier.abort(calls=7)
        assert not (await barrier.look()).broken
        await barrier.reset()

    async def test_a_repeated_reset_spares_parties_that_came_since(
        self, barrier: BarrierScripts
    ) -> None:
        await barrier.abort(calls=7)
        assert await barrier.reset(calls=8) == 1
        await barrier.wait("a")
        assert await barrier.reset(calls=8) == 1
        assert {*(await barrier.look()).waiting} == {"a"}
        await barrier.reset()


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

    async def test_a_death_nobody_has_noticed_has_broken_it(self, barrier: BarrierScripts) -> None:
        await barrier.fill("a", "b")
        await barrier.die("a")
        seen = await barrier.look()
        assert (seen.broken, seen.waiting) == (True, {})
        await barrier.reset()


VERBS: tuple[Callable[[BarrierScripts], Awaitable[object]], ...] = (
    lambda barrier: barrier.wait("a"),
    lambda barrier: barrier.leave("a"),
    lambda barrier: barrier.abort(),
    lambda barrier: barrier.reset(),
    lambda barrier: barrier.look(),
)


@pytest.mark.parametrize("which", ["key", "arrivals"])
async def test_what_is_no_barrier_is_an_error_and_stays(
    which: str, barrier: BarrierScripts, redis: Redis
) -> None:
    await redis.set(getattr(barrier, which), "mine", px=LEASE)
    before = await everything(redis)
    for verb in VERBS:
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            await verb(barrier)
        assert await everything(redis) == before
