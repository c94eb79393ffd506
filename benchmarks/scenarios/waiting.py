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
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.crew import Bench, worker
from benchmarks.harness import Table
from benchmarks.rivals import (
    AIOREDLOCK,
    NO_PLAIN_LOCK,
    POTTERY,
    PY_REDIS_SEMAPHORE,
    PY_REDIS_SEMAPHORE_POLLING,
    PYTHON_REDIS_LOCK,
    REDIS_PY,
)
from benchmarks.rivals.kinds import FAIR, LOCK, SEMAPHORE
from benchmarks.rivals.ours import Ours
from benchmarks.rivals.side import Side, TaskSide, ThreadSide
from benchmarks.scenarios.counting import Counter
from redisson_py.testing import running_server

NAME = "waiting"

_BATCH = 500


async def measure(bench: Bench) -> Table:
    """Measure every case at the same time."""
    size = bench.size
    table = Table(NAME, f"Waiting, watched for {size.window:g} s")
    ours = bench.ours
    sides = bench.sides(table, ours, REDIS_PY, PYTHON_REDIS_LOCK, POTTERY, AIOREDLOCK)
    # The order of the rows, and not of their ends.
    cases = [_Case(side, LOCK, size.compared_waiters, 1) for side in sides]
    cases += [_Case(ours, LOCK, some, names) for some in size.waiters for names in (1, some)]
    kept = [(ours, FAIR), (ours, SEMAPHORE)]
    cases += [
        _Case(side, kind, some, 1)
        for side, kind in kept
        for some in (size.compared_waiters, *size.waiters[:1])
    ]
    theirs = bench.sides(table, PY_REDIS_SEMAPHORE, PY_REDIS_SEMAPHORE_POLLING)
    cases += [_Case(side, SEMAPHORE, size.compared_waiters, 1) for side in theirs]
    cases = list(dict.fromkeys(cases))
    found = await asyncio.gather(*[_watched(bench, case) for case in cases])
    for case, figures in zip(cases, found, strict=True):
        table.add(case.row, figures)
    bare = await bench.workers[bench.ours][0].do("bare_tasks", count=1000)
    table.notes += [
        "Bytes a waiter are what Python traces, the task included; of threads, resident memory.",
        f"A task that waits for a future and no lock takes {bare:,.0f} bytes.",
    ]
    return table


class _Case(NamedTuple):
    side: str
    kind: str
    waiters: int
    names: int

    @property
    def row(self) -> str:
        names = f"{self.names:,} name{'s' if self.names > 1 else ''}"
        what = "" if self.kind == LOCK or self.side in NO_PLAIN_LOCK else f", {self.kind}"
        return f"{self.side}{what}, {self.waiters:,} on {names}"


async def _watched(bench: Bench, case: _Case) -> dict[str, float]:
    held = [f"waiting:{number}" for number in range(case.names)]
    kind = LOCK if case.side in NO_PLAIN_LOCK else case.kind
    order = {"names": held, "kind": kind}
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(running_server(bench.kind))
        holder = await stack.enter_async_context(worker(case.side, server.url))
        await holder.do("hold", **order)
        # Permits are renewed while their holder lives, and given back when it does not.
        if kind != SEMAPHORE:
            await holder.kill()
        one = await stack.enter_async_context(worker(case.side, server.url))
        counter = stack.enter_context(Counter(server.url))
        each = case.waiters // case.names
        client_bytes = await one.do("start_waiting", each=each, **order)
        memory = counter.since().memory
        counter.begin()
        await asyncio.sleep(bench.size.window)
        counts = counter.since()
    return {
        "commands/s": counts.commands / counts.at,
        "commands/s a waiter": counts.commands / counts.at / case.waiters,
        "bytes/s": (counts.received + counts.sent) / counts.at,
        "bytes a waiter": client_bytes / case.waiters,
        "server bytes a waiter": memory / case.waiters,
    }


# In the workers.


async def hold(side: Side, *, names: list[str], kind: str) -> None:
    """Hold every name."""
    if kind != LOCK:
        assert isinstance(side, Ours)
        for name in names:
            await side.take(kind, name)
        return
    for start in range(0, len(names), _BATCH):
        await asyncio.gather(*[side.hold(name) for name in names[start : start + _BATCH]])


async def start_waiting(side: Side, *, names: list[str], each: int, kind: str) -> int:
    """Start waiters, `each` on every name; when all of them sleep, return their bytes."""
    if isinstance(side, ThreadSide):
        before = resident()
        for name in names * each:
            lock = side.lock(name)
            threading.Thread(target=lock.__enter__, daemon=True).start()
        await idle()
        return resident() - before
    assert isinstance(side, TaskSide)
    tracemalloc.start()
    _start(side.made(kind, name).__aenter__() for name in names * each)
    await idle()
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


async def idle() -> None:
    """Return when the event loop has little to do: its timers come on time for a while."""
    loop = asyncio.get_running_loop()
    # On a machine too busy for that it has to do after a time.
    give_up = loop.time() + 10
    on_time = 0
    while on_time < 4 and loop.time() < give_up:
        due = loop.time() + 0.05
        await asyncio.sleep(0.05)
        on_time = on_time + 1 if loop.time() - due < 0.025 else 0


def resident() -> int:
    """Return the bytes of this process that are in memory."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        # Not Linux: the peak, which in a fresh process is where it is now. Bytes on macOS.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return pages * resource.getpagesize()
