"""Every primitive of ours when nobody is in the way: pairs of calls a second.

As `uncontended.py`, in one process that does one kind after the other, so that ratios to the
plain lock are those of the same process, connection and minute.
"""

from __future__ import annotations

from benchmarks.crew import Bench, alternately
from benchmarks.harness import Table
from benchmarks.rivals.kinds import (
    BARRIER,
    EXPIRABLE,
    FAIR,
    FENCED,
    LATCH,
    LOCK,
    MULTI,
    READ,
    SEMAPHORE,
    WRITE,
)
from benchmarks.scenarios.uncontended import Figures, column

NAME = "primitives"

KINDS = (FENCED, FAIR, READ, WRITE, SEMAPHORE, EXPIRABLE, MULTI, LATCH, BARRIER)

#: The end of the headings of multiples of the plain lock's figure.
RATIO = ", x lock"


async def measure(bench: Bench) -> Table:
    """Measure all kinds in turn, each beside the lock, in the first worker of ours."""
    size = bench.size
    table = Table(NAME, "Acquire+release pairs a second of every primitive, a name a task")
    one = bench.workers[bench.ours][0]
    for tasks in size.primitive_tasks:

        async def rate(kind: str, seconds: float, tasks: int = tasks) -> float:
            order = {"tasks": tasks, "seconds": seconds, "kind": kind, "prefix": kind}
            found: Figures = await one.do("pairs", **order)
            return found["rate"]

        for kind in (LOCK, *KINDS):
            await rate(kind, size.seconds / 4)
        for done, kind in alternately(KINDS, size.rounds):
            # One right after the other, and who is first changes: noise hits both alike.
            pair = (LOCK, kind) if done % 2 else (kind, LOCK)
            rates = {each: await rate(each, size.seconds / 2) for each in pair}
            table.add(LOCK, {column(tasks): rates[LOCK]})
            ratio = rates[kind] / rates[LOCK]
            table.add(kind, {column(tasks): rates[kind], column(tasks) + RATIO: ratio})
    table.notes += [
        f"All by {bench.ours}. A latch's pair: it is set to one and counted down; a barrier's one"
        " call: the only party passes.",
    ]
    return table
