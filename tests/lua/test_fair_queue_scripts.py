"""Who of the queue is dead, who is not, and what neighbours of Redisson's make of it."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from tests.lua.test_golden_vectors import listening
from tests.support.scripts.calls import LEASE, A, B, C, ask
from tests.support.scripts.fair import SLACK, WAIT, FairScripts, about

D, E = "client-d:1", "client-e:1"


class TestDeadHeads:
    @pytest.mark.parametrize("left", [1, 777, LEASE])
    async def test_behind_a_head_one_learns_when_it_can_be_found_dead(
        self, fair: FairScripts, left: int
    ) -> None:
        await fair.acquire(A)
        await fair.acquire(B)
        await fair.acquire(C)
        await fair.release(A)
        await fair.set_moment(B, left + SLACK, fair.waiters)
        reply = await fair.acquire(C)
        assert reply is not None
        assert left <= reply <= left + SLACK

    async def test_a_busy_acquire_returns_when_the_waiter_ahead_may_be_found_dead(
        self, fair: FairScripts, redis: Redis
    ) -> None:
        await fair.acquire(A, lease_ms=10 * LEASE)
        for owner in (B, C, D):
            await fair.acquire(owner, alive_ms=20 * LEASE)
        # Only the first asks when the lease ends.
        assert await fair.acquire(B, alive_ms=20 * LEASE) == about(10 * LEASE)
        assert await fair.acquire(D, alive_ms=20 * LEASE) == about(20 * LEASE)
        await fair.set_moment(B, 1, fair.waiters)
        await fair.set_moment(C, 10_000, fair.waiters)
        assert await fair.acquire(D) == about(10_000)
        for left in (20_000, 5000):
            # The head would be found dead by the one before us.
            await fair.set_moment(B, left, fair.waiters)
            assert await fair.acquire(D) == about(10_000)
        # Of one that is dead nothing more can be found; there is the one before it.
        await fair.set_moment(B, 20_000, fair.waiters)
        await fair.die(C)
        assert await fair.acquire(D) == about(20_000)
        await redis.persist(fair.key)
        assert await fair.acquire(D) == about(20_000)
        await fair.die(B)
        assert await fair.acquire(D) == -1
        assert await fair.queued() == [B, C, D]
        await fair.release(A)

    async def test_who_waits_behind_one_of_redissons_asks_when_the_lease_ends(
        self, fair: FairScripts
    ) -> None:
        await fair.acquire(A, lease_ms=10 * LEASE)
        await fair.java_tries(B)
        assert await fair.acquire(C) == about(10 * LEASE)
        assert await fair.acquire(D) == about(LEASE), "until C may be found dead"
        await fair.release(A)
        await fair.redis.delete(fair.queue, fair.timeouts, fair.waiters)

    @pytest.mark.parametrize(("lease_ms", "messages"), [(LEASE // 4, [b"0"]), (LEASE // 2, [])])
    async def test_the_new_head_is_notified_of_a_lease_that_ends_before_it_would_ask(
        self, fair: FairScripts, redis: Redis, lease_ms: int, messages: list[bytes]
    ) -> None:
        await fair.acquire(A)
        for owner in (B, C, D):
            await fair.acquire(owner)
        await fair.release(A)
        async with (
            listening(redis, fair.channel_of(C)) as head,
            listening(redis, fair.channel_of(D)) as second,
        ):
            assert await fair.acquire(B, lease_ms=lease_ms) is None
            assert await head.heard() == messages
            assert await fair.acquire(C) == about(lease_ms)
            # And whoever becomes the head in its place, but not for every one who leaves.
            await fair.acquire(E)
            await fair.leave(E)
            assert await head.heard() == []
            await fair.leave(C)
            assert await second.heard() == messages
        await fair.release(B)

    async def test_while_it_is_free_only_the_death_of_the_head_helps(
        self, fair: FairScripts
    ) -> None:
        await fair.acquire(A)
        for owner in (B, C, D):
            await fair.acquire(owner)
        await fair.release(A)
        await fair.set_moment(C, 10_000, fair.waiters)
        assert await fair.acquire(D) == about(LEASE)

    async def test_a_head_that_nobody_keeps_a_moment_of_is_in_the_way_for_one_lease(
        self, fair: FairScripts, redis: Redis
    ) -> None:
        await ask(redis, "RPUSH", fair.queue, "somebody", "someone")
        assert await fair.acquire(A) == about(30_000)
        assert (await fair.moments())["somebody"] == about(30_000)
        await fair.set_moment("somebody", -1)
        assert await fair.acquire(A) == about(30_000)
        await fair.set_moment("someone", -1)
        assert await fair.acquire(A) is None
        assert await fair.queued() == []

    async def test_dead_waiters_are_found_after_the_liveness_record_expired(
        self, fair: FairScripts, redis: Redis
    ) -> None:
        await fair.acquire(A)
        for owner in (B, C, D):
            await fair.acquire(owner)
        moments = await fair.moments()
        # It lasts until every moment in the queue has passed.
        assert await redis.pttl(fair.waiters) > max(moments.values()) - SLACK
        await redis.delete(fair.waiters)
        for owner in moments:
            await fair.set_moment(owner, -1)
        await fair.release(A)
        assert await fair.acquire(E) is None
        assert await fair.queued() == []


class TestRedissonAsNeighbour:
    async def test_a_moment_that_has_passed_does_not_make_a_living_waiter_dead_to_us(
        self, fair: FairScripts
    ) -> None:
        await fair.acquire(A)
        await fair.acquire(B)
        await fair.set_moment(B, -1)
        await fair.release(A)
        assert await fair.try_once(C) == about(LEASE)
        assert await fair.acquire(B) is None

    async def test_an_acquire_of_redisson_does_not_make_a_living_waiter_stale(
        self, fair: FairScripts
    ) -> None:
        await fair.java_tries(A)
        await fair.java_tries(B)
        await fair.acquire(C, wait_ms=1000)
        await fair.set_moment(C, 10)
        await fair.acquire(C, wait_ms=1000)
        await fair.java_unlocks(A)
        await fair.java_tries(B)
        assert await fair.moments() == {C: about(LEASE)}
        await fair.java_unlocks(B)
        assert await fair.acquire(C, wait_ms=1000) is None

    async def test_our_acquires_make_no_stranger_stale(self, fair: FairScripts) -> None:
        await fair.acquire(A)
        await fair.acquire(B, wait_ms=3_600_000)
        await fair.java_tries(C, wait_ms=1000)
        await fair.acquire(D, wait_ms=1000)
        for owner in (C, D):
            await fair.set_moment(owner, WAIT + 2 * LEASE)
        await fair.release(A)
        assert await fair.acquire(B, wait_ms=3_600_000) is None
        # Redisson's has what a new waiter would, ours what one of Redisson's may take off too.
        assert await fair.moments() == {C: about(LEASE), D: about(LEASE + WAIT)}
        await fair.release(B)
        assert await fair.java_tries(C) is None

    async def test_leaving_does_not_make_other_waiters_stale(self, fair: FairScripts) -> None:
        await fair.acquire(A)
        await fair.acquire(B, wait_ms=3_600_000)
        await fair.java_tries(C, wait_ms=1000)
        await fair.acquire(D, wait_ms=1000)
        for owner in (C, D):
            await fair.set_moment(owner, WAIT + 2 * LEASE)
        await fair.leave(B, wait_ms=3_600_000)
        assert await fair.moments() == {C: about(LEASE), D: about(LEASE + WAIT)}

    @pytest.mark.parametrize("leaves", [False, True])
    async def test_nobodys_moment_is_moved_outward_by_others(
        self, fair: FairScripts, leaves: bool
    ) -> None:
        await fair.acquire(A)
        for owner in (B, C, D):
            await (fair.java_tries if owner == C else fair.acquire)(owner)
        for owner in (C, D):
            await fair.set_moment(owner, 5000)
        await fair.release(A)
        await (fair.leave if leaves else fair.acquire)(B)
        assert await fair.moments() == {C: about(5000), D: about(5000)}
