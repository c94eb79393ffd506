"""At most one holder at a time, in the sense of leases."""

from __future__ import annotations

from tests.jepsen.checkers.holds import Hold, holds
from tests.jepsen.checkers.judging import judged
from tests.jepsen.checkers.verdict import Facts, Verdict, Violation
from tests.jepsen.history import History


@judged()
def mutual_exclusion(history: History, facts: Facts) -> Verdict:
    """No two handles certainly hold an object at the same moment.

    Where replicas confirm grants, none counts that no replica can have. Where an assumption is
    broken, the number and the length of the overlaps are what is published.
    """
    found = _unconfirmed(history) if facts.settings.get("confirmed") else []
    looked_at = longest = total = 0
    for obj, each in holds(history).items():
        last: Hold | None = None
        for hold in each:
            looked_at += 1
            if last is not None and hold.start < last.end:
                overlap = min(hold.end, last.end) - hold.start
                longest, total = max(longest, overlap), total + overlap
                found.append(Violation(f"two holders of {obj} at once", last.shown + hold.shown))
            if last is None or hold.end > last.end:
                last = hold
    figures = {
        "overlaps": sum(not each.exact for each in found),
        "longest overlap": f"{longest / 1e6:.1f} ms",
        "overlaps in all": f"{total / 1e6:.1f} ms",
    }
    return Verdict(found, looked_at, figures)


def _unconfirmed(history: History) -> list[Violation]:
    """Find grants that no replica can have confirmed: the only one stood still all the time."""
    frozen = history.of("frozen")
    found: list[Violation] = []
    owners: set[str] = set()
    for op in history.of("acquire"):
        if op.out != "ok" or op.owner in owners:
            continue  # it was passed on inside a process
        owners.add(op.owner)
        pause = next((each for each in frozen if each.t0 <= op.t0 and op.end <= each.end), None)
        if pause is not None:
            found.append(Violation(f"a grant of {op.obj} was not confirmed", (op, pause), True))
    return found
