"""One side holds, the other wants: refused, timed out, woken by the release."""

from __future__ import annotations

import asyncio

import pytest

from redisson_py import AcquireTimeoutError
from tests.interop.java import MS, JavaError
from tests.interop.kinds import SOON, Scene, until_ours_waits

pytestmark = pytest.mark.also("interop-older", "interop-cluster")


@pytest.mark.usefixtures("old_busy_counts")
async def test_what_java_holds_is_refused_to_us(scene: Scene) -> None:
    theirs, ours = await scene.theirs(), scene.ours()
    assert await theirs.try_lock()
    before = await scene.state()
    assert await ours.try_acquire() is None
    assert await ours.try_acquire(timeout=0.5) is None
    with pytest.raises(AcquireTimeoutError):
        await ours.acquire(timeout=0.5)
    assert await scene.state() == before
    await theirs.unlock()
    lease = await ours.try_acquire()
    assert lease is not None
    await lease.release()
    assert await scene.state() == []


async def test_what_we_hold_is_refused_to_java(scene: Scene) -> None:
    theirs, ours = await scene.theirs(), scene.ours()
    async with ours:
        before = await scene.state()
        assert not await theirs.try_lock()
        assert not await theirs.try_lock(lease_time=5)
        assert not await theirs.call("tryLock", 100, MS)
        assert await scene.state() == before
    assert await theirs.try_lock()
    await theirs.unlock()
    assert await scene.state() == []


@pytest.mark.usefixtures("only_messages")
async def test_javas_last_release_wakes_us(scene: Scene) -> None:
    theirs, ours = await scene.theirs(), scene.ours()
    holds = 2 if scene.kind.reentrant else 1
    for _ in range(holds):
        assert await theirs.try_lock()
    waiting = asyncio.create_task(ours.acquire())
    await until_ours_waits(ours)
    async with scene.nothing_said():
        for _ in range(holds - 1):
            await theirs.unlock()
    assert not await theirs.try_lock("b")
    assert not waiting.done()
    async with asyncio.timeout(SOON):
        await theirs.unlock()
        lease = await waiting
    assert not await theirs.try_lock()
    await lease.release()


async def test_our_last_release_wakes_java(scene: Scene) -> None:
    theirs, ours = await scene.theirs(), scene.ours()
    leases = [await ours.acquire() for _ in range(2 if scene.kind.reentrant else 1)]
    waiting = await theirs.waits()
    async with scene.nothing_said():
        for lease in leases[1:]:
            await lease.release()
    assert await ours.hold_count() == 1
    async with asyncio.timeout(SOON):
        await leases[0].release()
        assert await waiting
    assert await ours.try_acquire() is None
    await theirs.unlock("b")


async def test_only_the_holder_enters_again(scene: Scene) -> None:
    theirs, ours = await scene.theirs(), scene.ours()
    async with ours:
        if scene.kind.reentrant:
            async with ours:
                assert await ours.hold_count() == 2
        else:
            with pytest.raises(RuntimeError, match="this task already holds"):
                await ours.acquire()
        assert not await theirs.try_lock()
    assert await theirs.try_lock()
    if scene.kind.reentrant:
        assert await theirs.try_lock()
        await theirs.unlock()
    else:
        for call in (theirs.try_lock(), theirs.call("lock")):
            with pytest.raises(JavaError) as refused:
                await call
            assert refused.value.kind == "IllegalMonitorStateException"
    assert await ours.try_acquire() is None
    await theirs.unlock()


async def test_nobody_releases_what_the_other_side_holds(scene: Scene) -> None:
    theirs, ours = await scene.theirs(), scene.ours()
    async with ours:
        before = await scene.state()
        if scene.kind.strict:
            with pytest.raises(JavaError) as refused:
                await theirs.unlock()
            assert refused.value.kind == "IllegalMonitorStateException"
        else:
            await theirs.unlock()
        assert await scene.state() == before
