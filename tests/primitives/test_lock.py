"""RLock, as api.md describes it."""

from __future__ import annotations

import asyncio

import pytest

from redisson_py import AcquireTimeoutError, NotHeldError, Redisson


async def test_async_with_holds_and_releases(client: Redisson) -> None:
    lock = client.get_lock("k")
    async with lock as lease:
        assert await lock.locked()
        assert await lock.owned()
        assert lease
        assert lease.name == "k"
        assert lease.owner.startswith(client.id + ":")
        assert lease.token is None
        assert 29 < lease.remaining <= 30
    assert not await lock.locked()
    assert lease.remaining == 0.0
    assert not lease.lost


async def test_reentry_counts(client: Redisson) -> None:
    lock = client.get_lock("k")
    async with lock:
        async with client.get_lock("k"):
            assert await lock.hold_count() == 2
        assert await lock.hold_count() == 1
    assert await lock.hold_count() == 0


async def test_child_task_is_somebody_else(client: Redisson) -> None:
    lock = client.get_lock("k")
    async with lock, asyncio.TaskGroup() as group:
        child = group.create_task(lock.try_acquire())
    assert child.result() is None


async def test_timeout(client: Redisson) -> None:
    lock = client.get_lock("k")

    async def wait() -> None:
        with pytest.raises(AcquireTimeoutError):
            await lock.acquire(timeout=0.05)

    async with lock, asyncio.TaskGroup() as group:
        group.create_task(wait())


async def test_release_without_hold(client: Redisson) -> None:
    with pytest.raises(NotHeldError):
        await client.get_lock("k").release()
