"""fair_lock.release, force_release and inspect, each by itself."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from tests.lua.test_golden_vectors import listening
from tests.support.scripts.calls import LEASE, TOMBSTONE, A, B, C, Scripts, everything
from tests.support.scripts.fair import WAIT, FairScripts

D = "client-d:1"

#: How far apart two looks at the server's clock may be, in milliseconds.
SLACK = 4000


@pytest_asyncio.fixture
async def fair(scripts: Scripts) -> AsyncIterator[FairScripts]:
    """One fair lock; when all have left nothing may remain but what expires."""
    fair = FairScripts(scripts)
    yield fair
    await fair.everybody_leaves()


def about(score: float) -> object:
    return pytest.approx(score, abs=SLACK)


class TestRelease:
    async def test_only_the_head_is_told(self, fair: FairScripts, redis: Redis) -> None:
        await fair.acquire(A)
        async with (
            listening(redis, fair.channel_of(B)) as head,
            listening(redis, fair.channel_of(C)) as second,
            listening(redis, fair.channel) as everybody,
        ):
            await fair.acquire(B)
            await fair.acquire(C)
            assert await fair.release(A) == 2  # freed, and one client told
            assert await head.heard() == [b"0"]
            assert await second.heard() == await everybody.heard() == []

    async def test_a_repeated_last_release_finds_nothing_and_tells_the_head_again(
        self, fair: FairScripts, redis: Redis
    ) -> None:
        await fair.acquire(A)
        await fair.acquire(B)
        async with listening(redis, fair.channel_of(B)) as head:
            await fair.release(A)
            assert await fair.release(A) is None
            assert await head.heard() == [b"0", b"0"]

    async def test_a_stranger_releases_nothing_and_tells_nobody_while_it_is_held(
        self, fair: FairScripts, redis: Redis
    ) -> None:
        await fair.acquire(A)
        await fair.acquire(B)
        before = await everything(redis)
        async with listening(redis, fair.channel_of(B)) as head:
            assert await fair.release(C) is None
            assert await head.heard() == []
        assert await everything(redis) == before

    async def test_leaving_removes_the_waiter_and_keeps_the_order_of_the_others(
        self, fair: FairScripts
    ) -> None:
        await fair.acquire(A)
        for owner in (B, C, D):
            await fair.acquire(owner)
        for _ in range(2):
            assert await fair.leave(C) is None
            assert await fair.queued() == [B, D]
            assert await fair.moments() == {B: about(LEASE + WAIT), D: about(LEASE + 2 * WAIT)}
            assert (await fair.alive()).keys() == {B, D}
        assert await fair.holds() == {A: 1}

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

    async def test_when_the_head_of_a_free_lock_leaves_the_next_is_told(
        self, fair: FairScripts, redis: Redis
    ) -> None:
        await fair.acquire(A)
        await fair.acquire(B)
        await fair.acquire(C)
        await fair.release(A)
        async with listening(redis, fair.channel_of(C)) as second:
            assert await fair.leave(B) is None
            assert await second.heard() == [b"0"]

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
    async def test_it_frees_the_lock_and_notifies_the_head(
        self, fair: FairScripts, redis: Redis
    ) -> None:
        await fair.acquire(A)
        await fair.acquire(B)
        async with listening(redis, fair.channel_of(B)) as head:
            assert await fair.force_release() == 1
            assert await head.heard() == [b"0"]
        assert await redis.exists(fair.key) == 0
        assert await fair.queued() == [B]
        assert TOMBSTONE - 5000 < await redis.pttl(fair.receipt()) <= TOMBSTONE

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
    assert LEASE - 5000 < left <= LEASE
    assert rest == [2, A.encode(), b"2", C.encode(), B.encode()]
    assert await everything(redis) == before
    await fair.release(A)
    assert await fair.inspect() == [-2, 0, C.encode(), B.encode()]
