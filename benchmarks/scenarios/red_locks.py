"""Red locks on five servers: pairs a second and how long they take, against pottery's Redlock."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack
from time import perf_counter

from benchmarks.crew import Bench, Worker, alternately, worker
from benchmarks.harness import Table, percentile
from benchmarks.rivals import OURS, OURS_UVLOOP, POTTERY, POTTERY_THREADS
from benchmarks.rivals.kinds import RED
from benchmarks.rivals.side import CannotError, Side, TaskSide, ThreadSide
from benchmarks.scenarios.uncontended import column
from benchmarks.scenarios.visits import at_once, evenness, watch
from redisson_py.testing import running_server

NAME = "red lock"

_SERVERS = 5

#: Processes that want one name, and tasks in each: votes are split.
_RIVALRY = (2, 3)


async def measure(bench: Bench) -> Table:
    """Measure on five servers of their own, with workers of their own."""
    size = bench.size
    table = Table(NAME, f"Red locks on {_SERVERS} servers: pairs a second and their times")
    async with AsyncExitStack() as stack:
        servers = [
            await stack.enter_async_context(running_server(bench.kind)) for _ in range(_SERVERS)
        ]
        url = ",".join(server.url for server in servers)
        crews: dict[str, list[Worker]] = {}
        for side in (OURS, OURS_UVLOOP, POTTERY, POTTERY_THREADS):
            if side not in bench.chosen:
                continue
            try:
                crews[side] = [
                    await stack.enter_async_context(worker(side, url)) for _ in range(_RIVALRY[0])
                ]
            except CannotError as reason:
                table.absent[side] = str(reason)
        for tasks in size.red_tasks:
            for crew in crews.values():
                await crew[0].do("timed_pairs", tasks=tasks, seconds=size.seconds)
            for _, side in alternately(crews, size.rounds):
                found = await crews[side][0].do("timed_pairs", tasks=tasks, seconds=size.seconds)
                table.add(side, {column(tasks) + what: found[what] for what in found})
        for side in crews:
            if side == POTTERY_THREADS:
                continue
            for _ in range(size.other_rounds):
                table.add(side, await _rivalry(crews[side], size.slow_seconds / 2))
    table.notes.append(
        f"One name: {_RIVALRY[1]} tasks in each of {_RIVALRY[0]} processes, whose votes split."
    )
    return table


async def _rivalry(crew: list[Worker], seconds: float) -> dict[str, float]:
    found = await watch(crew, tasks=_RIVALRY[1], seconds=seconds, kind=RED)
    assert at_once(found) <= 1, "two in a red lock at once"
    figures = {"one name: visits/s": len(found) / seconds}
    if found:
        figures["evenness"] = evenness(found, _RIVALRY[0] * _RIVALRY[1])
    return figures


# In the workers.


async def timed_pairs(side: Side, *, tasks: int, seconds: float) -> dict[str, float]:
    """Return the pairs a second, and the microseconds of acquiring and of a pair."""
    names = [f"red:{number}" for number in range(tasks)]
    times: list[tuple[float, float]] = []
    start = perf_counter()
    end = start + seconds
    if isinstance(side, ThreadSide):
        threads = [
            threading.Thread(target=_timed_in_thread, args=(side, name, end, times))
            for name in names
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            await asyncio.to_thread(thread.join)
    else:
        assert isinstance(side, TaskSide)
        await asyncio.gather(*[_timed(side, name, end, times) for name in names])
    return {
        "": len(times) / (perf_counter() - start),
        ": acquire us": percentile((acquire for acquire, _ in times), 0.5) * 1e6,
        ": pair us": percentile((pair for _, pair in times), 0.5) * 1e6,
        ": p99 pair us": percentile((pair for _, pair in times), 0.99) * 1e6,
    }


async def _timed(side: TaskSide, name: str, end: float, times: list[tuple[float, float]]) -> None:
    lock = side.made(RED, name)
    while (asked := perf_counter()) < end:
        async with lock:
            granted = perf_counter()
        times.append((granted - asked, perf_counter() - asked))


def _timed_in_thread(
    side: ThreadSide, name: str, end: float, times: list[tuple[float, float]]
) -> None:
    lock = side.lock(name)
    while (asked := perf_counter()) < end:
        with lock:
            granted = perf_counter()
        times.append((granted - asked, perf_counter() - asked))
