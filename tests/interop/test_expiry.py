"""Leases that end by themselves, and holds that an operator ends: each side learns it."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial

import pytest

from redisson_py import LeaseLostError
from redisson_py._engine.hold import lease_end
from redisson_py._time import now
from tests.interop.java import JavaError
from tests.interop.kinds import SOON, Scene, Theirs, at_once, that_look_again, until_ours_waits
from tests.support.waiting import until_async

#: Long enough for all kinds to be asked for in vain meanwhile, and for Java to fall asleep.
LEASE = 12.0


async def unlock_too_late(theirs: Theirs, scene: Scene) -> None:
    """Java releases what it has no more: it is told so, and the holder does not notice."""
    ids = [await redisson.call("getId") for redisson in theirs.redissons]

    async def has_ended() -> bool:
        # Whoever got a red lock has two servers of three; the third lease may end later.
        state = str(await scene.state())
        return not any(each in state for each in ids)

    await until_async(has_ended)
    before = await scene.state()
    if scene.kind.strict:
        with pytest.raises(JavaError) as refused:
            await theirs.unlock()
        assert refused.value.kind == "IllegalMonitorStateException"
    else:
        await theirs.unlock()
    assert await scene.state() == before


def untold(scene: Scene) -> AbstractAsyncContextManager[None]:
    """Fail if anything is published; of several locks, some are given back when others end."""
    return nullcontext() if scene.kind.joint else scene.nothing_said()


async def we_wait_for_the_end(scene: Scene) -> None:
    theirs, ours = await scene.theirs(), scene.ours()
    start = now()
    async with untold(scene):
        assert await theirs.try_lock(lease_time=LEASE)
        assert await ours.try_acquire() is None
        lease = await ours.acquire(timeout=SOON)
        assert now() - start >= LEASE
    await unlock_too_late(theirs, scene)
    assert not await theirs.try_lock()
    lease.check()
    await lease.release()


async def java_waits_for_the_end(scene: Scene) -> None:
    theirs, ours = await scene.theirs(), scene.ours()
    start = now()
    async with untold(scene):
        lease = await ours.acquire(lease_time=LEASE)
        waiting = await theirs.waits()
        assert await waiting
        assert lease.lost
        assert now() - start >= (lease_end(0, LEASE) if scene.kind.joint else LEASE)
    before = await scene.state()
    with pytest.raises(LeaseLostError):
        await lease.release()
    assert await scene.state() == before
    assert await ours.try_acquire() is None
    await theirs.unlock("b")


async def java_loses_it(scene: Scene, by: str) -> None:
    theirs, ours = await scene.theirs(), scene.ours()
    operator = scene.ours()
    assert await theirs.try_lock()
    waiting = asyncio.create_task(ours.acquire(timeout=SOON))
    await until_ours_waits(ours)
    await (theirs.force_unlock() if by == "java" else operator.force_release())
    lease = await waiting
    await unlock_too_late(theirs, scene)
    assert not await theirs.try_lock()
    lease.check()
    await lease.release()


async def we_lose_it(scene: Scene, by: str) -> None:
    theirs, ours = await scene.theirs(), scene.ours()
    operator = scene.ours()
    lease = await ours.acquire()
    waiting = await theirs.waits()
    async with asyncio.timeout(SOON):
        await (theirs.force_unlock() if by == "java" else operator.force_release())
        assert await waiting
    before = await scene.state()
    with pytest.raises(LeaseLostError):
        await lease.release()
    assert await scene.state() == before
    await theirs.unlock("b")


async def our_body_is_cancelled(scene: Scene) -> None:
    theirs, ours = await scene.theirs(), scene.ours(lease_time=12)
    cancelled = False

    async def take_away() -> None:
        await theirs.force_unlock()
        assert await theirs.try_lock("b")

    taking: asyncio.Task[None] | None = None
    with pytest.raises(LeaseLostError) as lost:
        async with ours as lease:
            taking = asyncio.create_task(take_away())
            try:
                # The body may be told before Java has answered.
                await asyncio.shield(taking)
                await asyncio.sleep(4 * SOON)
            except asyncio.CancelledError:
                cancelled = lease.lost
                raise
    assert cancelled
    assert taking is not None
    await taking
    assert (lost.value.owner, lost.value.name) == (lease.owner, lease.name)
    assert await ours.try_acquire() is None
    await theirs.unlock("b")


@pytest.mark.usefixtures("only_messages")
async def test_we_get_in_when_javas_lease_ends_and_not_before(scenes: list[Scene]) -> None:
    await at_once(scenes, we_wait_for_the_end)


async def test_java_gets_in_when_our_lease_ends_and_not_before(scenes: list[Scene]) -> None:
    await at_once(that_look_again(scenes), java_waits_for_the_end)


@pytest.mark.usefixtures("only_messages")
@pytest.mark.parametrize("by", ["java", "python"])
async def test_what_java_loses_to_an_operator_is_ours_at_once(scenes: list[Scene], by: str) -> None:
    await at_once(scenes, partial(java_loses_it, by=by))


@pytest.mark.parametrize("by", ["java", "python"])
async def test_what_we_lose_to_an_operator_is_javas_at_once(scenes: list[Scene], by: str) -> None:
    await at_once(scenes, partial(we_lose_it, by=by))


async def test_our_body_is_cancelled_when_java_frees_what_it_holds(scenes: list[Scene]) -> None:
    await at_once(scenes, our_body_is_cancelled)
