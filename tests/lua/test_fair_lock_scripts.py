"""fair_lock.release, force_release and inspect, each by itself."""

from __future__ import annotations

from redis.asyncio import Redis

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
    left, *others = await fair.inspect()
    assert LEASE - 20_000 < left <= LEASE
    assert others == [2, A.encode(), b"2", C.encode(), B.encode()]
    assert await everything(redis) == before
    await fair.release(A)
    assert await fair.inspect() == [-2, 0, C.encode(), B.encode()]
