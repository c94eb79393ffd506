"""A fair lock is granted in the order in which requests reached Redis."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from tests.jepsen.checkers.holds import by_use, granted
from tests.jepsen.checkers.judging import judged
from tests.jepsen.checkers.verdict import Facts, Verdict, Violation
from tests.jepsen.history import History, Op

Visit = tuple[Op, Op]
"""A ticket, and its grant."""


@judged()
def fifo(history: History, facts: Facts) -> Verdict:
    """Nobody is granted the lock before somebody whose ticket is certainly older.

    A ticket is older if its enqueueing had ended before the other one's began. Grants have the
    order in which they returned: one whose lease was still valid then cannot have been granted
    before one that returned earlier. Tickets that were abandoned do not count. A waiter that was
    stopped or cut off may have lost its place in the queue: it is not judged, and counts as
    excused if somebody came first. Nor is the first visit of an object: nobody came before.
    """
    found: list[Violation] = []
    visits: dict[str, list[Visit]] = {}
    workers = {op.process for op in history.of("acquire")}
    for (obj, _), ops in by_use(history, "ticket", "acquire").items():
        arrival = next((op for op in ops if op.op == "ticket" and op.out == "ok"), None)
        grant = granted(ops)
        if arrival is not None and grant is not None and (grant.deadline or grant.end) >= grant.end:
            visits.setdefault(obj, []).append((arrival, grant))
    strikes = _Strikes(history.of("nemesis"), workers)
    excused = looked_at = 0
    for obj, each in visits.items():
        each.sort(key=lambda visit: visit[1].end)
        latest: Visit | None = None
        for visit in each:
            if latest is not None:
                struck, inverted = strikes.between(visit), visit[0].end < latest[0].t0
                looked_at += not struck
                excused += inverted and struck
                if inverted and not struck:
                    found.append(Violation(f"a later request of {obj} came first", latest + visit))
            if latest is None or visit[0].t0 > latest[0].t0:
                latest = visit
    return Verdict(found, looked_at, {"inversions": len(found), "excused": excused})


class _Strikes:
    """When nemeses struck anything but another worker, by the worker that this concerns."""

    def __init__(self, nemesis: Sequence[Op], workers: set[str]) -> None:
        self._begins: dict[str, list[int]] = {}
        # The latest end of a strike and of all that began before it.
        self._ends: dict[str, list[float]] = {}
        for worker in workers:
            others = workers - {worker}
            concerns = [op for op in nemesis if op.obj not in others]
            self._begins[worker] = [op.t0 for op in concerns]
            self._ends[worker] = [*accumulate((op.end for op in concerns), max)]

    def between(self, visit: Visit) -> bool:
        """Return whether one was at work between ticket and grant."""
        arrival, grant = visit
        begun = bisect_right(self._begins[grant.process], grant.end)
        return begun > 0 and self._ends[grant.process][begun - 1] >= arrival.t0
