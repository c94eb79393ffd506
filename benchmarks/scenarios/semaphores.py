"""Semaphores beside others: uncontended pairs, and a crowd that wants three permits."""

from __future__ import annotations

from benchmarks.crew import Bench
from benchmarks.harness import Table
from benchmarks.rivals import OURS, OURS_UVLOOP, PY_REDIS_SEMAPHORE, PY_REDIS_SEMAPHORE_POLLING
from benchmarks.rivals.kinds import PERMITS, SEMAPHORE
from benchmarks.scenarios.uncontended import column
from benchmarks.scenarios.visits import at_once, evenness, wait_ms, watch

NAME = "semaphores"


async def measure(bench: Bench) -> Table:
    """Measure both, one side after the other."""
    size = bench.size
    table = Table(NAME, f"Semaphores of {PERMITS} permits: pairs a second, then visits a second")
    ours = bench.sides(table, OURS, OURS_UVLOOP)
    others = bench.sides(table, PY_REDIS_SEMAPHORE, PY_REDIS_SEMAPHORE_POLLING)
    # Uncontended, both modes of theirs are the same.
    pairs = ours + others[:1]
    for tasks in size.primitive_tasks:
        order = {"tasks": tasks, "kind": SEMAPHORE, "prefix": "semaphores"}
        for side in pairs:
            await bench.workers[side][0].do("pairs", seconds=size.seconds, **order)
        for side in bench.alternation(pairs):
            found = await bench.workers[side][0].do("pairs", seconds=size.seconds, **order)
            table.add(side, {column(tasks): found["rate"]})
    for _ in range(size.other_rounds):
        for side in ours + others:
            seconds = size.slow_seconds if side in others else size.seconds
            crew = bench.workers[side][:2]
            found = await watch(crew, tasks=size.crowd, seconds=seconds, kind=SEMAPHORE)
            figures = {"visits/s": len(found) / seconds, "most at once": at_once(found)}
            if found:
                figures["p99 wait ms"] = wait_ms(found, 0.99)
                figures["evenness"] = evenness(found, len(crew) * size.crowd)
            table.add(side, figures)
    table.notes.append(
        f"Visits: {size.crowd} tasks in each of two processes; most at once: {PERMITS} are allowed."
    )
    return table
