"""At most one holder at a time, in the sense of leases."""

from __future__ import annotations

from tests.jepsen.checkers.holds import Hold, holds
from tests.jepsen.checkers.judging import judged
from tests.jepsen.checkers.verdict import Facts, Verdict, Violation
from tests.jepsen.history import History


@judged()
def mutual_exclusion(history: History, facts: Facts) -> Verdict:
    """No two handles certainly hold an object at the same moment.

    Where an assumption is broken, the number and the length of the overlaps are what is published.
    """
    found: list[Violation] = []
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
        "overlaps": len(found),
        "longest overlap": f"{longest / 1e6:.1f} ms",
        "overlaps in all": f"{total / 1e6:.1f} ms",
    }
    return Verdict(found, looked_at, figures)
