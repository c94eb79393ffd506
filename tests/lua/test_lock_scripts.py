"""lock.release, renew, set_lease, force_release and inspect, each by itself."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from tests.support.scripts.calls import BAD_MS, LEASE, TOMBSTONE, A, B, C, Scripts, ask, everything
from tests.support.scripts.lock import LockScripts


@pytest.fixture
def other(scripts: Scripts) -> LockScripts:
    """A second plain lock."""
    return LockScripts(scripts, key=b"other")


class TestRelease:
    async def test_the_last_release_frees_the_lock(self, lock: LockScripts, redis: Redis) -> None:
        await lock.acquire(A)
        assert await lock.release(A) == 1  # nobody listens
        assert await everything(redis) == {}

    async def test_a_repeated_last_release_finds_nothing(self, lock: LockScripts) -> None:
        await lock.acquire(A)
        await lock.release(A)
        assert await lock.release(A) is None

    async def test_a_release_of_part_falls_to_the_stated_count(self, lock: LockScripts) -> None:
        for holds in (1, 2, 3):
            await lock.acquire(A, holds)
        assert await lock.release(A, 1) == 0
        assert await lock.holds() == {A: 1}

    async def test_a_repeated_release_of_part_changes_nothing(self, lock: LockScripts) -> None:
        await lock.acquire(A)
        await lock.acquire(A, 2)
        assert await lock.release(A, 1) == 0
        assert await lock.release(A, 1) == 0
        assert await lock.holds() == {A: 1}

    async def test_a_release_never_raises_the_count(self, lock: LockScripts) -> None:
        await lock.acquire(A)
        assert await lock.release(A, 5) == 0
        assert await lock.holds() == {A: 1}

    async def test_a_release_of_part_starts_the_lease_again(self, lock: LockScripts) -> None:
        await lock.acquire(A, lease_ms=LEASE)
        await lock.acquire(A, 2, lease_ms=1_000_000)
        await lock.release(A, 1, lease_ms=LEASE)
        assert LEASE - 5000 < await lock.left() <= LEASE

    @pytest.mark.parametrize("holds", [0, 1])
    async def test_a_stranger_releases_nothing(
        self, lock: LockScripts, redis: Redis, holds: int
    ) -> None:
        await lock.acquire(A)
        before = await everything(redis)
        assert await lock.release(B, holds) is None
        assert await everything(redis) == before

    async def test_after_expiry_the_old_owner_releases_nothing(self, lock: LockScripts) -> None:
        await lock.acquire(A, lease_ms=1)
        await lock.wait_until_gone()
        await lock.acquire(B)
        assert await lock.release(A) is None
        assert await lock.holds() == {B: 1}

    @pytest.mark.parametrize("held", [False, True])
    async def test_a_tombstone_is_left_whether_or_not_anything_was_held(
        self, lock: LockScripts, redis: Redis, held: bool
    ) -> None:
        if held:
            await lock.acquire(A)
        assert await lock.undo(A) == (1 if held else None)
        assert await redis.get(lock.tombstone(A)) == b"1"
        assert TOMBSTONE - 5000 < await redis.pttl(lock.tombstone(A)) <= TOMBSTONE

    async def test_a_key_of_another_type_is_an_error_and_nothing_is_written(
        self, lock: LockScripts, redis: Redis
    ) -> None:
        await redis.set(lock.key, "mine", px=LEASE)
        before = await everything(redis)
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            await lock.undo(A)
        assert await everything(redis) == before

    @pytest.mark.parametrize("count", ["x", "", "2.5", "inf"])
    async def test_a_corrupted_count_cannot_fall_in_part(
        self, lock: LockScripts, redis: Redis, count: str
    ) -> None:
        await ask(redis, "HSET", lock.key, A, count)
        await redis.pexpire(lock.key, LEASE)
        before = await everything(redis)
        with pytest.raises(ResponseError, match=r"number|integer"):
            await lock.release(A, 1, tombstone_ms=TOMBSTONE)
        assert await everything(redis) == before

    async def test_a_corrupted_count_does_not_keep_the_lock_from_being_freed(
        self, lock: LockScripts, redis: Redis
    ) -> None:
        await ask(redis, "HSET", lock.key, A, "x")
        assert await lock.release(A) == 1
        assert await everything(redis) == {}

    @pytest.mark.parametrize("lease_ms", BAD_MS)
    @pytest.mark.parametrize("holds", [0, 1])
    async def test_a_bad_lease_is_refused_before_anything_is_written(
        self, lock: LockScripts, redis: Redis, lease_ms: str, holds: int
    ) -> None:
        await lock.acquire(A)
        await lock.acquire(A, 2)
        before = await everything(redis)
        with pytest.raises(ResponseError, match=r"must be|not a number"):
            await lock.release(A, holds, lease_ms=lease_ms)
        assert await everything(redis) == before

    @pytest.mark.parametrize("tombstone_ms", ["x", "", "1.5", "inf", "1e300", str(2**63 - 1)])
    @pytest.mark.parametrize("holds", [0, 1])
    async def test_a_bad_tombstone_time_is_refused_before_any_write(
        self, lock: LockScripts, redis: Redis, tombstone_ms: str, holds: int
    ) -> None:
        await lock.acquire(A)
        await lock.acquire(A, 2)
        before = await everything(redis)
        with pytest.raises(ResponseError, match=r"must be|not a number"):
            await lock.release(A, holds, tombstone_ms=tombstone_ms)
        assert await everything(redis) == before

    @pytest.mark.parametrize("holds", ["-1", "x", "", "nan", "0.5", "1.5"])
    async def test_a_bad_hold_count_is_refused_before_anything_is_written(
        self, lock: LockScripts, redis: Redis, holds: str
    ) -> None:
        await lock.acquire(A)
        await lock.acquire(A, 2)
        before = await everything(redis)
        with pytest.raises(ResponseError, match=r"must be|not a number"):
            await lock.release(A, holds, tombstone_ms=TOMBSTONE)
        assert await everything(redis) == before


class TestRenew:
    async def test_the_owner_extends_its_lease(self, lock: LockScripts) -> None:
        await lock.acquire(A, lease_ms=LEASE)
        assert await lock.renew(A, 1_000_000) == 1
        assert await lock.renew(A, 1_000_000) == 1
        assert LEASE < await lock.left() <= 1_000_000
        assert await lock.holds() == {A: 1}

    async def test_a_renewal_never_shortens_a_lease(self, lock: LockScripts) -> None:
        await lock.acquire(A, lease_ms=1_000_000)
        assert await lock.renew(A, 1000) == 1
        assert await lock.left() > LEASE

    async def test_a_renewal_gives_a_lock_without_lease_one(
        self, lock: LockScripts, redis: Redis
    ) -> None:
        await lock.acquire(A)
        await redis.persist(lock.key)
        assert await lock.renew(A) == 1
        assert LEASE - 5000 < await lock.left() <= LEASE

    async def test_a_renewal_never_makes_a_key(self, lock: LockScripts, redis: Redis) -> None:
        assert await lock.renew(A) == 0
        assert await everything(redis) == {}

    async def test_a_stranger_renews_nothing(self, lock: LockScripts) -> None:
        await lock.acquire(A, lease_ms=LEASE)
        assert await lock.renew(B, 1_000_000) == 0
        assert await lock.left() <= LEASE

    async def test_an_expired_hold_is_not_renewed(self, lock: LockScripts, redis: Redis) -> None:
        await lock.acquire(A, lease_ms=1)
        await lock.wait_until_gone()
        assert await lock.renew(A) == 0
        assert await everything(redis) == {}

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
            lease_ms=1_000_000,
        )
        assert replies == [1, 0, 0, 0, 1]
        assert await lock.left() > LEASE
        assert await other.left() > LEASE
        assert await redis.pttl(b"string") <= LEASE
        assert await redis.exists(b"gone") == 0

    @pytest.mark.parametrize("lease_ms", BAD_MS)
    async def test_a_bad_lease_is_refused_for_the_whole_batch(
        self, lock: LockScripts, lease_ms: str
    ) -> None:
        await lock.acquire(A)
        with pytest.raises(ResponseError, match=r"must be|not a number"):
            await lock.renew(A, lease_ms)
        assert LEASE - 5000 < await lock.left() <= LEASE


class TestSetLease:
    async def test_the_owner_may_shorten_and_lengthen(self, lock: LockScripts) -> None:
        await lock.acquire(A)
        assert await lock.set_lease(A, 1_000_000) == 1
        assert await lock.left() > LEASE
        assert await lock.set_lease(A, LEASE) == 1
        assert LEASE - 5000 < await lock.left() <= LEASE

    async def test_run_twice_is_run_once(self, lock: LockScripts) -> None:
        await lock.acquire(A)
        assert [await lock.set_lease(A), await lock.set_lease(A)] == [1, 1]
        assert LEASE - 5000 < await lock.left() <= LEASE

    async def test_a_stranger_sets_nothing(self, lock: LockScripts) -> None:
        await lock.acquire(A)
        assert await lock.set_lease(B, 1_000_000) == 0
        assert await lock.left() <= LEASE

    async def test_a_free_lock_stays_free(self, lock: LockScripts, redis: Redis) -> None:
        assert await lock.set_lease(A) == 0
        assert await everything(redis) == {}

    async def test_a_key_of_another_type_is_an_error_and_stays(
        self, lock: LockScripts, redis: Redis
    ) -> None:
        await redis.set(lock.key, "mine", px=LEASE)
        before = await everything(redis)
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            await lock.set_lease(A, 1_000_000)
        assert await everything(redis) == before
        assert await lock.left() <= LEASE

    @pytest.mark.parametrize("lease_ms", BAD_MS)
    async def test_a_bad_lease_is_refused(self, lock: LockScripts, lease_ms: str) -> None:
        await lock.acquire(A)
        with pytest.raises(ResponseError, match=r"must be|not a number"):
            await lock.set_lease(A, lease_ms)
        assert LEASE - 5000 < await lock.left() <= LEASE


class TestForceRelease:
    async def test_it_frees_the_lock_whatever_the_hold_count(
        self, lock: LockScripts, redis: Redis
    ) -> None:
        await lock.acquire(A)
        await lock.acquire(A, 2)
        assert await lock.force_release() == 1
        assert await redis.exists(lock.key) == 0
        assert TOMBSTONE - 5000 < await redis.pttl(lock.receipt()) <= TOMBSTONE

    async def test_a_free_lock_is_told_free(self, lock: LockScripts, redis: Redis) -> None:
        assert await lock.force_release() == 0
        assert await redis.exists(lock.key) == 0

    @pytest.mark.parametrize("held", [False, True])
    async def test_a_repetition_answers_the_same_and_spares_the_next_holder(
        self, lock: LockScripts, held: bool
    ) -> None:
        if held:
            await lock.acquire(A)
        first = await lock.force_release()
        await lock.acquire(B)
        assert await lock.force_release() == first == int(held)
        assert await lock.holds() == {B: 1}

    async def test_another_request_frees_again(self, lock: LockScripts) -> None:
        await lock.acquire(A)
        await lock.force_release("r1")
        await lock.acquire(B)
        assert await lock.force_release("r2") == 1
        assert await lock.holds() == {}

    async def test_what_is_no_lock_is_not_deleted(self, lock: LockScripts, redis: Redis) -> None:
        await redis.set(lock.key, "mine", px=LEASE)
        before = await everything(redis)
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            await lock.force_release()
        assert await everything(redis) == before

    @pytest.mark.parametrize("receipt_ms", BAD_MS)
    async def test_a_bad_time_for_the_receipt_is_refused_before_anything_is_written(
        self, lock: LockScripts, redis: Redis, receipt_ms: str
    ) -> None:
        await lock.acquire(A)
        before = await everything(redis)
        with pytest.raises(ResponseError, match=r"must be|not a number"):
            await lock.force_release(receipt_ms=receipt_ms)
        assert await everything(redis) == before


class TestInspect:
    async def test_a_free_lock(self, lock: LockScripts) -> None:
        assert await lock.inspect() == [-2]

    async def test_a_held_lock_returns_its_lease_owner_and_hold_count(
        self, lock: LockScripts, redis: Redis
    ) -> None:
        await lock.acquire(A)
        await lock.acquire(A, 2)
        before = await everything(redis)
        left, owner, count = await lock.inspect()
        assert LEASE - 5000 < left <= LEASE
        assert (owner, count) == (A.encode(), b"2")
        assert await everything(redis) == before

    async def test_a_lock_without_lease(self, lock: LockScripts, redis: Redis) -> None:
        await lock.acquire(A)
        await redis.persist(lock.key)
        assert await lock.inspect() == [-1, A.encode(), b"1"]
        await redis.delete(lock.key)

    async def test_a_key_of_another_type_is_an_error(self, lock: LockScripts, redis: Redis) -> None:
        await redis.set(lock.key, "mine", px=LEASE)
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            await lock.inspect()
