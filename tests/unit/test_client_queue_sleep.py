"""How long a client in the queue sleeps."""

from __future__ import annotations

import asyncio

import pytest

from redisson_py._answers import Busy
from redisson_py._commands.wakes import lock_wakes
from redisson_py._engine.bus import Bus
from redisson_py._engine.client_queue import WATCH_AFTER, QueueSleeper, Together
from redisson_py._engine.wakeups import Table
from redisson_py._loop import loop_time
from redisson_py._time import PUNCTUAL


async def test_it_sleeps_until_the_lease_has_ended() -> None:
    # It would ask all the time until then.
    table = Table()
    sleeper = QueueSleeper(Bus(table), b"channel", lock_wakes)
    sleeper.seat, _ = table.join(b"channel:own", sleeper.heard, sleeper.rouse)
    before = loop_time()
    await sleeper.wait(PUNCTUAL)
    # uvloop's clock has whole milliseconds.
    assert loop_time() - before >= PUNCTUAL - 0.001


@pytest.mark.parametrize("together", [None, Together()])
@pytest.mark.parametrize("watches", [False, True])
async def test_it_looks_if_it_was_told_between_its_request_and_the_answer(
    watches: bool, together: Together | None
) -> None:
    """A loop that is busy reads both at once, and the task that asked goes on later."""
    table = Table()
    sleeper = QueueSleeper(Bus(table), b"channel", lock_wakes, together)
    sleeper.seat, _ = table.join(b"channel:own", sleeper.heard, sleeper.rouse)
    if watches:
        assert sleeper.placed(Busy(None, place=1, calls=False))
    sleeper.arm()
    if watches:
        # A client before this one was called.
        table.message(b"channel", b"00")
    else:
        table.message(b"channel:own", b"2")
    assert not sleeper.placed(Busy(None, place=1 if watches else 2, calls=True))
    before = loop_time()
    async with asyncio.timeout(10):
        await sleeper.wait(600)
    assert loop_time() - before >= WATCH_AFTER / 2
    sleeper.left()
