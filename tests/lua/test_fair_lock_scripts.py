"""fair_lock.release, force_release and inspect, each by itself."""

from __future__ import annotations

import itertools

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from tests.support.scripts.calls import LEASE, A, B, C, everything
from tests.support.scripts.fair import WAIT, FairScripts, about

D = "client-d:1"


class TestRelease:
    async def test_leaving_does_not_change_the_waiters_ahead(self, fair: FairScripts) -> None:
        await fair.acquire(A)
        for owner in (B, C, D):
            await fair.java_tries(owner)
        await fair.set_moment(B, 10 * WAIT)
        await fair.leave(C)
        assert (await fair.moments())[B] == about(10 * WAIT)

    async def test_leaving_removes_the_waiter_although_its_timeouts_were_lost(
        self, fair: FairScripts, redis: Redis
    ) -> None:
        await fair.acquire(A)
        await fair.acquire(B)
        await redis.delete(fair.timeouts, fair.waiters)
        await fair.leave(B)
        assert await fair.queued() == []

    @pytest.mark.parametrize("which", ["key", "queue", "timeouts", "waiters"])
    async def test_a_key_of_another_type_is_an_error_and_nothing_is_written(
        self, fair: FairScripts, redis: Redis, which: str
    ) -> None:
        if which != "key":
            await fair.acquire(A)
        await redis.set(getattr(fair, which), "mine", px=LEASE)
        before = await everything(redis)
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            await fair.leave(A)
        assert await everything(redis) == before

    @pytest.mark.parametrize("which", ["holds", "lease_ms", "wait_ms", "tombstone_ms"])
    async def test_a_bad_number_is_refused_before_anything_is_written(
        self, fair: FairScripts, redis: Redis, which: str
    ) -> None:
        await fair.acquire(A)
        await fair.acquire(B)
        before = await everything(redis)
        numbers = ("-1", "x", "", "nan", "1.5", "inf", str(2**63 - 1))
        for owner, bad in itertools.product((A, B, C), numbers):
            with pytest.raises(ResponseError, match=r"must be|not a number"):
                await fair.release(owner, **{which: bad})
            assert await everything(redis) == before


class TestForceRelease:
    @pytest.mark.parametrize("which", ["key", "queue", "timeouts", "waiters"])
    async def test_what_is_no_fair_lock_is_not_deleted(
        self, fair: FairScripts, redis: Redis, which: str
    ) -> None:
        if which != "key":
            await fair.acquire(A)
        await redis.set(getattr(fair, which), "mine", px=LEASE)
        before = await everything(redis)
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            await fair.force_release()
        assert await everything(redis) == before


async def test_inspect_tells_the_holder_and_the_queue_in_order(
    fair: FairScripts, redis: Redis
) -> None:
    assert await fair.inspect() == [-2, 0]
    await fair.acquire(A)
    await fair.acquire(A, 2)
    assert (await fair.inspect())[1:] == [2, A.encode(), b"2"]
    await fair.acquire(C)
    await fair.acquire(B)
    before = await everything(redis)
    left, *rest = await fair.inspect()
    assert LEASE - 20_000 < left <= LEASE
    assert rest == [2, A.encode(), b"2", C.encode(), B.encode()]
    assert await everything(redis) == before
    await fair.release(A)
    assert await fair.inspect() == [-2, 0, C.encode(), B.encode()]
