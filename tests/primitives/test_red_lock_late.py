"""Servers of a RedLock that answer after a quorum has: they join, or give back."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from redis.exceptions import ResponseError

from redisson_py._commands.lock import RELEASE
from redisson_py.composite._hold import CompositeLease
from tests.fixtures.fleet import Fleet, until_executed
from tests.support.waiting import until, until_async


async def test_server_that_says_yes_later_joins(fleet: Fleet) -> None:
    lock = fleet.red_lock(3, lease_time=60)
    async with lock:
        await until_executed(lock)
    await fleet.servers[2].pause()
    async with lock as lease:
        assert await fleet.held(count=2) == 2
        await fleet.servers[2].resume()
        await until_executed(lock)
        assert await fleet.held() == 3
        # So that one of the others can be lost.
        await fleet.redis[0].delete("k")
        assert await lock._members[0].force_release() is False
        assert not lease.lost
        assert await lock.owned()
    await until_executed(lock)
    assert await fleet.held() == 0


async def test_reentry_waits_briefly_for_a_server_that_has_not_answered(fleet: Fleet) -> None:
    lock = fleet.red_lock(3, lease_time=100)
    async with lock:
        await until_executed(lock)
    await fleet.servers[2].pause()
    async with lock:
        entering = lock.acquire(timeout=10)
        asyncio.get_running_loop().call_soon(fleet.servers[2]._running_process().resume)
        inner = await entering
        await until_executed(lock)
        assert [list(each.values()) for each in await fleet.holds()] == [[2]] * 3
        await inner.release()


async def test_server_that_says_yes_after_a_pass_joins_the_next_holder(fleet: Fleet) -> None:
    lock = fleet.red_lock(3, turn=30, lease_time=60)
    async with lock:
        await until_executed(lock)
    entered, leave = asyncio.Event(), asyncio.Event()

    async def hold_it() -> tuple[int, bool]:
        async with lock:
            entered.set()
            await leave.wait()
            return await lock._members[2].hold_count(), await lock.owned()

    await fleet.servers[2].pause()
    lease = await lock.acquire()
    next_holder = asyncio.create_task(hold_it())
    await until(lambda: lock.statistics().waiters)
    await lease.release()
    await entered.wait()
    await fleet.servers[2].resume()
    await until_executed(lock)
    assert not await lock._members[2].owned()
    leave.set()
    assert await next_holder == (1, True)


async def test_member_that_its_holder_keeps_is_not_passed(fleet: Fleet) -> None:
    lock = fleet.red_lock(3, turn=30)
    lease = await lock.acquire()
    await until_executed(lock)
    async with lock._members[0]:
        waiting = asyncio.create_task(lock.acquire())
        await until(lambda: lock.statistics().waiters)
        await lease.release()
        next_lease = await waiting
        assert next_lease.owner != lease.owner
        assert await lock._members[0].owned()
    await next_lease.release()


async def test_late_server_is_left_to_a_waiter_for_its_lock_alone(fleet: Fleet) -> None:
    """The holder itself, even: it does not know yet that it has it."""
    lock = fleet.red_lock(3, lease_time=60)
    async with lock:
        await until_executed(lock)
    await fleet.servers[2].pause()
    async with lock:
        alone = lock._members[2].acquire(timeout=20)
        asyncio.get_running_loop().call_later(0.02, fleet.servers[2]._running_process().resume)
        await (await alone).release()


async def test_released_before_a_server_has_answered_nothing_is_left_there(fleet: Fleet) -> None:
    lock = fleet.red_lock(3, lease_time=60)
    async with lock:
        await until_executed(lock)
    await fleet.servers[2].pause()
    async with lock:
        pass
    await fleet.servers[2].resume()
    await until_executed(lock)
    assert await fleet.held() == 0
    async with lock:
        await until_executed(lock)
        assert await fleet.held() == 3


async def test_question_that_comes_after_its_release_leaves_nothing(fleet: Fleet) -> None:
    """The server knows the one script and not the other, which is sent again behind it."""
    lock = fleet.red_lock(3, lease_time=60)
    async with lock:
        await until_executed(lock)
    await until_executed(lock)
    await fleet.redis[2].script_flush()
    for wording in RELEASE.wordings:
        with suppress(ResponseError):
            # Below Redis 7 only the first is one.
            await fleet.redis[2].script_load(wording.text)
    await fleet.servers[2].pause()
    async with lock:
        pass
    await fleet.servers[2].resume()
    await until_executed(lock)
    await until_async(fleet.everything_free)
    async with lock:
        await until_executed(lock)
        assert await fleet.held() == 3


@pytest.mark.more
async def test_a_member_that_joins_late_ends_with_the_others(fleet: Fleet) -> None:
    lock = fleet.red_lock(3)
    async with lock:
        await until_executed(lock)
    await fleet.servers[2].pause()
    lease = await lock.acquire(max_hold=3)
    assert isinstance(lease, CompositeLease)
    await fleet.servers[2].resume()
    await until(lambda: len(lease.held_members) == 3)
    assert len({member._limit for member in lease.held_members}) == 1
    await lease.wait_lost()
    assert lease._loss().reason == "ended"
    # Released, and not left to a lease of 30 seconds.
    await until_async(fleet.everything_free)
