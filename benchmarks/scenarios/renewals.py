"""What it costs to keep locks: processor time, commands, and how long the event loop stands."""

from __future__ import annotations

import asyncio
import os
from time import monotonic, process_time

from benchmarks.crew import Bench, worker
from benchmarks.harness import Table
from benchmarks.rivals import (
    AIOREDLOCK,
    OURS,
    OURS_UVLOOP,
    POTTERY,
    PYTHON_REDIS_LOCK,
    REDIS_PY,
)
from benchmarks.rivals.side import CannotError, Side
from benchmarks.scenarios.counting import Counter

NAME = "renewals"

_BATCH = 100
_TICK = 0.002


async def measure(bench: Bench) -> Table:
    """Measure ours with many locks, rivals that renew with fewer."""
    size = bench.size
    table = Table(NAME, f"Renewing held locks with a lease of {size.renewed_lease:g} s")
    for side in bench.sides(
        table, OURS, OURS_UVLOOP, REDIS_PY, PYTHON_REDIS_LOCK, POTTERY, AIOREDLOCK
    ):
        held = size.held if side in (OURS, OURS_UVLOOP) else size.held_by_rivals
        try:
            await bench.workers[side][0].do("renews")
        except CannotError as reason:
            table.absent[side] = str(reason)
            continue
        # A worker of its own, that is killed: nobody has to release all those.
        async with worker(side, bench.url) as one:
            figures = await one.do(
                "renew",
                url=bench.url,
                held=held,
                lease=size.renewed_lease,
                renewals=size.renewals,
            )
        table.add(f"{side}, {held:,} locks", figures)
    return table


# In the workers.


async def renews(side: Side) -> None:
    """Raise `CannotError` if nothing here renews."""
    if not side.renewed_after:
        raise CannotError("does not renew by itself")


async def renew(
    side: Side, *, url: str, held: int, lease: float, renewals: int
) -> dict[str, float]:
    """Hold locks and watch them being renewed `renewals` times; return the costs of one."""
    period = lease * side.renewed_after
    idle = (await _watched(min(1.0, period)))[0] / min(1.0, period)
    # Those of the worker before this one are still held.
    names = [f"renewed:{os.getpid()}:{number}" for number in range(held)]
    for start in range(0, held, _BATCH):
        await asyncio.gather(
            *[side.hold_renewed(name, lease) for name in names[start : start + _BATCH]]
        )
    with Counter(url) as counter:
        # Past the first renewal, whose moments are those of the acquisitions.
        await asyncio.sleep(period)
        counter.begin()
        busy, stand = await _watched(period * renewals)
        counts = counter.since()
    client = busy / renewals - idle * period
    return {
        "commands each time": counts.commands / renewals,
        "client ms each time": client * 1e3,
        "client us a lock": client / held * 1e6,
        "server us a lock": counts.cpu / renewals / held * 1e6,
        "longest stand of the loop, ms": stand * 1e3,
    }


async def _watched(seconds: float) -> tuple[float, float]:
    """Return the processor time of a while, and the longest delay of a timer in it."""
    longest = 0.0
    used, end = process_time(), monotonic() + seconds
    while (present := monotonic()) < end:
        await asyncio.sleep(_TICK)
        longest = max(longest, monotonic() - present - _TICK)
    return process_time() - used, longest
