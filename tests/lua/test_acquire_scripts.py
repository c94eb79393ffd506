"""The acquire script of every kind of lock grants, refuses and repeats alike."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from tests.support.scripts.any_lock import LOCKS, AnyLock, rivals, wait_until_gone, write_count
from tests.support.scripts.calls import LEASE, TOMBSTONE, A, B, ask, everything

NOT_COUNTS = ("x", "", "1.5", "0x", "inf", "nan")
LONG = 1_000_000
#: How many keys a grant writes, if that is not one.
KEYS = {"fenced": 2, "read": 2}
#: After an undo, these answer a late acquire of a busy lock with a number of its own.
TELLS_LATE = ("fair", "read")

pytestmark = pytest.mark.parametrize("kind", LOCKS)


async def test_a_free_lock_is_granted_with_its_lease(
    any_lock: AnyLock, redis: Redis, kind: str
) -> None:
    assert await any_lock.acquire(A) is None
    assert await any_lock.holds() == {A: 1}
    assert LEASE - 20_000 < await any_lock.left() <= LEASE
    assert len(await everything(redis)) == KEYS.get(kind, 1)


async def test_a_busy_lock_tells_what_is_left_and_stays_as_it_is(
    any_lock: AnyLock, redis: Redis
) -> None:
    for rival in rivals(any_lock):
        await rival.acquire(A)
        before = await everything(redis)
        reply = await any_lock.acquire(B)
        assert reply is not None
        assert LEASE - 20_000 < reply <= LEASE
        assert await everything(redis) == before
        await rival.release(A)


async def test_a_lock_without_lease_is_busy_for_ever(any_lock: AnyLock, redis: Redis) -> None:
    for rival in rivals(any_lock):
        await rival.acquire(A)
        await redis.persist(any_lock.key)
        assert await any_lock.acquire(B) == -1
        await rival.release(A)


async def test_an_expired_hold_makes_room(any_lock: AnyLock) -> None:
    (rival, *_) = rivals(any_lock)
    await rival.acquire(A, 1, 1)
    await wait_until_gone(rival)
    assert await any_lock.acquire(B) is None
    assert await any_lock.holds() == {B: 1}


async def test_re_entry_states_the_count_it_wants(any_lock: AnyLock) -> None:
    for holds in (1, 2, 3):
        for _ in range(2):
            assert await any_lock.acquire(A, holds) is None
            assert await any_lock.holds() == {A: holds}


async def test_re_entry_into_a_hold_that_is_gone_is_lost_and_makes_nothing(
    any_lock: AnyLock, redis: Redis
) -> None:
    assert await any_lock.acquire(A, 2) == -2
    assert await everything(redis) == {}
    for holder in {*rivals(any_lock), any_lock}:
        await holder.acquire(B)
        before = await everything(redis)
        assert await any_lock.acquire(A, 2) == -2
        assert await everything(redis) == before
        await holder.release(B)


async def test_an_owner_with_a_tombstone_is_refused_and_makes_nothing(
    any_lock: AnyLock, redis: Redis, kind: str
) -> None:
    await any_lock.undo(A)
    before = await everything(redis)
    assert list(before) == [any_lock.tombstone(A)]
    assert await any_lock.acquire(A) == -3
    assert await everything(redis) == before
    assert await any_lock.acquire(B) is None
    late = await any_lock.acquire(A)
    assert late is not None
    assert late == -3 if kind in TELLS_LATE else late >= 0
    assert await any_lock.holds() == {B: 1}


@pytest.mark.parametrize("leases", [(LONG, LEASE), (LEASE, LONG)])
async def test_re_entry_keeps_the_longer_lease(any_lock: AnyLock, leases: tuple[int, int]) -> None:
    for holds, lease_ms in enumerate(leases, 1):
        await any_lock.acquire(A, holds, lease_ms)
    assert LEASE < await any_lock.left() <= LONG


async def test_re_entry_gives_a_lock_without_lease_one(any_lock: AnyLock, redis: Redis) -> None:
    await any_lock.acquire(A)
    await redis.persist(any_lock.key)
    await any_lock.acquire(A, 2)
    assert LEASE - 20_000 < await any_lock.left() <= LEASE


@pytest.mark.parametrize("holds", [1, 2])
async def test_a_corrupted_hold_count_is_an_error_and_never_a_grant(
    any_lock: AnyLock, redis: Redis, holds: int
) -> None:
    for count in (*NOT_COUNTS, "-1"):
        await write_count(any_lock, count)
        before = await everything(redis)
        with pytest.raises(ResponseError, match=r"number|integer"):
            await any_lock.acquire(A, holds)
        assert await everything(redis) == before


async def test_a_tombstone_of_another_type_refuses_too(any_lock: AnyLock, redis: Redis) -> None:
    await ask(redis, "HSET", any_lock.tombstone(A), "x", "1")
    await redis.pexpire(any_lock.tombstone(A), TOMBSTONE)
    assert await any_lock.acquire(A) == -3
