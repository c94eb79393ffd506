"""The cancellation sweep finds leaks at one point, at one moment, or when cancelled twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress

import pytest

from tests.support.cancellation_sweep import KINDS, Probe, sweep

Operation = Callable[["Box"], Coroutine[object, object, None]]


class Box:
    """What operations take and must give back."""

    def __init__(self) -> None:
        self.taken = 0

    async def wait(self) -> None:
        """One suspension, which ends by itself."""
        await self._sent(lambda: None)

    async def receive(self) -> None:
        """Wait for something that counts as taken from the moment it is sent."""
        await self._sent(self._take)
        self.taken -= 1

    def _take(self) -> None:
        self.taken += 1

    def _sent(self, send: Callable[[], None]) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def answer() -> None:
            if not future.done():
                send()
                future.set_result(None)

        # Two turns, so that a cancellation in the next turn comes before it.
        loop.call_soon(loop.call_soon, answer)
        return future


async def sound(box: Box) -> None:
    await box.wait()
    box.taken += 1
    try:
        await box.wait()
    finally:
        box.taken -= 1
    await box.wait()


async def leaks_at_the_second(box: Box) -> None:
    await box.wait()
    box.taken += 1
    await box.wait()
    box.taken -= 1
    await box.wait()


async def leaks_at_the_second_when_answered(box: Box) -> None:
    await box.wait()
    await box.receive()
    await box.wait()


async def leaks_when_cancelled_on_its_way_out(box: Box) -> None:
    await box.wait()
    box.taken += 1
    try:
        await box.wait()
    finally:
        with suppress(asyncio.CancelledError):
            await box.wait()
            box.taken -= 1


async def swallows(box: Box) -> None:
    await box.wait()
    with suppress(asyncio.CancelledError):
        await box.wait()


def trial_of(operation: Operation) -> Callable[[Probe], Coroutine[object, object, None]]:
    async def trial(cut: Probe) -> None:
        box = Box()
        await cut(operation(box))
        assert box.taken == 0, "leaked"
        # The task is as it was: it can wait, and nothing is pending.
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        await asyncio.sleep(0)

    return trial


async def test_every_point_is_swept_in_every_way() -> None:
    swept = await sweep(trial_of(sound))
    assert len(swept.places) == 3
    assert swept.cancellations == 3 * len(KINDS) * 2
    assert swept.again == 0
    assert str(swept) == "18 cancellations at 3 suspension points, 0 of them twice in a row"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("answered", [False, True])
async def test_leak_is_found_where_it_is_and_nowhere_else(kind: str, answered: bool) -> None:
    trial = trial_of(leaks_at_the_second)
    for at in (1, 3, 4):
        probe = Probe(kind, at, answered=answered)
        await trial(probe)
        assert probe.cancelled == (at < 4)
    with pytest.raises(AssertionError, match="leaked"):
        await trial(Probe(kind, 2, answered=answered))


async def test_sweep_says_where_the_leak_is() -> None:
    with pytest.raises(AssertionError, match="leaked") as caught:
        await sweep(trial_of(leaks_at_the_second))
    [note] = caught.value.__notes__
    assert "task.cancel at suspension 2, while it waited: leaks_at_the_second:" in note
    assert " > Box.wait:" in note


@pytest.mark.parametrize("kind", KINDS)
async def test_leak_of_an_answer_nobody_took_is_found(kind: str) -> None:
    trial = trial_of(leaks_at_the_second_when_answered)
    await trial(Probe(kind, 2))
    with pytest.raises(AssertionError, match="leaked"):
        await trial(Probe(kind, 2, answered=True))


@pytest.mark.parametrize("kind", ["task.cancel", "asyncio.timeout"])
async def test_leak_by_a_second_cancellation_is_found(kind: str) -> None:
    """A scope needs no second one: it cancels whatever is awaited in it."""
    trial = trial_of(leaks_when_cancelled_on_its_way_out)
    await trial(Probe(kind, 2))
    with pytest.raises(AssertionError, match="leaked"):
        await trial(Probe(kind, 2, twice=True))
    with pytest.raises(AssertionError, match="leaked") as caught:
        await sweep(trial)
    assert (
        "task.cancel at suspension 2, while it waited and at the next one"
        in (caught.value.__notes__[0])
    )


@pytest.mark.parametrize("kind", KINDS)
async def test_swallowed_cancellation_is_found(kind: str) -> None:
    trial = trial_of(swallows)
    with pytest.raises(AssertionError, match="swallowed"):
        await trial(Probe(kind, 2))


async def test_cancellation_by_somebody_else_is_not_taken_for_the_probe_s() -> None:
    async def trial() -> None:
        await Probe("task.cancel", 2)(asyncio.sleep(30))

    task = asyncio.create_task(trial())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("kind", KINDS)
async def test_errors_and_results_of_the_operation_come_through(kind: str) -> None:
    class OwnTimeoutError(TimeoutError): ...

    async def fails() -> None:
        await asyncio.sleep(0)
        raise OwnTimeoutError

    async def returns() -> int:
        await asyncio.sleep(0)
        return 7

    assert await Probe(kind, 2)(returns()) == 7
    assert await Probe(kind, 1)(returns()) is None
    with pytest.raises(OwnTimeoutError):
        await Probe(kind, 2)(fails())
