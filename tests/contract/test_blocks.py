"""Blocks among other blocks: timeouts, scopes, cancellation from outside, nesting."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from redisson_py import LeaseLostError, Redisson
from redisson_py.locks.lock_like import LockLike
from tests.contract.conftest import timed
from tests.contract.servers import Servers
from tests.fixtures.client import ClientFactory
from tests.support.kinds import Kind, MakeLock

pytestmark = pytest.mark.also("cluster")


def not_cancelled() -> bool:
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling() == 0


async def test_asyncio_timeout_inside_and_outside(
    lock: LockLike, client: Redisson, servers: Servers
) -> None:
    async with lock:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.sleep(30)
        assert await lock.locked()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01), lock:
            await asyncio.sleep(30)
    await servers.settled(client)
    assert not await lock.locked()
    assert not_cancelled()


async def test_anyio_scopes_inside_and_outside(
    lock: LockLike, client: Redisson, servers: Servers
) -> None:
    async with lock:
        with anyio.move_on_after(0.01) as scope:
            await anyio.sleep(30)
        assert scope.cancelled_caught
        assert await lock.locked()
    with anyio.move_on_after(0.01) as scope:
        async with lock:
            await anyio.sleep(30)
    assert scope.cancelled_caught
    with anyio.fail_after(30):
        await servers.settled(client)
        assert not await lock.locked()
    assert not_cancelled()


async def test_task_cancel_from_outside_releases_and_propagates(lock: LockLike) -> None:
    inside = asyncio.Event()

    async def work() -> None:
        async with lock:
            inside.set()
            await asyncio.sleep(30)

    task = asyncio.create_task(work())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not await lock.locked()


@timed
async def test_loss_inside_other_blocks_reaches_the_right_one(
    make_lock: MakeLock, clients: ClientFactory, servers: Servers
) -> None:
    client = clients()
    outer, inner = make_lock(client, "outer"), make_lock(client, "inner")
    async with outer.hold(lease_time=60) as kept:
        with pytest.raises(LeaseLostError) as caught:
            async with asyncio.timeout(20), inner:
                with anyio.move_on_after(20):
                    await servers.forget("inner")
                    servers.renew_now(client)
                    await asyncio.sleep(30)
        assert caught.value.name == inner.name
        assert not kept.lost
        await asyncio.sleep(0)
    assert not_cancelled()


@timed
async def test_loss_of_the_outer_lock_goes_through_the_inner_block(
    make_lock: MakeLock, clients: ClientFactory, servers: Servers
) -> None:
    client = clients()
    outer, inner = make_lock(client, "outer"), make_lock(client, "inner")
    with pytest.raises(LeaseLostError) as caught:
        async with outer, inner.hold(lease_time=60):
            await servers.forget("outer")
            servers.renew_now(client)
            await asyncio.sleep(30)
    assert caught.value.name == outer.name
    assert not await inner.locked()
    assert not_cancelled()


async def test_loss_of_both_at_once_is_reported_for_both(
    make_lock: MakeLock, clients: ClientFactory, servers: Servers
) -> None:
    client = clients()
    outer, inner = make_lock(client, "outer"), make_lock(client, "inner")
    with pytest.raises(LeaseLostError) as caught:
        async with outer, inner:
            await servers.forget("outer", "inner")
            servers.renew_now(client)
            await asyncio.sleep(30)
    assert "LeaseLostError" in str(getattr(caught.value, "__notes__", "")) or (
        caught.value.name == outer.name
    )
    assert client.statistics().losses == 2
    assert not_cancelled()
    await asyncio.sleep(0)


async def test_loss_in_a_task_group_cancels_its_children(
    make_lock: MakeLock, clients: ClientFactory, servers: Servers
) -> None:
    client = clients()
    children: list[asyncio.Task[None]] = []
    with pytest.raises(LeaseLostError):
        async with make_lock(client), asyncio.TaskGroup() as group:
            children += [group.create_task(asyncio.sleep(30)) for _ in range(3)]
            await servers.forget("k")
            servers.renew_now(client)
    assert all(child.cancelled() for child in children)
    with pytest.raises(LeaseLostError):
        async with make_lock(client), anyio.create_task_group() as scope:
            scope.start_soon(anyio.sleep, 30)
            await servers.forget("k")
            servers.renew_now(client)
    assert not_cancelled()


async def test_cancellation_from_outside_wins_against_a_loss(
    kind: Kind, make_lock: MakeLock, clients: ClientFactory, servers: Servers
) -> None:
    client = clients()

    async def work() -> None:
        me = asyncio.current_task()
        assert me is not None
        async with make_lock(client) as lease:
            await servers.forget("k")

            def both_in_one_iteration() -> None:
                # Composite locks: their members are counted.
                for lost in getattr(lease, "_members", [lease]):
                    lost._hold.ownership.context.watchdog.lose(lost._hold, "taken")
                me.cancel()

            asyncio.get_running_loop().call_soon(both_in_one_iteration)
            await asyncio.sleep(30)

    task = asyncio.create_task(work())
    with pytest.raises(asyncio.CancelledError):
        await task
    assert client.statistics().losses == kind.members


async def test_generator_style_reuse_in_one_task(lock: LockLike) -> None:
    for _ in range(3):
        async with lock:
            pass
        async with lock.hold(timeout=30):
            pass
    assert not await lock.locked()
