"""A fair lock is granted in the order in which requests reached Redis."""

from __future__ import annotations

from collections.abc import Sequence

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
    stopped or cut off may have lost its place in the queue: it is counted as excused.
    """
    found: list[Violation] = []
    visits: dict[str, list[Visit]] = {}
    workers = {op.process for op in history.of("acquire")}
    for (obj, _), ops in by_use(history, "ticket", "acquire").items():
        place = next((op for op in ops if op.op == "ticket" and op.out == "ok"), None)
        grant = granted(ops)
        if place is not None and grant is not None and (grant.deadline or grant.end) >= grant.end:
            visits.setdefault(obj, []).append((place, grant))
    excused = 0
    for obj, each in visits.items():
        each.sort(key=lambda visit: visit[1].end)
        latest: Visit | None = None
        for visit in each:
            if latest is not None and visit[0].end < latest[0].t0:
                if struck(history.of("nemesis"), visit, workers):
                    excused += 1
                else:
                    found.append(Violation(f"a later request of {obj} came first", latest + visit))
            if latest is None or visit[0].t0 > latest[0].t0:
                latest = visit
    looked_at = sum(map(len, visits.values()))
    return Verdict(found, looked_at, {"inversions": len(found), "excused": excused})


def struck(nemesis: Sequence[Op], visit: Visit, workers: set[str]) -> bool:
    """Return whether a nemesis struck anything but another worker between ticket and grant."""
    place, grant = visit
    return any(
        op.t0 <= grant.end and op.end >= place.t0 and op.obj not in workers - {grant.process}
        for op in nemesis
    )
