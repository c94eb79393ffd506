"""Every primitive of ours when many want it at once: visits a second, and whose they were."""

from __future__ import annotations

import asyncio
from time import monotonic

from benchmarks.crew import Bench, Worker
from benchmarks.harness import Table
from benchmarks.rivals.kinds import (
    BARRIER,
    EXPIRABLE,
    FAIR,
    FENCED,
    LOCK,
    MIXED,
    MULTI,
    PERMITS,
    SEMAPHORE,
    WRITE,
)
from benchmarks.rivals.ours import Ours
from benchmarks.rivals.side import Side
from benchmarks.scenarios.visits import at_once, evenness, wait_ms, watch

NAME = "contended"

#: How many may be in at once; None: it depends on who they are.
_MOST: dict[str, int | None] = {
    LOCK: 1,
    FENCED: 1,
    FAIR: 1,
    WRITE: 1,
    MIXED: None,
    SEMAPHORE: PERMITS,
    EXPIRABLE: PERMITS,
    MULTI: 1,
}

#: Generations of a barrier for each second that others have.
_GENERATIONS = 500

#: Seconds until all workers have their orders.
_LEAD = 0.02


async def measure(bench: Bench) -> Table:
    """Measure one process, then two, with sections that are empty."""
    size = bench.size
    table = Table(NAME, f"Contended: {size.crowd} tasks a process on one name, visits a second")
    ours = bench.workers[bench.ours]
    for _ in range(size.other_rounds):
        for processes in (1, 2):
            crew = ours[:processes]
            where = f"{processes} process{'es' if processes > 1 else ''}"
            for kind, most in _MOST.items():
                found = await watch(crew, tasks=size.crowd, seconds=size.seconds, kind=kind)
                assert most is None or at_once(found) <= most, f"too many in {kind}"
                figures = {where: len(found) / size.seconds}
                if found:
                    figures[f"{where}, p99 wait ms"] = wait_ms(found, 0.99)
                    figures[f"{where}, evenness"] = evenness(found, processes * size.crowd)
                table.add(kind, figures)
            table.add(BARRIER, {where: await _passes(crew, size.crowd, size.seconds)})
    table.notes += [
        f"All by {bench.ours}. Semaphores have {PERMITS} permits; a barrier has as many parties"
        " as there are tasks, and each pass counts.",
        "Evenness is Jain's index of the visits of all tasks: 1 is even.",
    ]
    return table


async def _passes(crew: list[Worker], tasks: int, seconds: float) -> float:
    """Return how many parties a second pass a barrier that all tasks of a crew share."""
    parties, count = len(crew) * tasks, max(1, int(_GENERATIONS * seconds))
    start_at = monotonic() + _LEAD
    name = f"barrier:{start_at}"
    ends: list[float] = await asyncio.gather(
        *[
            one.do(
                "generations",
                name=name,
                parties=parties,
                mine=tasks,
                count=count,
                start_at=start_at,
            )
            for one in crew
        ]
    )
    return parties * count / (max(ends) - start_at)


# In the workers.


async def generations(
    side: Side, *, name: str, parties: int, mine: int, count: int, start_at: float
) -> float:
    """Pass a barrier `count` times with `mine` of its parties; return when that was done."""
    assert isinstance(side, Ours)
    barrier = side.client.get_barrier(name, parties)
    await asyncio.sleep(start_at - monotonic())

    async def pass_all() -> None:
        for _ in range(count):
            await barrier.wait()

    await asyncio.gather(*[pass_all() for _ in range(mine)])
    return monotonic()
