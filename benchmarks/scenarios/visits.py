"""Who asked when, and was in when: the raw figures of contention, and what they say."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from time import monotonic, monotonic_ns
from typing import NamedTuple

from benchmarks.crew import Worker
from benchmarks.harness import percentile
from benchmarks.rivals.kinds import LOCK
from benchmarks.rivals.side import Side, TaskSide

#: Seconds until all workers have their orders.
_LEAD = 0.02

#: Seconds after the end of a round in which everybody should have left.
_GRACE = 0.2


class Visit(NamedTuple):
    """One section, in nanoseconds of the clock that all processes of a machine share."""

    asked: int
    begin: int
    end: int
    party: Hashable


async def watch(
    workers: Sequence[Worker], *, tasks: int, seconds: float, kind: str = LOCK
) -> list[Visit]:
    """Have all workers go in and out of one name, `tasks` tasks in each, for a while."""
    start_at = monotonic() + _LEAD
    name = f"visits:{start_at}"
    lists: list[list[tuple[int, int, int, int]]] = await asyncio.gather(
        *[
            one.do("visits", tasks=tasks, seconds=seconds, kind=kind, name=name, start_at=start_at)
            for one in workers
        ]
    )
    return [
        Visit(asked, begin, end, (process, task))
        for process, found in enumerate(lists)
        for asked, begin, end, task in found
    ]


def at_once(visits: Iterable[Visit]) -> int:
    """Return how many were in at the same time, at most."""
    steps = [(visit.begin, 1) for visit in visits] + [(visit.end, -1) for visit in visits]
    inside = most = 0
    # At the same nanosecond the one who leaves is first.
    for _, step in sorted(steps):
        inside += step
        most = max(most, inside)
    return most


def evenness(visits: Iterable[Visit], parties: int) -> float:
    """Return Jain's index of the visits of all parties: 1 is even, 1/n is all to one."""
    counts = Counter(visit.party for visit in visits).values()
    return sum(counts) ** 2 / (parties * sum(count**2 for count in counts)) if counts else 0.0


def positions_lost(visits: Iterable[Visit]) -> list[int]:
    """Return of each visit how many others asked later and were in sooner."""
    found = sorted(visits, key=lambda visit: visit.begin)
    lost: list[int] = []
    for index, visit in enumerate(found):
        before = index - 1
        overtaken = 0
        # Who was in before this one asked has not overtaken it.
        while before >= 0 and found[before].begin > visit.asked:
            overtaken += found[before].asked > visit.asked
            before -= 1
        lost.append(overtaken)
    return lost


def later_visits(visits: Iterable[Visit]) -> list[Visit]:
    """Return all but everybody's first: those asked all at once, which has no order."""
    begun: set[Hashable] = set()
    found: list[Visit] = []
    for visit in sorted(visits, key=lambda visit: visit.begin):
        if visit.party in begun:
            found.append(visit)
        begun.add(visit.party)
    return found


def wait_ms(visits: Iterable[Visit], share: float) -> float:
    """Return the wait, in milliseconds, that so many of all visits did not exceed."""
    return percentile((visit.begin - visit.asked for visit in visits), share) / 1e6


# In the workers.


async def visits(
    side: Side, *, tasks: int, seconds: float, kind: str, name: str, start_at: float
) -> list[tuple[int, int, int, int]]:
    """Go in and out of one name; return when each task asked, was in and left."""
    assert isinstance(side, TaskSide)
    await asyncio.sleep(start_at - monotonic())
    end = monotonic_ns() + int(seconds * 1e9)
    found: list[tuple[int, int, int, int]] = []
    users = [
        asyncio.create_task(_visit(side, kind, name, end, number, found)) for number in range(tasks)
    ]
    done, late = await asyncio.wait(users, timeout=seconds + _GRACE)
    for one in done:
        one.result()
    # Rivals that poll would need seconds to find out one by one that it is over.
    for one in late:
        one.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    return found


async def _visit(
    side: TaskSide,
    kind: str,
    name: str,
    end: int,
    number: int,
    found: list[tuple[int, int, int, int]],
) -> None:
    entered = side.made(kind, name)
    while (asked := monotonic_ns()) < end:
        async with entered:
            # Later ones happen only because others stop.
            if (begin := monotonic_ns()) < end:
                found.append((asked, begin, monotonic_ns(), number))
