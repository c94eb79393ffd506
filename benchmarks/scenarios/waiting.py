"""What it costs to wait: commands and bytes a second, memory a waiter.

Every case has a server and workers of its own: nothing here is about speed, so all cases wait
at the same time. The locks are held by a process that is killed then, so that only waiting is
counted.
"""

from __future__ import annotations

import asyncio
import resource
import threading
import tracemalloc
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from benchmarks.crew import Bench, worker
from benchmarks.harness import Table
from benchmarks.rivals import AIOREDLOCK, POTTERY, PYTHON_REDIS_LOCK, REDIS_PY
from benchmarks.rivals.side import Side, TaskSide, ThreadSide
from benchmarks.scenarios.counting import Counter
from redisson_py.testing import running_server

NAME = "waiting"

_BATCH = 500


async def measure(bench: Bench) -> Table:
    """Measure every case at the same time."""
    size = bench.size
    table = Table(NAME, f"Waiting, watched for {size.window:g} s")
    sides = bench.sides(table, bench.ours, REDIS_PY, PYTHON_REDIS_LOCK, POTTERY, AIOREDLOCK)
    # The order of the rows, and not of their ends.
    cases = [(side, size.compared_waiters, 1) for side in sides]
    cases += [(bench.ours, waiters, names) for waiters in size.waiters for names in (1, waiters)]
    cases = list(dict.fromkeys(cases))
    found = await asyncio.gather(*[_case(bench, *case) for case in cases])
    for (side, waiters, names), figures in zip(cases, found, strict=True):
        table.add(f"{side}, {waiters:,} on {names:,} name{'s' if names > 1 else ''}", figures)
    bare = await bench.workers[bench.ours][0].do("bare_tasks", count=1000)
    table.notes += [
        "Bytes a waiter are what Python traces, the task included; of threads, resident memory.",
        f"A task that waits for a future and no lock takes {bare:,.0f} bytes.",
    ]
    return table


async def _case(bench: Bench, side: str, waiters: int, names: int) -> dict[str, float]:
    held = [f"waiting:{number}" for number in range(names)]
    async with running_server(bench.kind) as server:
        async with worker(side, server.url) as holder:
            await holder.do("hold", names=held)
        async with worker(side, server.url) as one:
            with Counter(server.url) as counter:
                client_bytes = await one.do("start_waiting", names=held, each=waiters // names)
                memory = counter.since().memory
                counter.begin()
                await asyncio.sleep(bench.size.window)
                counts = counter.since()
    return {
        "commands/s": counts.commands / counts.at,
        "commands/s a waiter": counts.commands / counts.at / waiters,
        "bytes/s": (counts.received + counts.sent) / counts.at,
        "bytes a waiter": client_bytes / waiters,
        "server bytes a waiter": memory / waiters,
    }


# In the workers.


async def hold(side: Side, *, names: list[str]) -> None:
    """Hold every name."""
    for start in range(0, len(names), _BATCH):
        await asyncio.gather(*[side.hold(name) for name in names[start : start + _BATCH]])


async def start_waiting(side: Side, *, names: list[str], each: int) -> int:
    """Start waiters, `each` on every name; when all of them sleep, return their bytes."""
    if isinstance(side, ThreadSide):
        before = _resident()
        for name in names * each:
            lock = side.lock(name)
            threading.Thread(target=lock.__enter__, daemon=True).start()
        await _idle()
        return _resident() - before
    assert isinstance(side, TaskSide)
    tracemalloc.start()
    _start(side.lock(name).__aenter__() for name in names * each)
    await _idle()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return used


async def bare_tasks(side: Side, *, count: int) -> float:
    """Return the bytes of one task that waits for nothing in particular."""

    async def wait() -> None:
        await asyncio.get_running_loop().create_future()

    tracemalloc.start()
    _start(wait() for _ in range(count))
    await asyncio.sleep(0)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    while _waiters:
        _waiters.pop().cancel()
    return used / count


_waiters: list[asyncio.Task[Any]] = []


def _start(waiters: Any) -> None:
    for waiter in waiters:
        assert isinstance(waiter, Coroutine)
        _waiters.append(asyncio.create_task(waiter))


async def _idle() -> None:
    """Return when the event loop has little to do: its timers come on time for a while."""
    loop = asyncio.get_running_loop()
    # On a machine too busy for that it has to do after a time.
    give_up = loop.time() + 10
    on_time = 0
    while on_time < 4 and loop.time() < give_up:
        due = loop.time() + 0.05
        await asyncio.sleep(0.05)
        on_time = on_time + 1 if loop.time() - due < 0.025 else 0


def _resident() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        # Not Linux: the peak, which in a fresh process is where it is now. Bytes on macOS.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return pages * resource.getpagesize()
