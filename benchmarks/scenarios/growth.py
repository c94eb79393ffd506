"""How costs grow with tasks, with names and with waiters; `plots.py` draws the three tables."""

from __future__ import annotations

import asyncio
import itertools
import tracemalloc
from time import monotonic, perf_counter, process_time

from benchmarks.crew import Bench, alternately
from benchmarks.harness import Table
from benchmarks.rivals import BARE, OURS, OURS_UVLOOP
from benchmarks.rivals.ours import Ours
from benchmarks.rivals.side import Side
from benchmarks.scenarios.uncontended import Figures
from benchmarks.scenarios.waiting import idle
from redisson_py import Redisson

TASKS = "growth with tasks"
NAMES = "growth with names"
WAITERS = "growth with waiters"

#: Columns.
RATE = "pairs/s"
PAIR = "us a pair"
PAIR_CPU = "client us a pair"
HAND_OFF = "us a hand-off"
HAND_OFF_CPU = "client us a hand-off"
BYTES = "bytes a waiter"

#: How many tasks share the names.
NAMES_TASKS = 64


def row(side: str, count: int) -> str:
    """Return the heading of the figures of so many of what grows."""
    return f"{side}, {count:,}"


async def measure(bench: Bench) -> list[Table]:
    """Measure all three."""
    return [await _tasks(bench), await _names(bench), await _waiters(bench)]


async def _tasks(bench: Bench) -> Table:
    size = bench.size
    table = Table(TASKS, "Growth with tasks, each on a name of its own")
    sides = bench.sides(table, OURS, OURS_UVLOOP, BARE)
    for tasks in size.growth_tasks:
        for _, side in alternately(sides, size.other_rounds):
            order = {"tasks": tasks, "seconds": size.growth_seconds, "prefix": f"growth:{side}"}
            found: Figures = await bench.workers[side][0].do("pairs", **order)
            figures = {RATE: found["rate"], PAIR: 1e6 / found["rate"], PAIR_CPU: found["cpu"]}
            table.add(row(side, tasks), figures)
    return table


async def _names(bench: Bench) -> Table:
    size = bench.size
    table = Table(NAMES, f"Growth with names: {NAMES_TASKS} tasks take them in turn")
    for names in size.growth_names:
        for _ in range(size.other_rounds if names < max(size.growth_names) else 1):
            found: Figures = await bench.workers[bench.ours][0].do(
                "changing_names", tasks=NAMES_TASKS, names=names, seconds=size.growth_seconds
            )
            figures = {RATE: found["rate"], PAIR: 1e6 / found["rate"], PAIR_CPU: found["cpu"]}
            table.add(row(bench.ours, names), figures)
    table.notes.append(
        f"Every name comes at least once. Fewer than {NAMES_TASKS} are contended: those locks are"
        " handed on inside the process."
    )
    return table


async def _waiters(bench: Bench) -> Table:
    size = bench.size
    table = Table(WAITERS, "Growth with waiters of one name, tasks of one process")
    for waiters in size.growth_waiters:
        for _ in range(size.other_rounds):
            found = await bench.workers[bench.ours][0].do(
                "hand_down", url=bench.url, waiters=waiters
            )
            table.add(row(bench.ours, waiters), found)
    table.notes.append(
        "Another client held the lock until all waited; then it went from one to the next. Bytes"
        " are what Python traces, the task included."
    )
    return table


# In the workers.


async def changing_names(side: Side, *, tasks: int, names: int, seconds: float) -> Figures:
    """Have tasks take name after name, until each was taken and the time is over."""
    assert isinstance(side, Ours)
    get_lock = side.client.get_lock
    prefix = f"growth with names:{names}:"
    every = [f"{prefix}{number}" for number in range(names)]
    taken = itertools.count()
    start, cpu = perf_counter(), process_time()
    end = start + seconds

    async def work() -> None:
        while (number := next(taken)) < names or perf_counter() < end:
            async with get_lock(every[number % names]):
                pass

    await asyncio.gather(*[work() for _ in range(tasks)])
    # Each task took one number that it did not use.
    done = next(taken) - tasks
    return {
        "rate": done / (perf_counter() - start),
        "cpu": (process_time() - cpu) / done * 1e6,
        "done": done,
    }


async def hand_down(side: Side, *, url: str, waiters: int) -> dict[str, float]:
    """Have tasks wait for one lock; return what each takes, and each way to the next one."""
    assert isinstance(side, Ours)
    client = side.client
    name = f"growth with waiters:{monotonic()}"
    times: list[float] = []

    async def wait() -> None:
        async with client.get_lock(name):
            times.append(perf_counter())

    async with Redisson.from_url(url) as other:
        lease = await other.get_lock(name).acquire()
        tracemalloc.start()
        tasks = [asyncio.create_task(wait()) for _ in range(waiters)]
        await idle()
        used, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert not times, "nobody waited"
        cpu = process_time()
        await lease.release()
        await asyncio.gather(*tasks)
        cpu = process_time() - cpu
    return {
        HAND_OFF: (times[-1] - times[0]) / (waiters - 1) * 1e6,
        HAND_OFF_CPU: cpu / waiters * 1e6,
        BYTES: used / waiters,
    }
