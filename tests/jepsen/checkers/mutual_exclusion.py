"""At most one holder at a time, in the sense of leases."""

from __future__ import annotations

from tests.jepsen.checkers.holds import Hold, holds
from tests.jepsen.checkers.verdict import Facts, Verdict, Violation
from tests.jepsen.history import History


def mutual_exclusion(history: History, facts: Facts) -> Verdict:
    """No two handles certainly hold an object at the same moment."""
    found: list[Violation] = []
    looked_at = 0
    window = 0
    for obj in history.by_object("acquire"):
        longest: Hold | None = None
        for hold in holds(history, obj):
            looked_at += 1
            if longest is not None and hold.start < longest.end:
                window = max(window, min(hold.end, longest.end) - hold.start)
                ops = tuple(sorted((*longest.shown, *hold.shown), key=lambda op: op.t0))
                found.append(Violation(f"two holders of {obj} at once", ops))
            if longest is None or hold.end > longest.end:
                longest = hold
    return Verdict(found, looked_at, {"longest violation": f"{window / 1e6:.1f} ms"})
