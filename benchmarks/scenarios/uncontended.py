"""Acquire-and-release pairs a second, every task on a name of its own."""

from __future__ import annotations

import asyncio
import threading
from time import perf_counter

from benchmarks.crew import Bench
from benchmarks.harness import Table
from benchmarks.rivals import (
    BARE,
    NO_PLAIN_LOCK,
    OURS,
    OURS_UVLOOP,
    REDIS_PY,
    SIDES,
    redis_benchmark,
)
from benchmarks.rivals.kinds import LOCK
from benchmarks.rivals.side import CannotError, Side, TaskSide, ThreadSide

NAME = "pairs"
NAME_TWO = "pairs of 2 processes"

#: Long enough to open a connection for each task.
_WARM_UP = 1.0


def column(tasks: int) -> str:
    """Return the heading of the figures for so many tasks."""
    return f"{tasks} tasks" if tasks > 1 else "1 task"


async def measure(bench: Bench) -> Table:
    """One process a side."""
    table = Table(NAME, "Acquire+release pairs a second, one process, a name a task")
    sides = bench.sides(table, *[side for side in SIDES if side not in NO_PLAIN_LOCK])
    await _warm_up(bench, sides)
    for tasks in bench.size.tasks:
        for side in sides:
            await bench.workers[side][0].do("pairs", tasks=tasks, seconds=bench.size.seconds / 4)
        for side in bench.turns(sides):
            rate = await bench.workers[side][0].do("pairs", tasks=tasks, seconds=bench.size.seconds)
            table.add(side, {column(tasks): rate})
        try:
            requests = bench.size.benchmark_requests
            for _ in range(bench.size.other_rounds):
                rate = await redis_benchmark.pairs(bench.url, tasks, requests)
                table.add(redis_benchmark.NAME, {column(tasks): rate})
        except CannotError as reason:
            table.absent[redis_benchmark.NAME] = str(reason)
    return table


async def measure_two(bench: Bench) -> Table:
    """Two processes of a side at the same time."""
    table = Table(NAME_TWO, "Acquire+release pairs a second, two processes together")
    sides = [
        side
        for side in bench.sides(table, OURS, OURS_UVLOOP, REDIS_PY, BARE)
        if len(bench.workers[side]) > 1
    ]
    await _warm_up(bench, sides)
    for tasks in bench.size.tasks:
        for side in bench.turns(sides):
            rate = await _together(bench, side, tasks, bench.size.seconds)
            table.add(side, {column(tasks): rate})
    return table


async def _warm_up(bench: Bench, sides: list[str]) -> None:
    seconds = min(_WARM_UP, 2 * bench.size.seconds)
    for side in sides:
        await _together(bench, side, max(bench.size.tasks), seconds)


async def _together(bench: Bench, side: str, tasks: int, seconds: float) -> float:
    """Return what two workers of a side make together, on names of their own."""
    rates: list[float] = await asyncio.gather(
        *[
            one.do("pairs", tasks=tasks, seconds=seconds, prefix=f"pairs of {number}")
            for number, one in enumerate(bench.workers[side][:2])
        ]
    )
    return sum(rates)


# In the workers.


async def pairs(
    side: Side, *, tasks: int, seconds: float, prefix: str = "pairs", kind: str = LOCK
) -> float:
    """Return the pairs a second of `tasks` tasks, or threads, together."""
    names = [f"{prefix}:{number}" for number in range(tasks)]
    if isinstance(side, ThreadSide):
        return await asyncio.to_thread(_threads, side, names, seconds)
    assert isinstance(side, TaskSide)
    start = perf_counter()
    done = await asyncio.gather(*[side.pairs(name, start + seconds, kind) for name in names])
    return sum(done) / (perf_counter() - start)


def _threads(side: ThreadSide, names: list[str], seconds: float) -> float:
    done: list[int] = []
    together = threading.Barrier(len(names) + 1)

    def work(name: str) -> None:
        together.wait()
        done.append(side.pairs(name, perf_counter() + seconds))

    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    together.wait()
    start = perf_counter()
    for thread in threads:
        thread.join()
    return sum(done) / (perf_counter() - start)
