"""Results and operations made by hand, for tests of what is done with them."""

from __future__ import annotations

from typing import Any

from tests.jepsen.checkers import written
from tests.jepsen.checkers.verdict import Violation
from tests.jepsen.history import Op, Outcome
from tests.jepsen.plan import Plan
from tests.jepsen.report.handing import HandOffs
from tests.jepsen.result import Bin, Result, Ruling, Span

MS = 1_000_000
PLAN = Plan("mutex", ("kill", "pause"), "single", 5, 7)


def op(name: str, rid: str, start: int, end: int | None, out: Outcome = "ok", **facts: Any) -> Op:
    """Return an operation of the section `rid` of task `rid`, with times in milliseconds."""
    facts = {"process": rid, "handle": f"{rid}.0", "obj": "plain-1", "out": out, **facts}
    return written.op(name, start * MS, None if end is None else end * MS, rid, **facts)


OVERLAP = (
    op("acquire", "w0", 0, 10, fence=1, deadline=1000 * MS),
    op("acquire", "w1", 5, 20, fence=2, deadline=1000 * MS),
    op("release", "w1", 30, 35),
    op("release", "w0", 40, None, "info", err="ConnectionError"),
)
TWO_HOLDERS = Ruling(
    12, 5, (Violation("two holders <of> plain-1 at once", OVERLAP),), {"longest": "10 ms"}
)


def result(plan: Plan = PLAN, **changed: Any) -> Result:
    """Return the result of a run that went well, with changes."""
    facts: dict[str, Any] = {
        "operations": 1000,
        "rulings": {"mutual exclusion": Ruling(120, 0)},
        "handoffs": HandOffs((0.5, 1.0, 2.0, 400.0), (), 4, ()),
        "overlaps": (),
        "tally": {"strikes: kill worker": 2, "acquire ok": 120},
        "spans": [Span("kill worker", "w0", 1.0, 1.5)],
        "bins": [Bin(0.0, 100.0, 1.0, 9.0), Bin(1.0, 0.0, None, None), Bin(2.0, 90.0, 2.0, 80.0)],
        "began": 0,
        "folder": "kept",
    }
    return Result(plan, **{**facts, **changed})
