"""A waiter that is cancelled, by any kind of cancellation, leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import anyio
import pytest
from redis.asyncio import Redis

from redisson_py import Redisson
from redisson_py.locks.lock_like import LockLike
from tests.contract.conftest import exclusive
from tests.contract.servers import Servers
from tests.fixtures.client import ClientFactory, assert_idle
from tests.support.giving_up import WAYS, GiveUp
from tests.support.kinds import Kind, MakeLock
from tests.support.waiting import until, until_async

pytestmark = pytest.mark.also("cluster")

every_way = pytest.mark.parametrize("give_up", WAYS)


@every_way
async def test_waiter_for_another_client_leaves_nothing(
    make_lock: MakeLock,
    make_rival: MakeLock,
    clients: ClientFactory,
    servers: Servers,
    give_up: GiveUp,
) -> None:
    holder, waiter = clients(), clients()
    async with make_rival(holder):
        await give_up(make_lock(waiter).acquire)
        for each in servers.clients(waiter):
            # An undo in another store is not behind what follows.
            await until(lambda each=each: not each._context.pending)  # type: ignore[misc]
            assert_idle(each)
        await servers.settled(waiter)
        await servers.assert_nobody_waits()
    async with make_lock(waiter).hold(timeout=30):
        pass


@exclusive
@every_way
async def test_waiter_in_the_local_queue_leaves_nothing(lock: LockLike, give_up: GiveUp) -> None:
    async with lock:
        following = asyncio.create_task(give_up(lock.acquire))
        # On a slow machine it may have come and gone between two looks.
        await until(lambda: lock.statistics().waiters == 1 or following.done())
        last = asyncio.create_task(lock.acquire(timeout=30))
        await following
    lease = await last
    await lease.release()


async def test_next_waiter_gets_in_when_the_head_is_cancelled(
    make_lock: MakeLock, make_rival: MakeLock, clients: ClientFactory, servers: Servers
) -> None:
    holder, waiter = clients(), clients()
    lock = make_lock(waiter)
    async with make_rival(holder):
        head = asyncio.create_task(lock.acquire())
        await servers.until_listening(waiter)
        following = asyncio.create_task(lock.acquire(timeout=30))
        await servers.until_waiting(waiter, 2)
        head.cancel()
        with pytest.raises(asyncio.CancelledError):
            await head
    lease = await following
    await lease.release()


@exclusive
async def test_cancelled_in_the_iteration_it_was_passed_to_passes_on(
    lock: LockLike, client: Redisson, servers: Servers
) -> None:
    lease = await lock.acquire()
    waiters = [asyncio.create_task(lock.acquire(timeout=30)) for _ in range(2)]
    await servers.until_waiting(client, 2)
    release = asyncio.create_task(lease.release())
    # The pass happens in the release's first step; cancel before the waiter gets its turn.
    await asyncio.sleep(0)
    waiters[0].cancel()
    await release
    with pytest.raises(asyncio.CancelledError):
        await waiters[0]
    gained = await waiters[1]
    await gained.release()
    assert not await lock.locked()


@exclusive
async def test_cancelled_in_the_iteration_it_was_passed_to_with_nobody_after(
    lock: LockLike, client: Redisson, servers: Servers
) -> None:
    lease = await lock.acquire()
    waiter = asyncio.create_task(lock.acquire())
    await servers.until_waiting(client, 1)
    release = asyncio.create_task(lease.release())
    await asyncio.sleep(0)
    waiter.cancel()
    await release
    with pytest.raises(asyncio.CancelledError):
        await waiter
    await until_async(_free(lock))
    await servers.settled(client)
    assert_idle(client)


async def test_ask_in_flight_is_undone(
    kind: Kind, lock: LockLike, client: Redisson, servers: Servers, redis: Redis
) -> None:
    await servers.answered(client)
    task = asyncio.create_task(lock.acquire())
    await asyncio.sleep(0)
    assert client._context.pending
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    if servers.all:
        # The undo is on the stream that is asked, so this sees its effect.
        assert not await lock.locked()
        # Late duplicates of that ask are refused for a while.
        assert len(await redis.keys("*tombstone*")) == kind.members
    await servers.settled(client)
    assert not await lock.locked()
    assert_idle(client)


async def test_cancelled_release_is_carried_out(
    lock: LockLike, client: Redisson, servers: Servers
) -> None:
    lease = await lock.acquire()
    task = asyncio.create_task(lease.release())
    await asyncio.sleep(0)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await servers.settled(client)
    assert not await lock.locked()
    async with lock:
        pass


async def test_cancelled_reentry_keeps_the_outer_hold(client: Redisson) -> None:
    lock = client.get_lock("k")

    async def work() -> None:
        async with lock as outer:
            me = asyncio.current_task()
            assert me is not None
            asyncio.get_running_loop().call_soon(me.cancel)
            with pytest.raises(asyncio.CancelledError):
                await lock.acquire()
            me.uncancel()
            assert await lock.hold_count() == 1
            assert not outer.lost

    await asyncio.create_task(work())
    assert not await lock.locked()


async def test_group_of_a_thousand_waiters_cancelled(
    make_lock: MakeLock, make_rival: MakeLock, clients: ClientFactory, servers: Servers
) -> None:
    holder, waiter = clients(), clients()
    lock = make_lock(waiter)
    async with make_rival(holder):
        with anyio.move_on_after(10) as scope:
            async with anyio.create_task_group() as group:
                for _ in range(1000):
                    group.start_soon(lock.acquire)
                await servers.until_waiting(waiter, 1000)
                scope.cancel()
        await servers.settled(waiter)
        assert_idle(waiter)
    async with lock.hold(timeout=30):
        pass


def _free(lock: LockLike) -> Callable[[], Awaitable[bool]]:
    async def free() -> bool:
        return not await lock.locked()

    return free
