"""Releasing, renewing, setting a lease, forcing and looking: alike for every kind of lock.

What a kind does besides is in a file of its own.
"""

from __future__ import annotations

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from tests.support.scripts.any_lock import AnyLock, rivals, write_count
from tests.support.scripts.calls import LEASE, TOMBSTONE, A, B, C, Scripts, everything
from tests.support.scripts.lock import LockScripts

LONG = 1_000_000
#: Scripts of their own; a fenced lock has those of a plain one.
release_kinds = pytest.mark.parametrize("kind", ["plain", "fair", "read", "write"])
lease_kinds = pytest.mark.parametrize("kind", ["plain", "read", "write"])


@pytest.fixture
def other(scripts: Scripts) -> LockScripts:
    """A second plain lock."""
    return LockScripts(scripts, key=b"other")


@release_kinds
class TestRelease:
    async def test_the_last_release_frees_the_lock_once(
        self, any_lock: AnyLock, redis: Redis
    ) -> None:
        await any_lock.acquire(A)
        assert await any_lock.release(A) == 1  # nobody listens
        assert await everything(redis) == {}
        assert await any_lock.release(A) is None

    async def test_a_release_of_part_falls_to_the_stated_count_and_never_raises_it(
        self, any_lock: AnyLock
    ) -> None:
        for holds in (1, 2, 3):
            await any_lock.acquire(A, holds)
        for holds in (1, 1, 5):
            assert await any_lock.release(A, holds) == 0
            assert await any_lock.holds() == {A: 1}

    async def test_a_release_of_part_starts_the_lease_again(self, any_lock: AnyLock) -> None:
        await any_lock.acquire(A, 1, LEASE)
        await any_lock.acquire(A, 2, LONG)
        await any_lock.release(A, 1, LEASE)
        assert LEASE - 20_000 < await any_lock.left() <= LEASE

    @pytest.mark.parametrize("holds", [0, 1])
    async def test_a_stranger_releases_nothing(
        self, any_lock: AnyLock, redis: Redis, holds: int
    ) -> None:
        assert await any_lock.release(B, holds) is None
        assert await everything(redis) == {}
        for holder in {*rivals(any_lock), any_lock}:
            await holder.acquire(A)
            before = await everything(redis)
            assert await any_lock.release(B, holds) is None
            assert await everything(redis) == before
            await holder.release(A)

    @pytest.mark.parametrize("held", [False, True])
    async def test_a_tombstone_is_left_whether_or_not_anything_was_held(
        self, any_lock: AnyLock, redis: Redis, held: bool
    ) -> None:
        if held:
            await any_lock.acquire(A)
        assert await any_lock.undo(A) == (1 if held else None)
        assert await redis.get(any_lock.tombstone(A)) == b"1"
        assert TOMBSTONE - 20_000 < await redis.pttl(any_lock.tombstone(A)) <= TOMBSTONE

    @pytest.mark.parametrize("count", ["x", "", "2.5", "inf"])
    async def test_a_corrupted_count_cannot_fall_in_part_but_can_be_let_go(
        self, any_lock: AnyLock, redis: Redis, count: str
    ) -> None:
        await write_count(any_lock, count)
        before = await everything(redis)
        with pytest.raises(ResponseError, match=r"number|integer"):
            await any_lock.release(A, 1, tombstone_ms=TOMBSTONE)
        assert await everything(redis) == before
        assert await any_lock.release(A) == 1
        assert await everything(redis) == {}


@lease_kinds
class TestRenew:
    async def test_the_owner_extends_its_lease(self, any_lock: AnyLock) -> None:
        await any_lock.acquire(A, 1, LEASE)
        assert [await any_lock.renew(A, LONG), await any_lock.renew(A, LONG)] == [1, 1]
        assert LEASE < await any_lock.left() <= LONG
        assert await any_lock.holds() == {A: 1}

    async def test_a_renewal_never_shortens_a_lease(self, any_lock: AnyLock) -> None:
        await any_lock.acquire(A, 1, LONG)
        assert await any_lock.renew(A, 1000) == 1
        assert await any_lock.left() > LEASE

    async def test_a_renewal_gives_a_lock_without_lease_one(
        self, any_lock: AnyLock, redis: Redis
    ) -> None:
        await any_lock.acquire(A)
        await redis.persist(any_lock.key)
        assert await any_lock.renew(A) == 1
        assert LEASE - 20_000 < await any_lock.left() <= LEASE

    async def test_a_renewal_never_makes_a_key(self, any_lock: AnyLock, redis: Redis) -> None:
        assert await any_lock.renew(A) == 0
        assert await everything(redis) == {}

    async def test_a_stranger_renews_nothing(self, any_lock: AnyLock) -> None:
        await any_lock.acquire(A, 1, LEASE)
        assert await any_lock.renew(B, LONG) == 0
        assert await any_lock.left() <= LEASE


class TestRenewBatch:
    async def test_a_batch_answers_for_each_lock_by_itself(
        self, lock: LockScripts, other: LockScripts, redis: Redis
    ) -> None:
        await lock.acquire(A, lease_ms=LEASE)
        await other.acquire(C, lease_ms=LEASE)
        await redis.set(b"string", "mine", px=LEASE)
        replies = await lock.scripts.run_batch(
            "lock.renew",
            [lock.key, b"string", other.key, b"gone", other.key],
            [A, A, B, A, C],
            lease_ms=LONG,
        )
        assert replies == [1, 0, 0, 0, 1]
        assert await lock.left() > LEASE
        assert await other.left() > LEASE
        assert await redis.pttl(b"string") <= LEASE
        assert await redis.exists(b"gone") == 0


@lease_kinds
class TestSetLease:
    async def test_the_owner_may_shorten_and_lengthen(self, any_lock: AnyLock) -> None:
        await any_lock.acquire(A)
        assert await any_lock.set_lease(A, LONG) == 1
        assert LEASE < await any_lock.left() <= LONG
        for _ in range(2):
            assert await any_lock.set_lease(A, LEASE) == 1
            assert LEASE - 20_000 < await any_lock.left() <= LEASE

    async def test_a_stranger_sets_nothing(self, any_lock: AnyLock, redis: Redis) -> None:
        assert await any_lock.set_lease(A) == 0
        assert await everything(redis) == {}
        for holder in {*rivals(any_lock), any_lock}:
            await holder.acquire(A)
            before = await everything(redis)
            assert await any_lock.set_lease(B, LONG) == 0
            assert await everything(redis) == before
            assert await any_lock.left() <= LEASE
            await holder.release(A)


@release_kinds
class TestForceRelease:
    async def test_it_frees_the_lock_whatever_the_hold_count(
        self, any_lock: AnyLock, redis: Redis
    ) -> None:
        await any_lock.acquire(A)
        await any_lock.acquire(A, 2)
        assert await any_lock.force_release() == 1
        assert await redis.exists(any_lock.key) == 0
        assert TOMBSTONE - 20_000 < await redis.pttl(any_lock.receipt()) <= TOMBSTONE

    @pytest.mark.parametrize("held", [False, True])
    async def test_a_repetition_answers_the_same_and_spares_the_next_holder(
        self, any_lock: AnyLock, redis: Redis, held: bool
    ) -> None:
        if held:
            await any_lock.acquire(A)
        first = await any_lock.force_release()
        assert await redis.exists(any_lock.key) == 0
        await any_lock.acquire(B)
        assert (before := await everything(redis)).keys() >= {any_lock.key}
        assert await any_lock.force_release() == first == int(held)
        assert await everything(redis) == before
        assert await any_lock.force_release("r2") == 1
        assert await redis.exists(any_lock.key) == 0


class TestInspect:
    async def test_a_free_lock(self, lock: LockScripts) -> None:
        assert await lock.inspect() == [-2, 0]

    async def test_a_held_lock_returns_its_lease_owner_and_hold_count(
        self, lock: LockScripts, redis: Redis
    ) -> None:
        await lock.acquire(A)
        await lock.acquire(A, 2)
        before = await everything(redis)
        left, *others = await lock.inspect()
        assert LEASE - 20_000 < left <= LEASE
        assert others == [2, A.encode(), b"2"]
        assert await everything(redis) == before

    async def test_a_lock_without_lease(self, lock: LockScripts, redis: Redis) -> None:
        await lock.acquire(A)
        await redis.persist(lock.key)
        assert await lock.inspect() == [-1, 2, A.encode(), b"1"]
        await redis.delete(lock.key)

    async def test_those_that_wait_are_in_order_with_their_times(
        self, lock: LockScripts, redis: Redis
    ) -> None:
        seconds, _ = await redis.time()
        joined = {"first": seconds - 60, "second:fenced": seconds - 30, "late": seconds + 60}
        await redis.zadd(lock.clients, {each: at * 1e6 for each, at in joined.items()})
        await redis.zadd(lock.clients, {">first": (10 - seconds) * 1e6})
        await redis.pexpire(lock.clients, LEASE)
        before = await everything(redis)
        left, words, *others = await lock.inspect()
        assert (left, words) == (-2, 0)
        assert others[::3] == [b"first", b"second:fenced", b"late"]
        waited, called = others[1::3], others[2::3]
        assert 60_000 <= waited[0] < 80_000
        assert 30_000 <= waited[1] < 50_000
        # The server's clock was set back.
        assert waited[2] == 0
        assert 10_000 <= called[0] < 30_000
        assert called[1:] == [-1, -1]
        assert await everything(redis) == before
        await redis.delete(lock.clients)
