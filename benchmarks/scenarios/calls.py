"""Function calls of an uncontended pair: a count, which no load of the machine changes."""

from __future__ import annotations

import cProfile

from benchmarks.crew import Bench
from benchmarks.harness import Table
from benchmarks.rivals import OURS, OURS_UVLOOP
from benchmarks.rivals.ours import Ours
from benchmarks.rivals.side import Side
from redisson_py import Listener, Redisson

NAME = "calls"
COLUMN = "calls a pair"

_PAIRS = 100


async def measure(bench: Bench) -> Table:
    """Count them in both loops."""
    table = Table(NAME, "Function calls of one task's `async with client.get_lock(name)`")
    for side in bench.sides(table, OURS, OURS_UVLOOP):
        worker = bench.workers[side][0]
        table.add(side, {COLUMN: await worker.do("count_calls")})
        calls = await worker.do("count_calls", listening=True)
        table.add(f"{side}, with a listener that does nothing", {COLUMN: calls})
    table.notes.append(
        "By cProfile: Python's functions and those written in C. What asyncio calls itself is"
        " among them; what uvloop calls is not."
    )
    return table


# In the workers.


class Deaf(Listener):
    """Does nothing with what it is told."""


async def count_calls(side: Side, *, listening: bool = False) -> float:
    """Return how many functions a pair calls."""
    assert isinstance(side, Ours)
    client = Redisson.from_url(side.url, listener=Deaf()) if listening else side.client
    # All in one coroutine: each that is around it would be resumed, and counted, as well.
    for _ in range(_PAIRS):
        async with client.get_lock("calls"):
            pass
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(_PAIRS):
        async with client.get_lock("calls"):
            pass
    profile.disable()
    if listening:
        await client.aclose()
    return sum(entry.callcount for entry in profile.getstats()) / _PAIRS
