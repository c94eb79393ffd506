"""Which sleeps of waiters are recorded: those that a timer ended, and nothing before the answer."""

from __future__ import annotations

import asyncio

import pytest

from redisson_py._answers import Busy
from redisson_py._commands.wakes import lock_wakes
from redisson_py._engine.bus import Bus
from redisson_py._engine.wakeups import Table
from tests.jepsen import sleeps
from tests.jepsen.places import Place
from tests.support.waiting import until


@pytest.fixture
def table() -> Table:
    """The seats of a client."""
    return Table()


@pytest.fixture
def sleeper(table: Table) -> sleeps._Sleeper:
    """A waiter that was told "busy"."""
    sleeps._watch.set(sleeps._Watch())
    sleeper = sleeps._Sleeper()
    sleeper.seat, _ = table.join(b"channel", lock_wakes, sleeper.rouse)
    watch_of(sleeper).busy = (1, 2)
    return sleeper


def watch_of(sleeper: sleeps._Noting) -> sleeps._Watch:
    """Return what is noted of a waiter's sleeps."""
    assert sleeper._wait is not None
    return sleeper._wait


async def test_a_sleep_that_a_timer_ends_is_noted(sleeper: sleeps._Sleeper) -> None:
    await sleeper.wait(0.001)
    assert len(watch_of(sleeper).ends) == 1


async def test_a_message_before_the_next_answer_is_in_time(
    sleeper: sleeps._Sleeper, table: Table
) -> None:
    await sleeper.wait(0.001)
    table.message(b"channel", b"0")
    assert not watch_of(sleeper).ends


async def test_a_message_that_comes_in_a_yield_is_in_time_too(
    sleeper: sleeps._Sleeper, table: Table
) -> None:
    await sleeper.wait(0.001)
    yielding = asyncio.create_task(sleeper.wait_for_messages(5, 60))
    await until(lambda: sleeper._future is not None)
    table.message(b"channel", b"0")
    assert not watch_of(sleeper).ends
    yielding.cancel()


async def test_a_yield_is_no_sleep(sleeper: sleeps._Sleeper) -> None:
    await sleeper.wait_for_messages(5, 0.001)
    assert not watch_of(sleeper).ends


class TestInTheQueueOfClients:
    """Its own channel calls it; beside that it may watch the channel of all releases."""

    @pytest.fixture
    def sleeper(self, table: Table) -> sleeps._QueueSleeper:
        """The first in the queue."""
        sleeps._watch.set(sleeps._Watch())
        sleeper = sleeps._QueueSleeper(Bus(table), b"channel", lock_wakes)
        sleeper.seat, _ = table.join(b"channel:own", sleeper.heard, sleeper.rouse)
        watch_of(sleeper).busy = (1, 2)
        return sleeper

    async def test_a_sleep_that_a_timer_ends_is_noted(self, sleeper: sleeps._QueueSleeper) -> None:
        await sleeper.wait(0.001)
        assert len(watch_of(sleeper).ends) == 1

    async def test_a_call_before_the_next_answer_is_in_time(
        self, sleeper: sleeps._QueueSleeper, table: Table
    ) -> None:
        await sleeper.wait(0.001)
        table.message(b"channel:own", b"0")
        assert not watch_of(sleeper).ends

    @pytest.mark.parametrize(("message", "looks"), [(b"0", 0), (b"00", 1)])
    async def test_what_is_overheard(
        self, sleeper: sleeps._QueueSleeper, table: Table, message: bytes, looks: int
    ) -> None:
        assert sleeper.placed(Busy(60, place=0, calls=False))
        sleeping = asyncio.create_task(sleeper.wait(60))
        await until(lambda: sleeper._future is not None)
        table.message(b"channel", message)
        # `00` calls somebody else: it looks when that one does not answer.
        await sleeping
        assert len(watch_of(sleeper).ends) == looks

    @pytest.mark.parametrize(
        ("place", "stands"),
        [(0, Place.FIRST), (1, Place.BEHIND), (2, Place.BEHIND)],
    )
    def test_its_place_is_what_the_server_said(self, place: int, stands: Place) -> None:
        assert sleeps._place(None, Busy(1, place=place)) is stands  # type: ignore[arg-type]
