"""Timers, and what is left of an event loop that was closed."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from redisson_py._loop import _RealTimer, call_later, discard, monotonic, new_future, wake


def test_nothing_is_logged_of_a_discarded_task_or_of_what_it_waited_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop = asyncio.new_event_loop()
    waited_for: asyncio.Future[None] = loop.create_future()

    async def wait(future: asyncio.Future[None]) -> None:
        await future

    task = loop.create_task(wait(waited_for))
    loop.run_until_complete(asyncio.sleep(0))
    waited_for.set_exception(ConnectionRefusedError("nobody listens"))
    loop.close()
    discard(task)
    del task, waited_for
    gc.collect()
    assert not caplog.records


async def test_a_timer_that_became_due_while_the_process_was_paused_rings_at_once() -> None:
    """Paused between two looks at the clock, as by SIGSTOP: that is no frozen time."""
    rung = new_future()
    before = monotonic() - 120
    timer = _RealTimer(asyncio.get_running_loop(), before + 60, before, lambda: wake(rung))
    async with asyncio.timeout(30):
        await rung
    timer.cancel()


class Owner:
    """What has a timer, and what the timer calls."""

    def __init__(self) -> None:
        self.rung = new_future()
        self.timer = call_later(0.001, self.ring)

    def ring(self) -> None:
        wake(self.rung)


def timers() -> int:
    return sum(type(each) is _RealTimer for each in gc.get_objects())


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_timer_that_has_ended_keeps_nobody(cancelled: bool) -> None:
    """Without the collector: queues and watches of locks that nobody uses are freed at once."""
    gc.collect()
    gc.disable()
    before = timers()
    try:
        owner = Owner()
        if cancelled:
            owner.timer.cancel()
        else:
            await owner.rung
        kept = weakref.ref(owner)
        del owner
        # The loop's own handle of it is dropped with this turn.
        await asyncio.sleep(0)
        assert kept() is None
        assert timers() == before
    finally:
        gc.enable()
