"""How long a contended lock is idle between one section and the next, and how even turns are.

Sections are empty, so the lock changes hands as often as it can. A gap is the time from the
end of one section to the beginning of the next, both noted inside the sections, by the clock
that all processes of a machine share. Only gaps count after which another party had the lock.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import Counter
from contextlib import AbstractAsyncContextManager
from time import monotonic, monotonic_ns
from typing import Any, TypedDict

from benchmarks.crew import Bench
from benchmarks.harness import Spread, Table, percentile
from benchmarks.rivals import (
    AIOREDLOCK,
    OURS,
    OURS_UVLOOP,
    POTTERY,
    PYTHON_REDIS_LOCK,
    REDIS_PY,
    REDISSON,
    SIDES,
)
from benchmarks.rivals.kinds import LOCK
from benchmarks.rivals.side import ProgramSide, Side, TaskSide, ThreadSide

NAME = "hand-off in one process"

#: Columns.
MEDIAN = "median us"
P99 = "p99 us"
MULTIPLE = "median in RTT"

#: Seconds after the end of a round in which everybody should have left.
_GRACE = 0.1

#: Begin and end of a section, in nanoseconds, and the party that was in it.
Section = tuple[int, int, int]


class HandOffs(TypedDict):
    """What a list of sections says; microseconds."""

    median: float
    p99: float
    hand_offs: int
    evenness: float


def row(side: str, tasks: int) -> str:
    """Return the heading of the figures of so many tasks."""
    return f"{side}, {tasks} tasks"


def warm_row(side: str) -> str:
    """Return the heading of round trips one after the other."""
    return f"{side}, one PING"


def rested_row(side: str) -> str:
    """Return the heading of round trips after a rest."""
    return f"{side}, one PING after 1 ms of rest"


class HandOffTable:
    """A table of hand-offs, and the round trips that were measured in turn with them."""

    def __init__(self, bench: Bench, name: str, title: str) -> None:
        self.table = Table(name, title)
        self._bench = bench
        self._round_trips: dict[str, Spread] = {}
        self._sides: dict[str, str] = {}

    async def ping(self, side: str, rested: bool = False) -> None:
        """Measure a round trip, by ours; `rested` measures one after a rest, too."""
        side = self._reference(side)
        one = self._bench.workers[side][0]
        found = await one.do("round_trip", count=150)
        self._round_trips.setdefault(side, Spread()).rounds.append(found)
        if rested:
            found = await one.do("round_trip", count=10, pause=0.001)
            self.table.add(rested_row(side), {MEDIAN: found})

    def note(self, row: str, side: str, found: HandOffs | None, seconds: float) -> None:
        """Add a round to a row."""
        if found is None:
            self.table.add(row, {"hand-offs/s": 0})
            return
        self._sides[row] = side
        self.table.add(
            row,
            {
                MEDIAN: found["median"],
                P99: found["p99"],
                "turns": found["evenness"],
                "hand-offs/s": found["hand_offs"] / seconds,
            },
        )

    def finish(self) -> Table:
        """Return the table, with multiples of the round trip; that of the whole run counts."""
        for row, side in self._sides.items():
            cells = self.table.rows[row]
            round_trip = self._round_trips[self._reference(side)].median
            for column, multiple in ((MEDIAN, MULTIPLE), (P99, "p99 in RTT")):
                cells[multiple] = Spread([one / round_trip for one in cells[column].rounds])
        for side, found in self._round_trips.items():
            self.table.rows[warm_row(side)] = {MEDIAN: found}
        self.table.notes.append(
            "RTT: the median PING of ours, on the same loop; turns: those of whom had least,"
            " over those of whom had most."
        )
        return self.table

    def _reference(self, side: str) -> str:
        on_uvloop = SIDES[side].loop == "uvloop" and OURS_UVLOOP in self._bench.workers
        return OURS_UVLOOP if on_uvloop else self._bench.ours


async def measure(bench: Bench) -> Table:
    """Measure tasks, or threads, of one process on one name."""
    size = bench.size
    found = HandOffTable(
        bench,
        NAME,
        "Hand-off inside one process: from the end of a section to the beginning of the next",
    )
    fast = bench.sides(found.table, OURS, OURS_UVLOOP, REDISSON)
    slow = bench.sides(found.table, REDIS_PY, PYTHON_REDIS_LOCK, POTTERY, AIOREDLOCK)
    for tasks in size.contenders:
        for side in [*bench.alternation(fast), *slow]:
            seconds = size.slow_seconds if side in slow else size.seconds
            await found.ping(side)
            one = bench.workers[side][0]
            hand_offs = await one.do("hand_offs", tasks=tasks, seconds=seconds)
            found.note(row(side, tasks), side, hand_offs, seconds)
    return found.finish()


def summary(found: list[Section], parties: int, taker: int | None = None) -> HandOffs | None:
    """Return what the sections of some parties say; None if the lock never changed hands.

    With `taker` only hand-offs to that party count.

    Raises:
        AssertionError: Two sections overlap: that was no lock.
    """
    found = sorted(found)
    for before, after in itertools.pairwise(found):
        assert before[1] <= after[0], f"two sections at once: {before} and {after}"
    gaps = [
        after[0] - before[1]
        for before, after in itertools.pairwise(found)
        if before[2] != after[2] and taker in (None, after[2])
    ]
    if not gaps:
        return None
    shares = Counter(party for _, _, party in found)
    return {
        "median": percentile(gaps, 0.5) / 1000,
        "p99": percentile(gaps, 0.99) / 1000,
        "hand_offs": len(gaps),
        "evenness": min(shares.values()) / max(shares.values()) if len(shares) == parties else 0.0,
    }


# In the workers.


async def sections(
    side: Side,
    *,
    tasks: int,
    seconds: float,
    name: str,
    start_at: float = 0.0,
    kind: str = LOCK,
    stay: float = 0.0,
    pause: float = 0.0,
) -> list[Section]:
    """Have `tasks` tasks, or threads, go in and out of one lock; return their sections.

    Each stays in for `stay` seconds and asks again after `pause` seconds.

    The name must be a new one: what a rival leaves of an earlier round would be in the way.
    """
    if isinstance(side, ProgramSide):
        assert kind == LOCK
        order = {"tasks": tasks, "seconds": seconds, "name": name, "start_at": start_at}
        return await side.sections(**order, stay=stay, pause=pause)
    await asyncio.sleep(start_at - monotonic())
    end = monotonic_ns() + int(seconds * 1e9)
    found: list[Section] = []
    if isinstance(side, ThreadSide):
        assert not stay
        threads = [
            threading.Thread(target=_work_in_thread, args=(side, name, end, number, found))
            for number in range(tasks)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            await asyncio.to_thread(thread.join)
    else:
        assert isinstance(side, TaskSide)
        users = [
            asyncio.create_task(_work(side.made(kind, name), end, number, found, stay, pause))
            for number in range(tasks)
        ]
        done, late = await asyncio.wait(users, timeout=seconds + _GRACE)
        for one in done:
            one.result()
        # Rivals that poll would need seconds to find out one by one that it is over.
        for one in late:
            one.cancel()
        await asyncio.gather(*late, return_exceptions=True)
    return found


async def hand_offs(side: Side, *, tasks: int, seconds: float) -> HandOffs | None:
    """Return how the lock went from task to task inside this process."""
    name = f"handoff:{monotonic_ns()}"
    return summary(await sections(side, tasks=tasks, seconds=seconds, name=name), tasks)


async def round_trip(side: Side, *, count: int, pause: float = 0.0) -> float:
    """Return the median microseconds of single PINGs, with a rest before each."""
    times: list[int] = []
    for _ in range(2 * count):
        if pause:
            await asyncio.sleep(pause)
        start = monotonic_ns()
        await side.ping()
        times.append(monotonic_ns() - start)
    # The first half warms up.
    return percentile(times[count:], 0.5) / 1000


async def _work(
    lock: AbstractAsyncContextManager[Any],
    end: int,
    party: int,
    found: list[Section],
    stay: float,
    pause: float,
) -> None:
    while monotonic_ns() < end:
        async with lock:
            # Later ones happen only because others stop.
            if (begin := monotonic_ns()) < end:
                if stay:
                    await asyncio.sleep(stay)
                found.append((begin, monotonic_ns(), party))
        if pause:
            await asyncio.sleep(pause)


def _work_in_thread(
    side: ThreadSide, name: str, end: int, party: int, found: list[Section]
) -> None:
    lock = side.lock(name)
    while monotonic_ns() < end:
        with lock:
            if (begin := monotonic_ns()) < end:
                found.append((begin, monotonic_ns(), party))
