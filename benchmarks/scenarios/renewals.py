"""What it costs to keep locks: processor time, commands, memory, and stands of the event loop."""

from __future__ import annotations

import asyncio
import gc
import os
from time import monotonic, perf_counter, process_time

from benchmarks.crew import Bench, worker
from benchmarks.harness import Table
from benchmarks.rivals import (
    AIOREDLOCK,
    OURS,
    OURS_UVLOOP,
    POTTERY,
    PYTHON_REDIS_LOCK,
    REDIS_PY,
)
from benchmarks.rivals.side import CannotError, Side
from benchmarks.scenarios.counting import Counter
from benchmarks.scenarios.waiting import resident
from redisson_py.testing import running_server

NAME = "renewals"

#: Columns.
PROCESSOR = "processor %"
STAND = "longest stand of the loop, ms"
COLLECTION = "full garbage collection, ms"
BYTES = "bytes a lock"
BYTES_TASK_EACH = "bytes a lock, a task each"

_BATCH = 100
_TICK = 0.002

#: Memory grows by pages: what fewer locks take cannot be seen.
_MANY = 1_000


def row(side: str, held: int) -> str:
    """Return the heading of a side that holds so many locks."""
    return f"{side}, {held:,} locks"


async def measure(bench: Bench) -> Table:
    """Measure ours with many locks, rivals that renew with fewer; each on a server of its own."""
    size = bench.size
    table = Table(
        NAME,
        f"Renewing held locks: ours with a lease of {size.renewed_lease:g} s, rivals of"
        f" {size.renewed_by_rivals:g} s",
    )
    for side in bench.sides(
        table, OURS, OURS_UVLOOP, REDIS_PY, PYTHON_REDIS_LOCK, POTTERY, AIOREDLOCK
    ):
        ours = side in (OURS, OURS_UVLOOP)
        held = {OURS: size.held, OURS_UVLOOP: size.held_on_uvloop}.get(side, size.held_by_rivals)
        lease = size.renewed_lease if ours else size.renewed_by_rivals
        try:
            await bench.workers[side][0].do("renews")
        except CannotError as reason:
            table.absent[side] = str(reason)
            continue
        # Workers of its own, that are killed: nobody has to release all those.
        async with running_server(bench.kind) as server:
            async with worker(side, server.url) as one:
                figures = await one.do(
                    "renew", url=server.url, held=held, lease=lease, renewals=size.renewals
                )
            if side == OURS and held >= _MANY:
                async with worker(side, server.url) as one:
                    found = await one.do("hold_by_tasks", held=held, lease=lease)
                figures[BYTES_TASK_EACH] = found
        table.add(row(side, held), figures)
    table.notes += [
        "Locks are acquired by one task, one after the other. The stand is the longest from there"
        " on, the first renewals included; processor time is that of later ones.",
    ]
    return table


# In the workers.


async def renews(side: Side) -> None:
    """Raise `CannotError` if nothing here renews."""
    if not side.renewed_after:
        raise CannotError("does not renew by itself")


async def renew(
    side: Side, *, url: str, held: int, lease: float, renewals: int
) -> dict[str, float]:
    """Hold locks and watch them being renewed `renewals` times; return the costs of one."""
    period = lease * side.renewed_after
    names = _names(held)
    # What the first acquisition makes is not for a lock.
    await side.hold_renewed("renewed", lease)
    stands = _Stands()
    # The watching is not for a lock either.
    idle = await _processor_share(min(1.0, period))
    gc.collect()
    memory = resident()
    stands.longest = 0.0
    for name in names:
        await side.hold_renewed(name, lease)
    # In a thread, since it blocks.
    with await asyncio.to_thread(Counter, url) as counter:
        # Past the first renewal, whose moments are those of the acquisitions.
        await asyncio.sleep(period)
        await asyncio.to_thread(counter.begin)
        busy = await _processor_share(period * renewals) - idle
        counts = await asyncio.to_thread(counter.since)
    stands.end()
    figures = {
        PROCESSOR: busy * 100,
        "commands each time": counts.commands / renewals,
        "client ms each time": busy * period * 1e3,
        "client us a lock": busy * period / held * 1e6,
        "server us a lock": counts.cpu / renewals / held * 1e6,
        STAND: stands.longest * 1e3,
    }
    if held >= _MANY:
        start = perf_counter()
        gc.collect()
        figures[COLLECTION] = (perf_counter() - start) * 1e3
        figures[BYTES] = (resident() - memory) / held
    return figures


async def hold_by_tasks(side: Side, *, held: int, lease: float) -> float:
    """Hold locks, each acquired by a task of its own that ends then; return the bytes of one."""
    names = _names(held)
    await side.hold_renewed("renewed", lease)
    gc.collect()
    memory = resident()
    for start in range(0, held, _BATCH):
        await asyncio.gather(
            *[side.hold_renewed(name, lease) for name in names[start : start + _BATCH]]
        )
    gc.collect()
    return (resident() - memory) / held


class _Stands:
    """Notes by how much a timer was late at most."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._task = asyncio.create_task(self._watch())

    def end(self) -> None:
        self._task.cancel()

    async def _watch(self) -> None:
        while True:
            present = monotonic()
            await asyncio.sleep(_TICK)
            self.longest = max(self.longest, monotonic() - present - _TICK)


async def _processor_share(seconds: float) -> float:
    """Return the processor time of a while as a share of it."""
    used, start = process_time(), monotonic()
    await asyncio.sleep(seconds)
    return (process_time() - used) / (monotonic() - start)


def _names(held: int) -> list[str]:
    # Those of the worker before this one may still be held.
    return [f"renewed:{os.getpid()}:{number}" for number in range(held)]
