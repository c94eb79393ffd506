"""`get_lock(name, reentrant=False)`: what is special about it, as Redisson's tests have it."""

from __future__ import annotations

import asyncio

import pytest

from redisson_py import Redisson
from redisson_py._time import now
from tests.fixtures.client import ClientFactory
from tests.support.leases import assert_left
from tests.support.waiting import until_listening, until_waiting

HELD = "held by this task already"


async def test_another_task_waits_and_has_it_after_the_release(client: Redisson) -> None:
    # testContendingThreadBlocksAndAcquiresOnRelease
    lock = client.get_lock("k", reentrant=False)

    async def contend() -> bool:
        async with lock:
            return await lock.owned()

    async with lock:
        contending = asyncio.create_task(contend())
        await until_waiting(client, 1)
        assert not contending.done()
    assert await contending
    assert not await lock.locked()


async def test_a_task_of_another_client_waits_and_has_it_after_the_release(
    clients: ClientFactory,
) -> None:
    client, other = clients(), clients()
    async with client.get_lock("k", reentrant=False):
        contending = asyncio.create_task(other.get_lock("k", reentrant=False).acquire())
        await until_listening(other)
    lease = await contending
    await lease.release()


async def test_every_way_to_acquire_again_is_refused_and_changes_nothing(client: Redisson) -> None:
    # testSameThreadReacquireThrows
    lock = client.get_lock("k", reentrant=False)
    began = now()
    lease = await lock.acquire()
    for again in (
        lock.acquire(),
        lock.acquire(timeout=1, lease_time=5),
        lock.try_acquire(),
        lock.try_acquire(timeout=1),
        lock.hold(timeout=1).__aenter__(),
        lock.__aenter__(),
    ):
        with pytest.raises(RuntimeError, match=HELD):
            await again
    assert await lock.hold_count() == 1
    assert_left(await lock.remaining(), 30, began)
    assert not lease.lost
    await lock.release()
    assert not await lock.locked()


async def test_two_handles_of_one_name_are_one_lock(client: Redisson) -> None:
    # testCrossInstanceSameThreadReentryThrows
    lock, same = (client.get_lock("k", reentrant=False) for _ in range(2))
    async with lock:
        with pytest.raises(RuntimeError, match=HELD):
            await same.acquire()
        with pytest.raises(RuntimeError, match=HELD):
            await same.try_acquire()
        assert await lock.owned()
        assert await same.owned()
        # Nor is it a way around that the other handle would allow it: the hold is one.
        async with client.get_lock("k"):
            assert await same.hold_count() == 2
        assert await lock.hold_count() == 1
    assert not await same.locked()
