"""From the histories in a folder to a result: nothing but what was recorded counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.jepsen.checkers import CHECKERS
from tests.jepsen.checkers.verdict import Assumption, Facts
from tests.jepsen.complete import idle, missing, unprovoked
from tests.jepsen.history import History, read_history
from tests.jepsen.plan import Plan
from tests.jepsen.result import Result, Ruling
from tests.jepsen.workloads import WORKLOADS

_TROUBLE = "trouble.txt"


def note_trouble(folder: Path, texts: list[str]) -> None:
    """Write down what went wrong besides: the verdicts of another day must know it too."""
    if texts:
        (folder / _TROUBLE).write_text("\0".join(texts), "utf-8")


def _as_struck(plan: Plan, history: History) -> Facts:
    """Return what checkers must know: only what a nemesis did excuses anything."""
    strikes = [op for op in history.of("nemesis") if plan.breaks_by(op.rid)]
    broken = frozenset[Assumption]().union(*(plan.breaks_by(op.rid) for op in strikes))
    since = min((op.t0 for op in strikes), default=0)
    return replace(plan.facts, broken=broken, broken_since=since)


def judge(folder: Path) -> Result:
    """Apply the checkers of a plan to its histories."""
    plan, history = Plan.load(folder), read_history(folder)
    facts = _as_struck(plan, history)
    rulings = {
        name: Ruling.of(CHECKERS[name](history, facts))
        for name in WORKLOADS[plan.workload].checkers
    }
    trouble = folder / _TROUBLE
    noted = trouble.read_text("utf-8").split("\0") if trouble.exists() else []
    return Result(
        plan,
        len(history),
        rulings,
        [*noted, *missing(plan, history), *unprovoked(plan, history)],
        idle(plan, history),
        str(folder),
    )
