"""Waiters of one side that give up while the other side waits behind them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial

import pytest

from tests.interop.java import MS, JavaError
from tests.interop.kinds import SOON, Scene, Theirs, at_once, clients_of, only, until_ours_waits


async def java_is_behind_a_waiter(scene: Scene, *, woken: bool) -> None:
    theirs, ours = await scene.theirs(), scene.ours()
    assert await theirs.try_lock()
    waiter = asyncio.create_task(ours.acquire())
    await until_ours_waits(ours)
    behind = await theirs.waits()
    if woken:
        # The message comes to one that has left already.
        theirs.unlock_unheard()
    waiter.cancel()
    async with asyncio.timeout(SOON):
        with suppress(asyncio.CancelledError):
            await waiter
        if not woken:
            ids = [each.owners.client_id for each in clients_of(ours)]
            state = str(await scene.state())
            assert not any(each in state for each in ids)
            await theirs.unlock()
        assert await behind
    await theirs.unlock("b")
    assert await scene.state() == []


@pytest.mark.usefixtures("only_messages")
@pytest.mark.parametrize("woken", [False, True], ids=["asleep", "woken"])
async def test_java_behind_a_waiter_of_ours_that_gives_up_is_woken(
    scenes: list[Scene], woken: bool
) -> None:
    await at_once(scenes, partial(java_is_behind_a_waiter, woken=woken))


async def interrupted(theirs: Theirs, waiting: asyncio.Future[object]) -> None:
    """Interrupt a thread that waits."""
    await theirs.of_thread("interrupt", "b")
    with pytest.raises(JavaError) as error:
        await waiting
    assert error.value.kind == "InterruptedException"


# Redisson's fair locks leave the interrupted in their queue: see below. Its multi locks swallow
# the interruption, and wait on.
@only(lambda kind: not (kind.queues or kind.joint))
@pytest.mark.usefixtures("only_messages")
@pytest.mark.parametrize(("method", "args"), [("tryLock", (30_000, MS)), ("lockInterruptibly", ())])
async def test_we_behind_a_thread_that_is_interrupted_are_woken(
    scene: Scene, method: str, args: tuple[object, ...]
) -> None:
    theirs, ours = await scene.theirs(), scene.ours()
    assert await theirs.try_lock()
    java_waits = theirs.send(method, *args, thread="b")
    await theirs.until_asleep()
    waiting = asyncio.create_task(ours.acquire())
    await until_ours_waits(ours)
    await interrupted(theirs, java_waits)
    async with asyncio.timeout(SOON):
        await theirs.unlock()
        lease = await waiting
    await lease.release()
    assert await scene.state() == []


async def we_are_behind_one_who_was_interrupted(scene: Scene) -> None:
    theirs, ours = await scene.theirs(), scene.ours()
    # Short enough to be waited for, and Java must be interrupted before.
    assert await theirs.try_lock(lease_time=10)
    java_waits = theirs.send("tryLock", 10_000, MS, thread="b")
    await theirs.until_asleep()
    waiting = asyncio.create_task(ours.acquire())
    await until_ours_waits(ours)
    await interrupted(theirs, java_waits)
    async with asyncio.timeout(SOON):
        await theirs.unlock()
        lease = await waiting
    await lease.release()
    assert await scene.state() == []


@pytest.mark.usefixtures("only_messages")
async def test_we_wait_for_an_interrupted_thread_only_while_its_position_is_kept(
    scenes: list[Scene],
) -> None:
    queues = [scene for scene in scenes if scene.kind.queues]
    await at_once(queues, we_are_behind_one_who_was_interrupted)
