"""How long a client in the queue sleeps."""

from __future__ import annotations

from redisson_py._commands.wakes import lock_wakes
from redisson_py._engine.bus import Bus
from redisson_py._engine.client_queue import QueueSleeper
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
