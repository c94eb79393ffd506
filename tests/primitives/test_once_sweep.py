"""Cancelled at any suspension point, in any way, `Once` stays whole: it is done, or free."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from redisson_py import Once, Redisson
from tests.fixtures.client import ClientFactory, assert_idle
from tests.support.cancellation_scene import SOON, once
from tests.support.cancellation_sweep import Probe, sweep
from tests.support.streams import answered, stream_of
from tests.support.waiting import set_safety_poll


class Scene:
    """A client whose operation is cancelled, and another."""

    def __init__(self, clients: ClientFactory) -> None:
        self.client, self.other = clients(), clients()
        self.mine, self.theirs = self.client.get_once("k"), self.other.get_once("k")

    def asleep(self) -> bool:
        stream = stream_of(self.client)
        return self.client._context.bus.table.seats > 0 and stream.ready and not stream.waiting

    async def settled(self) -> bool:
        """Return whether it is done, once all is sent that the operation still had to send."""
        await answered(self.client)
        assert_idle(self.client)
        return await is_done(self.other)

    async def check(self) -> None:
        """Fail if anything is left, or if it cannot be carried out again."""
        await self.settled()
        await self.theirs.forget()
        async with self.mine.hold(timeout=SOON) as running:
            assert not running.done
        async with self.theirs.hold(timeout=SOON) as running:
            assert not running.done


async def is_done(client: Redisson) -> bool:
    async with client.get_once("k").hold(timeout=SOON) as entered:
        return entered.done


Trial = Callable[[Scene, Probe], Coroutine[object, object, None]]
TRIALS: list[Trial] = []


def trial(function: Trial) -> Trial:
    TRIALS.append(function)
    return function


async def enter(made: Once) -> bool:
    async with made as entered:
        return entered.done


@trial
async def enter_and_leave(scene: Scene, cut: Probe) -> None:
    assert not await cut(enter(scene.mine))
    assert not await scene.settled()


@trial
async def enter_what_is_done(scene: Scene, cut: Probe) -> None:
    await scene.theirs.run(lambda: b"1")
    assert await cut(enter(scene.mine)) in (True, None)
    assert await scene.settled()


@trial
async def complete_in_a_block(scene: Scene, cut: Probe) -> None:
    async with scene.mine as running:
        await cut(running.complete(b"1"))
        assert cut.point is None or cut.cancelled or running.done
    # Cancelled or not, it is carried out once it was sent.
    assert await scene.settled()


@trial
async def complete_again_after_a_cancellation(scene: Scene, cut: Probe) -> None:
    async with scene.mine as running:
        await cut(running.complete(b"1"))
        if not running.done:
            await running.complete(b"1")
    assert running.done
    assert await scene.settled()


@trial
async def run_it(scene: Scene, cut: Probe) -> None:
    found = await cut(scene.mine.run(lambda: b"1"))
    assert found == (None if cut.cancelled else b"1")
    done = await scene.settled()
    assert done or cut.cancelled


@trial
async def wait_until_it_is_done(scene: Scene, cut: Probe) -> None:
    running = await scene.theirs.acquire()
    complete = once(running.complete)
    found = await cut(
        enter(scene.mine),
        lambda: scene.asleep() and (cut.answered or cut.point is None) and complete(),
    )
    assert found in (True, None)
    await complete()
    assert await scene.settled()


@trial
async def wait_until_its_runner_gives_up(scene: Scene, cut: Probe) -> None:
    running = await scene.theirs.acquire()
    leave = once(running.release)
    found = await cut(
        enter(scene.mine),
        lambda: scene.asleep() and (cut.answered or cut.point is None) and leave(),
    )
    assert not found
    await leave()
    assert not await scene.settled()


@trial
async def forget(scene: Scene, cut: Probe) -> None:
    await scene.theirs.run(lambda: b"1")
    assert await cut(scene.mine.forget()) in (True, None)
    assert not await scene.settled()


@pytest.fixture(autouse=True)
def no_safety_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is to be woken by anything but what this is about."""
    set_safety_poll(monkeypatch, 6 * SOON)


@pytest.mark.parametrize("each", TRIALS, ids=lambda each: each.__name__)
async def test_sweep(each: Trial, clients: ClientFactory) -> None:
    scene = Scene(clients)

    async def run(cut: Probe) -> None:
        await each(scene, cut)
        await scene.check()

    assert (await sweep(run)).cancellations
    await asyncio.sleep(0)
