"""Rate limiters: what a grant costs, and how late it is for those who have to wait.

First with a rate that nobody reaches: grants a second are what the client and the server can do.
Then with more tasks than units, in one process: each grant has a moment before which it must not
be, an interval after the grant that is so many units earlier, and the time from there to the line
behind `acquire` is how late it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import monotonic, perf_counter

from benchmarks.crew import Bench
from benchmarks.harness import Table, percentile
from benchmarks.rivals import AIOLIMITER, LIMITS, OURS, OURS_UVLOOP, PYRATE_LIMITER
from benchmarks.rivals.side import Side
from benchmarks.scenarios.counting import SENT_BY_OURS, Counter
from benchmarks.scenarios.uncontended import column

NAME = "rate limiters"

#: Units a second that nobody reaches.
_UNREACHED = 1_000_000

#: Units a second that everybody waits for.
_RATE = 100

#: Seconds: the shortest that all sides know.
_PER = 1.0


async def measure(bench: Bench) -> Table:
    """Measure every side in turn, in one worker."""
    size = bench.size
    table = Table(
        NAME, "Grants a second of a rate limiter, one name; and how late those who wait are"
    )
    sides = bench.sides(table, OURS, OURS_UVLOOP, LIMITS, PYRATE_LIMITER, AIOLIMITER)
    with Counter(bench.url, SENT_BY_OURS) as counter:
        for tasks in size.primitive_tasks:
            for side in bench.alternation(sides):
                counter.begin()
                order = {"tasks": tasks, "seconds": size.seconds, "rate": _UNREACHED, "per": _PER}
                found = await bench.workers[side][0].do("grants", **order)
                figures = {
                    column(tasks): found["grants"] / found["seconds"],
                    f"{column(tasks)}, commands a grant": counter.since().commands
                    / found["grants"],
                }
                table.add(side, figures)
        for _ in range(size.other_rounds):
            for side in sides:
                counter.begin()
                wanted = _RATE * (1 + size.rate_intervals)
                order = {"tasks": size.rate_waiters, "count": wanted, "rate": _RATE, "per": _PER}
                moments = await bench.workers[side][0].do("limited", **order)
                late = lateness(moments, _RATE, _PER)
                table.add(
                    side,
                    {
                        "waiters, commands a grant": counter.since().commands / len(moments),
                        "late, ms": percentile(late, 0.5) * 1e3,
                        "late p99, ms": percentile(late, 0.99) * 1e3,
                    },
                )
    table.notes += [
        f"Waiters: {size.rate_waiters} tasks of one process, {_RATE} units in any {_PER:g} s.",
        f"{LIMITS} has no call that waits: a task that is refused sleeps until the window's reset"
        f" time. {AIOLIMITER} limits one process only, without a server.",
    ]
    return table


def lateness(moments: Sequence[float], rate: int, per: float) -> list[float]:
    """Return how many seconds each grant came after the first moment at which it might."""
    ordered = sorted(moments)
    return [at - before - per for before, at in zip(ordered, ordered[rate:], strict=False)]


# In the workers.


async def grants(
    side: Side, *, tasks: int, seconds: float, rate: int, per: float
) -> dict[str, float]:
    """Have tasks take units for a while; return how many, and for how long."""
    take = await side.limiter(f"rates:{monotonic()}", rate, per)
    start = perf_counter()
    end = start + seconds

    async def some() -> int:
        done = 0
        while not done or perf_counter() < end:
            await take()
            done += 1
        return done

    done = sum(await asyncio.gather(*(some() for _ in range(tasks))))
    return {"grants": done, "seconds": perf_counter() - start}


async def limited(side: Side, *, tasks: int, count: int, rate: int, per: float) -> list[float]:
    """Have tasks wait for units until there were so many grants; return when each was."""
    take = await side.limiter(f"rates:{monotonic()}", rate, per)
    moments: list[float] = []
    enough = asyncio.Event()

    async def some() -> None:
        while True:
            await take()
            moments.append(perf_counter())
            if len(moments) >= count:
                enough.set()

    waiting = [asyncio.create_task(some()) for _ in range(tasks)]
    done = asyncio.create_task(enough.wait())
    # One that fails is the only one that ends.
    ended, _ = await asyncio.wait([done, *waiting], return_when=asyncio.FIRST_COMPLETED)
    pending = {done, *waiting}
    while pending:
        for each in pending:
            each.cancel()
        # A rival may swallow a cancellation, and go on.
        _, pending = await asyncio.wait(pending, timeout=0.1)
    for each in ended:
        each.result()
    return moments[:count]
