"""What it costs to let waiters go: a thousand tasks of one process, held up by another client.

One release lets one in, who lets in the next one (locks, one permit), or it lets all go at once
(readers behind a writer, a permit each, a latch, a barrier). The clock runs from just before
that one call to the moment when each is through.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic, process_time
from typing import Any

from benchmarks.crew import Bench
from benchmarks.harness import Table
from benchmarks.rivals.kinds import BARRIER, EXPIRABLE, FAIR, LATCH, LOCK, MULTI, READ, WRITE
from benchmarks.rivals.kinds import make as kind_of
from benchmarks.rivals.ours import Ours
from benchmarks.rivals.side import Side
from benchmarks.scenarios.counting import SENT_BY_OURS, Counter
from benchmarks.scenarios.waiting import idle
from redisson_py import Redisson

NAME = "wake-ups"

ONE_PERMIT = "semaphore, one permit"
PERMIT_EACH = "semaphore, a permit each"
KINDS = (LOCK, FAIR, WRITE, MULTI, ONE_PERMIT, EXPIRABLE, READ, PERMIT_EACH, LATCH, BARRIER)

#: Lets the waiters go.
_Opener = Callable[[], Awaitable[object]]

#: What a waiter does.
_Waiter = Callable[[], Awaitable[object]]


async def measure(bench: Bench) -> Table:
    """Measure all kinds, in the first worker of ours."""
    size = bench.size
    table = Table(NAME, f"{size.woken:,} waiters of one process and one name are let go")
    one = bench.workers[bench.ours][0]
    for _ in range(size.other_rounds):
        for kind in KINDS:
            found = await one.do("let_go", url=bench.url, kind=kind, waiters=size.woken)
            table.add(kind, found)
    table.notes += [
        f"All by {bench.ours}, the one who held them up by another client of the same process.",
        "Commands are all between the release and the last one's end, releases included.",
    ]
    return table


# In the workers.


async def let_go(side: Side, *, url: str, kind: str, waiters: int) -> dict[str, float]:
    """Hold up that many tasks, let them go, and return what that took."""
    assert isinstance(side, Ours)
    times: list[float] = []
    async with Redisson.from_url(url) as other:
        name = f"wakes:{kind}:{monotonic()}"
        wait, let_them = await _held_up(kind, name, other, side.client, waiters)

        async def one() -> None:
            await wait()
            times.append(monotonic())

        tasks = [asyncio.create_task(one()) for _ in range(waiters)]
        await idle()
        assert not times, f"{kind} held nobody up"
        with Counter(url, SENT_BY_OURS) as counter:
            woken = side.client.statistics().wake_ups
            counter.begin()
            used, start = process_time(), monotonic()
            await let_them()
            await asyncio.gather(*tasks)
            used = process_time() - used
            counts = counter.since()
        return {
            "first, ms": (min(times) - start) * 1e3,
            "last, ms": (max(times) - start) * 1e3,
            "commands a waiter": counts.commands / waiters,
            "wake-ups a waiter": (side.client.statistics().wake_ups - woken) / waiters,
            "client us a waiter": used / waiters * 1e6,
            "server us a waiter": counts.cpu / waiters * 1e6,
        }


async def _held_up(
    kind: str, name: str, other: Redisson, ours: Redisson, waiters: int
) -> tuple[_Waiter, _Opener]:
    """Return what each waiter does, and what lets them go."""
    if kind in (ONE_PERMIT, PERMIT_EACH):
        permits = waiters if kind == PERMIT_EACH else 1
        permit = await other.get_semaphore(name, permits).acquire(permits)
        return _through(lambda: ours.get_semaphore(name)), permit.release
    if kind == EXPIRABLE:
        permit = await other.get_permit_expirable_semaphore(name, 1).acquire()
        return _through(lambda: kind_of(ours, kind, name)), permit.release
    if kind == LATCH:
        latch = other.get_latch(name)
        await latch.try_set_count(1)
        return ours.get_latch(name).wait, latch.count_down
    if kind == BARRIER:
        parties = waiters + 1
        return ours.get_barrier(name, parties).wait, other.get_barrier(name, parties).wait
    # A reader waits for a writer; everybody else for their like.
    lease = await kind_of(other, WRITE if kind == READ else kind, name).__aenter__()
    return _through(lambda: kind_of(ours, kind, name)), lease.release


def _through(entered: Callable[[], Any]) -> _Waiter:
    async def through() -> None:
        async with entered():
            pass

    return through
