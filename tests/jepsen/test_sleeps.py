"""Which sleeps of waiters are recorded: those that a timer ended, and nothing before the answer."""

from __future__ import annotations

import asyncio

import pytest

from redisson_py._commands.wakes import lock_wakes
from redisson_py._engine.wakeups import Table
from tests.jepsen import sleeps
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


def watch_of(sleeper: sleeps._Sleeper) -> sleeps._Watch:
    """Return what is noted of a waiter's sleeps."""
    assert sleeper._watch is not None
    return sleeper._watch


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
