"""The fair lock under a crowd: how many get in, and whether those who asked first are first."""

from __future__ import annotations

from benchmarks.crew import Bench
from benchmarks.harness import Table, percentile
from benchmarks.rivals import OURS, OURS_UVLOOP, REDIS_PY
from benchmarks.rivals.kinds import FAIR, LOCK
from benchmarks.scenarios.visits import (
    Visit,
    at_once,
    evenness,
    later_visits,
    positions_lost,
    wait_ms,
    watch,
)

NAME = "order"


async def measure(bench: Bench) -> Table:
    """Measure the fair lock, and beside it locks that are not."""
    size = bench.size
    processes, tasks = size.fair_crew
    table = Table(
        NAME,
        f"Order: {processes * tasks} tasks in {processes} processes on one name, empty sections",
    )
    sides = bench.sides(table, OURS, OURS_UVLOOP, REDIS_PY)
    cases = [(side, FAIR) for side in sides if side != REDIS_PY]
    cases += [(side, LOCK) for side in sides if side != OURS_UVLOOP or OURS not in sides]
    for done in range(size.other_rounds):
        for side, kind in cases:
            # Somebody who polls needs no second round to show what that does to order.
            if side == REDIS_PY and done:
                continue
            crew = bench.workers[side][:processes]
            found = await watch(crew, tasks=tasks, seconds=size.slow_seconds, kind=kind)
            assert at_once(found) <= 1, f"two in {kind} at once"
            if found:
                table.add(f"{side}, {kind}", _figures(found, processes * tasks, size.slow_seconds))
        cases.reverse()
    table.notes += [
        "Places lost: how many asked later, by the clock in front of the call, and were in sooner;"
        " of everybody's first visit, for which all asked at once, nothing is said.",
        "Evenness is Jain's index of the visits of all tasks: 1 is even.",
    ]
    return table


def _figures(found: list[Visit], parties: int, seconds: float) -> dict[str, float]:
    lost = positions_lost(later_visits(found)) or [0]
    return {
        "visits/s": len(found) / seconds,
        "evenness": evenness(found, parties),
        "median wait ms": wait_ms(found, 0.5),
        "p99 wait ms": wait_ms(found, 0.99),
        "p99 places lost": percentile(lost, 0.99),
        "most places lost": max(lost),
    }
