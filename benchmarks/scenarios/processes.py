"""Hand-off between processes: as `handoff.py`, where a party is a process.

With one task in each process and empty sections, two processes alternate strictly: every gap
is a release that leaves one process, the message that wakes the other, and its question and
answer. With several tasks in each a process passes the lock among its own for its turn
(10 ms) first; gaps are between processes still.
"""

from __future__ import annotations

import asyncio
from time import monotonic

from benchmarks.crew import Bench, alternately
from benchmarks.harness import Table
from benchmarks.rivals import (
    BARE,
    BARE_UVLOOP,
    OURS,
    OURS_UVLOOP,
    PYTHON_REDIS_LOCK,
    REDIS_PY,
    REDISSON,
)
from benchmarks.rivals.kinds import FAIR, LOCK
from benchmarks.scenarios.handoff import HandOffs, HandOffTable, summary

NAME = "hand-off across processes"

#: Seconds until all workers have their orders.
_LEAD = 0.02


def row(side: str, processes: int, tasks: int, kind: str = LOCK) -> str:
    """Return the heading of the figures of a crew."""
    what = "" if kind == LOCK else f", {kind}"
    return f"{side}{what}, {processes} x {tasks} task{'s' if tasks > 1 else ''}"


async def measure(bench: Bench) -> Table:
    """Every crew of ours; of the bare stream and others two processes with one task each."""
    size = bench.size
    found = HandOffTable(
        bench,
        NAME,
        "Hand-off across processes: from the end of one's section to the beginning of another's",
    )
    ours = bench.sides(found.table, OURS, OURS_UVLOOP)
    others = bench.sides(found.table, BARE, BARE_UVLOOP, REDISSON)
    for processes, tasks in size.crews:
        sides = ours + others if (processes, tasks) == (2, 1) else ours
        # A fair lock is never passed: with more tasks its gaps are the same.
        cases = [(side, LOCK) for side in sides] + [(side, FAIR) for side in ours if tasks == 1]
        for _, (side, kind) in alternately(cases, size.rounds):
            await found.ping(side, rested=True)
            # Where a turn takes 10 ms, fewer of them go into a round.
            seconds = size.seconds * (2 if tasks > 1 else 1)
            hand_offs = await _together(bench, side, processes, tasks, seconds, kind)
            found.note(row(side, processes, tasks, kind), side, hand_offs, seconds)
    for side in bench.sides(found.table, REDIS_PY, PYTHON_REDIS_LOCK):
        hand_offs = await _together(bench, side, 2, 1, size.slow_seconds)
        found.note(row(side, 2, 1), side, hand_offs, size.slow_seconds)
    return found.finish()


async def _together(
    bench: Bench, side: str, processes: int, tasks: int, seconds: float, kind: str = LOCK
) -> HandOffs | None:
    start_at = monotonic() + _LEAD
    name = f"processes:{start_at}"
    lists = await asyncio.gather(
        *[
            one.do(
                "sections", tasks=tasks, seconds=seconds, name=name, start_at=start_at, kind=kind
            )
            for one in bench.workers[side][:processes]
        ]
    )
    of_all = [(begin, end, who) for who, found in enumerate(lists) for begin, end, _ in found]
    return summary(of_all, processes)
