"""A RedLock with a `max_hold`: it ends on every server, late members included."""

from __future__ import annotations

import asyncio

import pytest

from redisson_py import LeaseLostError
from redisson_py.composite._hold import CompositeLease
from tests.fixtures.fleet import Fleet, until_executed
from tests.support.waiting import until, until_async


async def until_free(fleet: Fleet) -> None:
    async def is_free_everywhere() -> bool:
        return await fleet.held() == 0

    # Released, and not left to a lease of 30 seconds.
    await until_async(is_free_everywhere)


async def test_it_ends_on_all_servers(fleet: Fleet) -> None:
    lock = fleet.red_lock(3)
    with pytest.raises(LeaseLostError) as caught:
        async with lock.hold(max_hold=1):
            await asyncio.sleep(60)
    assert caught.value.reason == "ended"
    await until_free(fleet)
    lease = await lock.try_acquire(max_hold=1, timeout=5)
    assert lease is not None
    assert 0 < lease.remaining <= 1
    await lease.release()
    with pytest.raises(ValueError, match="not both"):
        await lock.try_acquire(max_hold=1, lease_time=1)


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
    await until_free(fleet)


async def test_an_extension_replaces_it(fleet: Fleet) -> None:
    lock = fleet.red_lock(3)
    lease = await lock.acquire(max_hold=20)
    await lease.extend(60)
    assert lease.remaining > 50
    await lease.release()
    await until_free(fleet)
