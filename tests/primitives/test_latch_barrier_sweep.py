"""Cancelled at any suspension point, in any way, latches and barriers stay whole.

Each trial puts one public operation through a probe (see `tests.support.cancellation_sweep`). Of a
latch must be left what one complete call leaves, or none; waiters are let go all the same. Of a
barrier: who was cancelled while it waited has broken it, or had been let go; reset, it works.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from redisson_py import AcquireTimeoutError, BrokenBarrierError, ClientClosedError
from redisson_py._redis.stream import stream
from tests.fixtures.client import ClientFactory, assert_idle
from tests.support.cancellation_scene import SOON, once
from tests.support.cancellation_sweep import Probe, sweep
from tests.support.latch_and_barrier import get_barrier, get_latch
from tests.support.streams import answered, stream_of
from tests.support.waiting import set_safety_poll, until_async, until_listening, until_waiting


class Scene:
    """A client whose operation is cancelled, and another; one latch and one barrier of both."""

    def __init__(self, clients: ClientFactory) -> None:
        self.new_client = clients
        self.client, self.other = clients(), clients()
        self.latch, self.others_latch = get_latch(self.client), get_latch(self.other)
        self.barrier = get_barrier(self.client, parties=2)
        self.others_barrier = get_barrier(self.other, parties=2)

    def asleep(self) -> bool:
        """Whether whoever waits does so for a message, and not for an answer."""
        stream = stream_of(self.client)
        return self.client._context.bus.table.seats > 0 and stream.ready and not stream.waiting

    def when_asleep(self, cut: Probe, act: Callable[[], object]) -> Callable[[], object]:
        """Act when the operation waits for a message, unless it is cancelled there and then."""
        return lambda: self.asleep() and (cut.answered or cut.point is None) and act()

    async def lose_connection(self) -> None:
        """Break the client's connection; it makes another one in the next turns of the loop."""
        await answered(self.client)
        stream_of(self.client).abort("the test says so")

    async def check(self) -> None:
        """Fail if anything is left of the operation, or if things do not work any more."""
        # What an abandoned operation still had to send was sent before this.
        await answered(self.client)
        assert_idle(self.client)
        await self.others_latch.delete()
        await self.latch.try_set_count(1)
        waiting = [asyncio.create_task(self.latch.wait(SOON)) for _ in range(2)]
        await until_waiting(self.client, 2)
        await self.others_latch.count_down()
        await asyncio.gather(*waiting)
        await self.others_barrier.reset()
        met = await asyncio.gather(self.barrier.wait(SOON), self.others_barrier.wait(SOON))
        assert sorted(met) == [0, 1]
        assert_idle(self.client)


Trial = Callable[[Scene, Probe], Coroutine[object, object, None]]
TRIALS: list[Trial] = []


def trial(function: Trial) -> Trial:
    TRIALS.append(function)
    return function


# The latch.


@trial
async def wait_for_a_latch(scene: Scene, cut: Probe) -> None:
    await scene.latch.try_set_count(1)
    open_it = once(scene.others_latch.count_down)
    await cut(scene.latch.wait(), scene.when_asleep(cut, open_it))
    assert scene.client.statistics().waiters == 0
    await open_it()


@trial
async def wait_for_a_latch_before_others(scene: Scene, cut: Probe) -> None:
    await scene.latch.try_set_count(1)
    follow = [once(lambda: scene.latch.wait(SOON)) for _ in range(2)]
    open_it = once(scene.others_latch.count_down)

    def act() -> None:
        for each in follow:
            each()
        open_it()

    await cut(scene.latch.wait(), scene.when_asleep(cut, act))
    act()
    await asyncio.gather(open_it(), *(each() for each in follow))


@trial
async def take_over_from_a_head_that_left(scene: Scene, cut: Probe) -> None:
    await scene.latch.try_set_count(1)
    head = asyncio.create_task(scene.latch.wait(SOON))
    await until_listening(scene.client)
    open_it = once(scene.others_latch.count_down)

    def act() -> None:
        if not head.cancelling():
            head.cancel()
        else:
            open_it()

    await cut(scene.latch.wait(), scene.when_asleep(cut, act))
    head.cancel()
    await asyncio.wait([head])
    await open_it()


@trial
async def wait_with_a_count(scene: Scene, cut: Probe) -> None:
    latch = get_latch(scene.client, count=1)
    open_it = once(scene.others_latch.count_down)
    await cut(latch.wait(), scene.when_asleep(cut, open_it))
    await open_it()


@trial
async def wait_until_the_latch_ends(scene: Scene, cut: Probe) -> None:
    await scene.latch.try_set_count(1, expire_in=0.03)
    await cut(scene.latch.wait())
    assert scene.client.statistics().waiters == 0


@trial
async def set_a_count_with_an_end(scene: Scene, cut: Probe) -> None:
    assert await cut(scene.latch.try_set_count(2, expire_in=60)) in (True, None)
    # Carried out in either case, but another connection may be faster.
    await until_async(scene.others_latch.count)
    found = await scene.others_latch.inspect()
    assert found.count == 2
    assert found.ends_in is not None


@trial
async def wait_until_time_is_up(scene: Scene, cut: Probe) -> None:
    await scene.latch.try_set_count(1)
    try:
        await cut(scene.latch.wait(0.03))
    except AcquireTimeoutError:
        assert not cut.cancelled
    else:
        assert cut.cancelled


@trial
async def count_down(scene: Scene, cut: Probe) -> None:
    await scene.latch.try_set_count(3)
    left = await cut(scene.latch.count_down())
    assert left in (2, None)
    # Carried out in either case.
    assert await scene.latch.count() == 2


@trial
async def count_down_while_reconnecting(scene: Scene, cut: Probe) -> None:
    await scene.latch.try_set_count(3)
    await scene.lose_connection()
    await cut(scene.latch.count_down())
    assert await scene.latch.count() == 2


@trial
async def try_set_count(scene: Scene, cut: Probe) -> None:
    await cut(scene.latch.try_set_count(3))
    assert await scene.latch.count() == 3


@trial
async def delete(scene: Scene, cut: Probe) -> None:
    await scene.latch.try_set_count(3)
    await cut(scene.latch.delete())
    assert await scene.latch.count() == 0


@trial
async def aclose_while_tasks_wait_for_a_latch(scene: Scene, cut: Probe) -> None:
    await scene.latch.try_set_count(1)
    client = scene.new_client()
    latch = get_latch(client)
    waiting = [asyncio.create_task(latch.wait()) for _ in range(3)]
    await until_listening(client)
    await cut(client.aclose())
    await assert_sent_away(*waiting)
    await client.aclose()


# The barrier.


@trial
async def be_the_last_to_come(scene: Scene, cut: Probe) -> None:
    others = asyncio.create_task(scene.others_barrier.wait(SOON))
    await until_listening(scene.other)
    await answered(scene.client)
    position = await cut(scene.barrier.wait())
    assert position in (1, None)
    assert await let_go(others) or position is None


@trial
async def arrive_while_reconnecting(scene: Scene, cut: Probe) -> None:
    others = asyncio.create_task(scene.others_barrier.wait(SOON))
    await until_listening(scene.other)
    await scene.lose_connection()
    position = await cut(scene.barrier.wait())
    if position is None and not others.done():
        # It may have been cancelled before it was heard of.
        await answered(scene.client)
        await scene.others_barrier.reset()
    assert await let_go(others) or position is None


@trial
async def arrive_in_a_full_stream(scene: Scene, cut: Probe) -> None:
    with pytest.MonkeyPatch.context() as patch:
        # As it is when very much is under way: whoever comes has to wait for the answers.
        patch.setattr(stream, "MAX_COMMANDS_IN_FLIGHT", 1)
        await answered(scene.client)
        before = asyncio.create_task(scene.client.ping())
        await asyncio.sleep(0)
        sent = [scene.client.statistics().commands_sent]
        barrier = get_barrier(scene.client, parties=1)
        await cut(barrier.wait(), lambda: sent.append(scene.client.statistics().commands_sent))
        assert sent[0] == sent[1]
        await before


@trial
async def wait_for_the_last_to_come(scene: Scene, cut: Probe) -> None:
    come = once(lambda: scene.others_barrier.wait(SOON))
    position = await cut(scene.barrier.wait(), scene.when_asleep(cut, come))
    assert scene.client.statistics().waiters == 0
    await end_the_round(scene, position)
    assert await let_go(come()) or position is None


@trial
async def wait_and_time_out(scene: Scene, cut: Probe) -> None:
    await answered(scene.client)
    try:
        await cut(scene.barrier.wait(0.03))
    except AcquireTimeoutError:
        assert not cut.cancelled
    else:
        assert cut.cancelled
    await answered(scene.client)
    assert await scene.others_barrier.broken() or cut.cancelled
    assert await scene.others_barrier.n_waiting() == 0


@trial
async def have_no_time(scene: Scene, cut: Probe) -> None:
    try:
        await cut(scene.barrier.wait(0))
    except AcquireTimeoutError:
        assert not cut.cancelled
    await answered(scene.client)
    assert await scene.others_barrier.n_waiting() == 0


@trial
async def abort_and_reset(scene: Scene, cut: Probe) -> None:
    others = asyncio.create_task(scene.others_barrier.wait(SOON))
    await until_listening(scene.other)
    await cut(scene.barrier.abort())
    assert not await let_go(others)
    assert await scene.others_barrier.broken()
    await cut(scene.barrier.reset())
    assert not await scene.barrier.broken()


@trial
async def aclose_while_parties_wait(scene: Scene, cut: Probe) -> None:
    client = scene.new_client()
    waiting = [
        asyncio.create_task(get_barrier(client, name, parties=3).wait()) for name in ("r", "b2")
    ]
    await until_waiting(client, 2)
    await until_listening(client)
    await cut(client.aclose())
    await assert_sent_away(*waiting)
    await client.aclose()
    # Or, if it was cut short, within one lease.
    assert cut.cancelled or await scene.others_barrier.broken()
    await get_barrier(scene.other, "b2").reset()


async def end_the_round(scene: Scene, position: int | None) -> None:
    """Break the barrier if who was cancelled was never heard of: nobody else will come."""
    if position is None and not await scene.others_barrier.broken():
        await scene.others_barrier.abort()


async def let_go(party: asyncio.Task[int]) -> bool:
    """Return whether a party was let go; fail if it was neither that nor told of a break."""
    try:
        await party
    except BrokenBarrierError:
        return False
    return True


async def assert_sent_away(*waiting: asyncio.Task[Any]) -> None:
    """Fail unless all learn that the client was closed."""
    async with asyncio.timeout(SOON):
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {ClientClosedError}


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
