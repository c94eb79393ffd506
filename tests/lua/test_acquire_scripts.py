"""lock.acquire and fenced_lock.acquire grant, refuse and repeat alike."""

from __future__ import annotations

import itertools

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from tests.support.scripts.calls import BAD_MS, LEASE, TOMBSTONE, A, B, ask, everything
from tests.support.scripts.lock import LockScripts

NOT_COUNTS = ("x", "", "1.5", "0x", "inf", "nan")


async def test_a_free_lock_is_granted_with_its_lease(either: LockScripts) -> None:
    assert await either.acquire(A) is None
    assert await either.holds() == {A: 1}
    assert LEASE - 5000 < await either.left() <= LEASE


async def test_a_busy_lock_tells_what_is_left_and_stays_as_it_is(
    either: LockScripts, redis: Redis
) -> None:
    await either.acquire(A)
    before = await everything(redis)
    reply = await either.acquire(B)
    assert reply is not None
    assert 0 <= reply <= LEASE
    assert await everything(redis) == before


async def test_a_lock_without_lease_is_busy_for_ever(either: LockScripts, redis: Redis) -> None:
    await either.acquire(A)
    await redis.persist(either.key)
    assert await either.acquire(B) == -1
    await redis.pexpire(either.key, LEASE)


async def test_an_expired_hold_makes_room(either: LockScripts) -> None:
    await either.acquire(A, lease_ms=1)
    await either.wait_until_gone()
    assert await either.acquire(B) is None
    assert await either.holds() == {B: 1}


async def test_re_entry_states_the_count_it_wants(either: LockScripts) -> None:
    for holds in (1, 2, 3):
        assert await either.acquire(A, holds) is None
        assert await either.holds() == {A: holds}


@pytest.mark.parametrize("holds", [1, 2])
async def test_run_twice_is_run_once(either: LockScripts, holds: int) -> None:
    for count in range(1, holds + 1):
        await either.acquire(A, count)
    assert await either.acquire(A, holds) is None
    assert await either.holds() == {A: holds}


async def test_re_entry_into_a_hold_that_is_gone_is_lost_and_makes_nothing(
    either: LockScripts, redis: Redis
) -> None:
    assert await either.acquire(A, 2) == -2
    assert await everything(redis) == {}


async def test_re_entry_into_a_lock_of_another_owner_is_lost(
    either: LockScripts, redis: Redis
) -> None:
    await either.acquire(B)
    before = await everything(redis)
    assert await either.acquire(A, 2) == -2
    assert await everything(redis) == before


async def test_an_owner_with_a_tombstone_is_refused_and_makes_nothing(
    either: LockScripts, redis: Redis
) -> None:
    await either.undo(A)
    before = await everything(redis)
    assert await either.acquire(A) == -3
    assert await everything(redis) == before == {either.tombstone(A): before[either.tombstone(A)]}


async def test_a_tombstone_refuses_one_owner_only(either: LockScripts) -> None:
    await either.undo(A)
    assert await either.acquire(B) is None


async def test_a_late_acquire_of_a_busy_lock_is_busy(either: LockScripts) -> None:
    await either.undo(A)
    await either.acquire(B)
    reply = await either.acquire(A)
    assert reply is not None
    assert reply >= 0
    assert await either.holds() == {B: 1}


@pytest.mark.parametrize(
    "order", sorted(set(itertools.permutations(["acquire", "acquire", "undo", "undo"])))
)
async def test_an_undone_acquire_holds_nothing_in_whatever_order_it_arrives(
    either: LockScripts, order: tuple[str, ...]
) -> None:
    for step in order:
        await (either.acquire(A) if step == "acquire" else either.undo(A))
    assert await either.holds() == {}
    assert await either.acquire(B) is None


@pytest.mark.parametrize(
    "order", sorted(set(itertools.permutations(["acquire", "acquire", "undo", "undo", "other"])))
)
async def test_an_undone_acquire_never_touches_another_owner(
    either: LockScripts, order: tuple[str, ...]
) -> None:
    granted = False
    for step in order:
        if step == "other":
            granted = await either.acquire(B) is None
        else:
            await (either.acquire(A) if step == "acquire" else either.undo(A))
    assert await either.holds() == ({B: 1} if granted else {})


@pytest.mark.parametrize(
    "order", sorted(set(itertools.permutations(["again", "again", "fall", "fall"])))
)
async def test_an_undone_re_entry_leaves_the_outer_hold(
    either: LockScripts, order: tuple[str, ...]
) -> None:
    await either.acquire(A)
    for step in order:
        await (either.acquire(A, 2) if step == "again" else either.release(A, 1))
    assert await either.holds() == {A: 2 if order[-1] == "again" else 1}
    await either.release(A)
    assert await either.holds() == {}


async def test_re_entry_never_shortens_the_lease(either: LockScripts) -> None:
    await either.acquire(A, lease_ms=1_000_000)
    await either.acquire(A, 2, lease_ms=1000)
    assert await either.left() > LEASE


async def test_re_entry_extends_a_shorter_lease(either: LockScripts) -> None:
    await either.acquire(A, lease_ms=LEASE)
    await either.acquire(A, 2, lease_ms=1_000_000)
    assert await either.left() > LEASE


async def test_re_entry_gives_a_lock_without_lease_one(either: LockScripts, redis: Redis) -> None:
    await either.acquire(A)
    await redis.persist(either.key)
    await either.acquire(A, 2)
    assert LEASE - 5000 < await either.left() <= LEASE


@pytest.mark.parametrize("holds", [1, 2])
async def test_a_key_of_another_type_is_an_error_and_stays(
    either: LockScripts, redis: Redis, holds: int
) -> None:
    await redis.set(either.key, "mine", px=LEASE)
    before = await everything(redis)
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        await either.acquire(A, holds)
    assert await everything(redis) == before


@pytest.mark.parametrize("count", NOT_COUNTS)
@pytest.mark.parametrize("holds", [1, 2])
async def test_a_corrupted_hold_count_is_an_error_and_never_a_grant(
    either: LockScripts, redis: Redis, count: str, holds: int
) -> None:
    await ask(redis, "HSET", either.key, A, count)
    await redis.pexpire(either.key, LEASE)
    before = await everything(redis)
    with pytest.raises(ResponseError, match=r"number|integer"):
        await either.acquire(A, holds)
    assert await everything(redis) == before


@pytest.mark.parametrize("lease_ms", BAD_MS)
async def test_a_bad_lease_is_refused_before_anything_is_written(
    either: LockScripts, redis: Redis, lease_ms: str
) -> None:
    with pytest.raises(ResponseError, match=r"must be|not a number"):
        await either.acquire(A, lease_ms=lease_ms)
    try:
        assert await everything(redis) == {}
    finally:
        await redis.delete(either.key)


@pytest.mark.parametrize("lease_ms", BAD_MS)
async def test_a_bad_lease_is_refused_in_a_re_entry_too(
    either: LockScripts, redis: Redis, lease_ms: str
) -> None:
    await either.acquire(A)
    before = await everything(redis)
    with pytest.raises(ResponseError, match=r"must be|not a number"):
        await either.acquire(A, 2, lease_ms=lease_ms)
    assert await everything(redis) == before


@pytest.mark.parametrize("holds", ["0", "-1", "x", "", "nan", "1.5", "inf"])
@pytest.mark.parametrize("held", [False, True])
async def test_a_bad_hold_count_is_refused_before_anything_is_written(
    either: LockScripts, redis: Redis, holds: str, held: bool
) -> None:
    if held:
        await either.acquire(A)
    before = await everything(redis)
    with pytest.raises(ResponseError, match=r"must be|not a number"):
        await either.acquire(A, holds)
    assert await everything(redis) == before


async def test_a_tombstone_of_another_type_refuses_too(either: LockScripts, redis: Redis) -> None:
    await ask(redis, "HSET", either.tombstone(A), "x", "1")
    await redis.pexpire(either.tombstone(A), TOMBSTONE)
    assert await either.acquire(A) == -3
