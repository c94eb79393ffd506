"""A writer is alone; readers may be many."""

from __future__ import annotations

from tests.jepsen.checkers.holds import Hold, holds
from tests.jepsen.checkers.judging import judged
from tests.jepsen.checkers.verdict import Facts, Verdict, Violation
from tests.jepsen.history import History


@judged()
def read_write(history: History, facts: Facts) -> Verdict:
    """No hold of a writer overlaps another task's hold; the writer itself may read, too."""
    found: list[Violation] = []
    looked_at = together = longest = 0
    for obj, each in holds(history).items():
        active: list[Hold] = []
        for hold in each:
            looked_at += 1
            active = [other for other in active if other.end > hold.start]
            for other in active:
                if other.task == hold.task:
                    continue
                modes = {other.grant.value, hold.grant.value}
                if modes == {"read"}:
                    together += 1
                    continue
                longest = max(longest, min(hold.end, other.end) - hold.start)
                pair = "two writers" if modes == {"write"} else "a writer and a reader"
                found.append(Violation(f"{pair} of {obj} at once", other.shown + hold.shown))
            active.append(hold)
    figures = {"readers together": together, "longest overlap": f"{longest / 1e6:.1f} ms"}
    return Verdict(found, looked_at, figures)
