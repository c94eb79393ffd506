"""Acquire-and-release pairs a second, every task on a name of its own."""

from __future__ import annotations

import asyncio
import threading
from time import perf_counter, process_time
from typing import TypedDict

import redis

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
from benchmarks.rivals.side import CannotError, Pairs, ProgramSide, Side, TaskSide, ThreadSide
from benchmarks.scenarios import same_commands
from benchmarks.scenarios.counting import processor_time

NAME = "pairs"
NAME_TWO = "pairs of 2 processes"
NAME_CPU = "processor time of pairs"
NAME_SERVER = "server's processor time of pairs"

#: Long enough to open a connection for each task.
_WARM_UP = 1.0


class Figures(TypedDict):
    """What a round of pairs says.

    Attributes:
        rate: Pairs a second.
        cpu: Seconds of processor time, in the client's process, for a million of them.
        done: How many.
    """

    rate: float
    cpu: float
    done: int


def column(tasks: int) -> str:
    """Return the heading of the figures for so many tasks."""
    return f"{tasks} tasks" if tasks > 1 else "1 task"


async def measure(bench: Bench) -> list[Table]:
    """One process a side; how fast, and at what cost."""
    table = Table(NAME, "Acquire+release pairs a second, one process, a name a task")
    cpu = Table(NAME_CPU, "Processor time of the client in those rounds, seconds a million pairs")
    server = Table(NAME_SERVER, "Processor time of the server in those rounds, the same way")
    sides = bench.sides(table, *[side for side in SIDES if side not in NO_PLAIN_LOCK])
    await same_commands.check(bench)
    await _warm_up(bench, sides)
    for tasks in bench.size.tasks:
        for side in sides:
            await _alone(bench, side, tasks, bench.size.seconds / 4)
        for side in bench.alternation(sides):
            with redis.Redis.from_url(bench.url) as looking:
                before = processor_time(looking)
                found = await _alone(bench, side, tasks, bench.size.seconds)
                used = processor_time(looking) - before
            table.add(side, {column(tasks): found["rate"]})
            cpu.add(side, {column(tasks): found["cpu"]})
            server.add(side, {column(tasks): used / found["done"] * 1e6})
        try:
            requests = bench.size.benchmark_requests
            for _ in range(bench.size.other_rounds):
                rate = await redis_benchmark.pairs(bench.url, tasks, requests)
                table.add(redis_benchmark.NAME, {column(tasks): rate})
        except CannotError as reason:
            table.absent[redis_benchmark.NAME] = str(reason)
    return [table, cpu, server]


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
        for side in bench.alternation(sides):
            rate = await _together(bench, side, tasks, bench.size.seconds)
            table.add(side, {column(tasks): rate})
    return table


async def _warm_up(bench: Bench, sides: list[str]) -> None:
    seconds = min(_WARM_UP, 2 * bench.size.seconds)
    for side in sides:
        await _together(bench, side, max(bench.size.tasks), seconds)


async def _alone(bench: Bench, side: str, tasks: int, seconds: float) -> Figures:
    one = bench.workers[side][0]
    found: Figures = await one.do("pairs", tasks=tasks, seconds=seconds, prefix=_prefix(side, 0))
    return found


async def _together(bench: Bench, side: str, tasks: int, seconds: float) -> float:
    """Return what two workers of a side make together, on names of their own."""
    found: list[Figures] = await asyncio.gather(
        *[
            one.do("pairs", tasks=tasks, seconds=seconds, prefix=_prefix(side, number))
            for number, one in enumerate(bench.workers[side][:2])
        ]
    )
    return sum(one["rate"] for one in found)


def _prefix(side: str, number: int) -> str:
    """Return what the names of a worker begin with: none is another side's as well.

    A late renewal of one side must not meet what another has put there.
    """
    return f"pairs:{[*SIDES].index(side)}:{number}"


# In the workers.


async def warm_up(side: Side, *, seconds: float) -> bool:
    """Have a side get fast, if it has to; return whether it is."""
    return await side.warm_up(seconds)


async def pairs(
    side: Side, *, tasks: int, seconds: float, prefix: str = "pairs", kind: str = LOCK
) -> Figures:
    """Return what `tasks` tasks, or threads, do together."""
    names = [f"{prefix}:{number}" for number in range(tasks)]
    if isinstance(side, ProgramSide):
        found = await side.pairs(tasks, seconds, prefix)
    elif isinstance(side, ThreadSide):
        found = await asyncio.to_thread(_threads, side, names, seconds)
    else:
        assert isinstance(side, TaskSide)
        start, cpu = perf_counter(), process_time()
        done = await asyncio.gather(*[side.pairs(name, start + seconds, kind) for name in names])
        found = Pairs(sum(done), perf_counter() - start, process_time() - cpu)
    return {
        "rate": found.done / found.seconds,
        "cpu": found.cpu / found.done * 1e6,
        "done": found.done,
    }


def _threads(side: ThreadSide, names: list[str], seconds: float) -> Pairs:
    done: list[int] = []
    together = threading.Barrier(len(names) + 1)

    def work(name: str) -> None:
        together.wait()
        done.append(side.pairs(name, perf_counter() + seconds))

    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    cpu = process_time()
    together.wait()
    start = perf_counter()
    for thread in threads:
        thread.join()
    return Pairs(sum(done), perf_counter() - start, process_time() - cpu)
