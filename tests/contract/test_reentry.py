"""Acquired again by the task that holds it: counted, or refused where it is not reentrant."""

from __future__ import annotations

import asyncio

import pytest

from redisson_py import LeaseLostError, NotHeldError, Redisson
from redisson_py._time import now
from redisson_py.locks.lock_like import LockLike
from tests.contract.conftest import (
    EVERY_KIND,
    for_kinds,
    is_reentrant,
    is_single,
    reentrant,
    single_reentrant,
)
from tests.contract.servers import Servers
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.support.kinds import Kind, MakeLock, reason_of

pytestmark = pytest.mark.also("cluster")

#: The fair lock brings its own; for it too, the option is all there is.
REFUSING = {
    **{name: kind for name, kind in EVERY_KIND.items() if not (kind.reentrant or kind.semaphore)},
    "fair_lock": Kind(lambda clients, name, _: clients[0].get_fair_lock(name, reentrant=False)),
}
refusing = pytest.mark.parametrize("kind", REFUSING.values(), ids=REFUSING, indirect=True)


@reentrant
async def test_reentry_counts(make_lock: MakeLock, client: Redisson, servers: Servers) -> None:
    lock = make_lock(client)
    async with lock as outer:
        async with make_lock(client) as inner:
            assert inner is not outer
            assert inner.owner == outer.owner
            assert await lock.hold_count() == 2
            await servers.answered(client)
            await servers.assert_held(outer.owner, count=2)
        assert inner.remaining == 0.0
        assert outer.remaining > 0
        assert await lock.hold_count() == 1
    assert await lock.hold_count() == 0


@reentrant
async def test_every_way_to_acquire_again_counts(lock: LockLike) -> None:
    for steps in (1, 3):
        for held in range(steps):
            assert (await lock.hold_count(), lock.statistics().held_leases) == (held, held)
            assert await (lock.try_acquire() if held % 2 else lock.acquire(timeout=10))
        for held in range(steps, 0, -1):
            assert (await lock.hold_count(), lock.statistics().held_leases) == (held, held)
            await lock.release()
        with pytest.raises(NotHeldError):
            await lock.release()
    assert not await lock.locked()


@reentrant
async def test_others_are_refused_until_the_last_release(
    lock: LockLike, make_rival: MakeLock, clients: ClientFactory
) -> None:
    far = make_rival(clients())
    for _ in range(2):
        await lock.acquire()
    for left in (2, 1):
        assert await lock.hold_count() == left
        assert await far.try_acquire() is None
        for stranger in (lock, far):
            with pytest.raises(NotHeldError):
                await asyncio.create_task(stranger.release())
        await lock.release()
    async with far.hold(timeout=10):
        pass


@pytest.mark.usefixtures("old_busy_counts")
@for_kinds(lambda kind: kind.rival is None and not kind.semaphore)
async def test_child_task_is_somebody_else(lock: LockLike) -> None:
    async with lock:
        assert await asyncio.create_task(lock.try_acquire()) is None
        assert await asyncio.create_task(lock.try_acquire(timeout=0.5)) is None


@reentrant
async def test_leases_of_one_hold_are_released_in_any_order(lock: LockLike) -> None:
    first, second, third = [await lock.acquire() for _ in range(3)]
    await asyncio.create_task(first.release())
    with pytest.raises(NotHeldError):
        await first.release()
    assert await lock.hold_count() == 2
    await third.release()
    assert await lock.owned()
    await second.release()
    assert not await lock.locked()


@reentrant
async def test_reentry_of_a_lost_hold_is_lost(lock: LockLike, servers: Servers) -> None:
    lease = await lock.acquire()
    await servers.forget("k")
    with pytest.raises(LeaseLostError):
        await lock.acquire()
    assert lease.lost
    # The next acquisition is a new one.
    async with lock as fresh:
        assert fresh.owner != lease.owner
    with pytest.raises(LeaseLostError):
        await lease.release()


@reentrant
async def test_reentry_never_shortens_the_outer_lease(lock: LockLike, servers: Servers) -> None:
    began = now()
    async with lock:
        async with lock.hold(lease_time=5) as inner:
            assert inner.remaining <= 5
            servers.assert_left(await lock.remaining(), 30, began)
        servers.assert_left(await lock.remaining(), 30, began)


@reentrant
async def test_inner_lease_time_ends_the_inner_block_only(
    lock: LockLike, servers: Servers, client: Redisson
) -> None:
    async with lock as outer:
        with pytest.raises(LeaseLostError):
            async with lock.hold(lease_time=0.2):
                await asyncio.sleep(30)
        assert not outer.lost
        await servers.answered(client)
        await servers.assert_held(outer.owner)
    assert not await lock.locked()


@reentrant
async def test_partial_release_goes_back_to_the_explicit_lease(
    lock: LockLike, servers: Servers
) -> None:
    began = now()
    for _ in range(3):
        await lock.acquire(lease_time=10)
    for _ in range(2):
        await lock.release()
    servers.assert_left(await lock.remaining(), 10, began)
    await lock.release()


@single_reentrant
async def test_reentry_counts_from_before_it_was_asked_for(
    make_lock: MakeLock, clients: ClientFactory, proxy: ProxyFactory
) -> None:
    link = await proxy()
    lock = make_lock(clients(link.url))
    async with lock:
        link.delay(0.6, direction="down")
        inner = await lock.acquire()
        assert inner.remaining <= 30 - 0.6
        link.pass_through()
        await inner.release()


@for_kinds(lambda kind: is_reentrant(kind) and is_single(kind) and kind.ends_leases)
async def test_a_lease_that_had_ended_before_it_came_is_not_returned(
    make_lock: MakeLock, clients: ClientFactory, proxy: ProxyFactory, servers: Servers
) -> None:
    link = await proxy()
    lock = make_lock(clients(link.url))
    # It subscribes to nothing and asks for nothing else meanwhile.
    link.delay(0.3, direction="down")
    with pytest.raises(LeaseLostError) as first:
        await lock.acquire(lease_time=0.2)
    async with lock as outer:
        with pytest.raises(LeaseLostError) as inner:
            await lock.acquire(lease_time=0.2)
        assert not outer.lost
        link.pass_through()
        # What the server had granted was given back.
        await lock.locked()
        await servers.assert_held(outer.owner)
        assert lock.statistics().held_leases == 1
        assert reason_of(first.value) == reason_of(inner.value) == "ended"


@refusing
async def test_every_way_to_acquire_again_is_refused_and_changes_nothing(
    lock: LockLike, make_lock: MakeLock, client: Redisson, servers: Servers
) -> None:
    same = make_lock(client)
    began = now()
    lease = await lock.acquire()
    for again in (
        lock.acquire(),
        same.acquire(),
        lock.acquire(timeout=1, lease_time=5),
        lock.try_acquire(),
        same.try_acquire(timeout=1),
        lock.hold(timeout=1).__aenter__(),
        lock.__aenter__(),
    ):
        with pytest.raises(RuntimeError, match="this task already holds"):
            await again
    for handle in (lock, same):
        assert await handle.owned()
        assert await handle.hold_count() == 1
    servers.assert_left(await lock.remaining(), 30, began)
    assert not lease.lost
    await lock.release()
    assert not await same.locked()
