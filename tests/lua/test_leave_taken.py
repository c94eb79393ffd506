"""Leaving early: the owner's field becomes nobody's, and its expiry what is left of the time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from tests.support.scripts.any_lock import LOCKS, wait_until_gone
from tests.support.scripts.calls import LEASE, TOMBSTONE, A, B, Scripts, everything
from tests.support.scripts.lock import LockScripts

KEPT = f"{A}:kept"
#: Longer than any lease here.
LONG = 4 * LEASE

HAVE_IT = ["plain", "fenced", "fair"]


@pytest.fixture(params=HAVE_IT)
def lock(request: pytest.FixtureRequest, scripts: Scripts) -> LockScripts:
    """The scripts of each kind of lock that has it."""
    made = LOCKS[request.param](scripts)
    assert isinstance(made, LockScripts)
    return made


async def leave(
    lock: LockScripts,
    owner: str = A,
    stays_ms: Any = LONG,
    beyond_ms: Any = "",
    tombstone_ms: Any = 0,
) -> int | None:
    """Leave early."""
    fair = type(lock) is not LockScripts
    name = "fair_lock.leave_taken" if fair else "lock.leave_taken"
    reply: int | None = await lock.run(
        name,
        owner,
        nobody=f"{owner}:kept",
        stays_ms=stays_ms,
        beyond_ms=beyond_ms,
        tombstone_ms=tombstone_ms,
    )
    return reply


async def test_the_name_is_taken_by_nobody_for_what_is_left(lock: LockScripts) -> None:
    await lock.acquire()
    assert await leave(lock) == 1
    assert await lock.holds() == {KEPT: 1}
    assert LEASE < await lock.left() <= LONG
    assert await lock.acquire(B) is not None
    assert await lock.holds() == {KEPT: 1}
    await lock.release(B)


async def test_a_re_entered_hold_is_left_as_a_whole(lock: LockScripts) -> None:
    await lock.acquire()
    await lock.acquire(holds=2)
    assert await leave(lock) == 1
    assert await lock.holds() == {KEPT: 1}


async def test_a_repetition_moves_nothing(lock: LockScripts, redis: Redis) -> None:
    await lock.acquire()
    assert await leave(lock) == 1
    await redis.pexpire(lock.key, LEASE)
    assert await leave(lock) == 1
    assert await lock.holds() == {KEPT: 1}
    assert 0 < await lock.left() <= LEASE


async def test_a_repetition_after_the_end_touches_no_other_hold(lock: LockScripts) -> None:
    await lock.acquire()
    assert await leave(lock, stays_ms=1) == 1
    await wait_until_gone(lock)
    assert await leave(lock) is None
    assert await lock.acquire(B) is None
    before = await lock.holds()
    assert await leave(lock) is None
    assert await lock.holds() == before == {B: 1}
    assert 0 < await lock.left() <= LEASE


@pytest.mark.parametrize(
    ("beyond", "most", "least"),
    [
        ("", LONG, LEASE),
        (str(10 * LONG), LONG, LEASE),
        (str(LEASE), 2 * LEASE, LEASE),
        ("0", LEASE, LEASE // 2),
        (str(-LEASE // 2), LEASE // 2, 0),
    ],
)
async def test_the_sooner_of_two_ends_counts(
    lock: LockScripts, beyond: str, most: int, least: int
) -> None:
    await lock.acquire()
    assert await leave(lock, beyond_ms=beyond) == 1
    assert least < await lock.left() <= most


async def test_an_end_that_has_passed_is_the_end(lock: LockScripts) -> None:
    await lock.acquire()
    assert await leave(lock, beyond_ms=str(-LONG)) == 1
    await wait_until_gone(lock)


LATE: dict[str, Callable[[LockScripts], Any]] = {
    "renewal": lambda lock: lock.renew(),
    "new lease": lambda lock: lock.set_lease(lease_ms=10 * LONG),
    "release": lambda lock: lock.release(),
    "undo": lambda lock: lock.undo(),
    "re-entry": lambda lock: lock.acquire(holds=2),
    "acquire": lambda lock: lock.acquire(),
}


@pytest.mark.parametrize("late", LATE.values(), ids=LATE)
async def test_what_comes_late_from_the_owner_changes_nothing(
    late: Callable[[LockScripts], Any], lock: LockScripts
) -> None:
    await lock.acquire()
    assert await leave(lock, tombstone_ms=TOMBSTONE) == 1
    await late(lock)
    assert await lock.holds() == {KEPT: 1}
    assert LEASE < await lock.left() <= LONG


async def test_a_late_acquire_gets_nothing_after_the_end_either(lock: LockScripts) -> None:
    await lock.acquire()
    assert await leave(lock, stays_ms=1, tombstone_ms=TOMBSTONE) == 1
    await wait_until_gone(lock)
    assert await lock.acquire() == -3
    assert await lock.holds() == {}


async def test_forced_it_is_free(lock: LockScripts) -> None:
    await lock.acquire()
    await leave(lock)
    assert await lock.force_release() > 0
    assert await lock.holds() == {}


@pytest.mark.parametrize("wrong", [{"stays_ms": 0}, {"stays_ms": "x"}, {"beyond_ms": "1.5"}])
async def test_what_is_no_time_changes_nothing(
    lock: LockScripts, redis: Redis, wrong: dict[str, Any]
) -> None:
    await lock.acquire()
    before = await everything(redis)
    with pytest.raises(ResponseError, match="must be whole numbers"):
        await leave(lock, **wrong)
    assert (await everything(redis)).keys() == before.keys()
    assert await lock.holds() == {A: 1}
