"""Function calls of an uncontended pair: a count, which no load of the machine changes."""

from __future__ import annotations

import cProfile

from benchmarks.crew import Bench
from benchmarks.harness import Table
from benchmarks.rivals import OURS, OURS_UVLOOP
from benchmarks.rivals.ours import Ours
from benchmarks.rivals.side import Side

NAME = "calls"
COLUMN = "calls a pair"

_PAIRS = 100


async def measure(bench: Bench) -> Table:
    """Count them in both loops."""
    table = Table(NAME, "Function calls of one task's `async with client.get_lock(name)`")
    for side in bench.sides(table, OURS, OURS_UVLOOP):
        table.add(side, {COLUMN: await bench.workers[side][0].do("count_calls")})
    table.notes.append(
        "By cProfile: Python's functions and those written in C. What asyncio calls itself is"
        " among them; what uvloop calls is not."
    )
    return table


# In the workers.


async def count_calls(side: Side) -> float:
    """Return how many functions a pair calls."""
    assert isinstance(side, Ours)
    client = side.client
    for _ in range(_PAIRS):
        async with client.get_lock("calls"):
            pass
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(_PAIRS):
        async with client.get_lock("calls"):
            pass
    profile.disable()
    return sum(entry.callcount for entry in profile.getstats()) / _PAIRS
