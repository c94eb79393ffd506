"""What is told of runs: a row each, what went wrong, and the figures that are published."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence

from tests.jepsen.history import Op
from tests.jepsen.result import Result, Ruling, State

_COLUMNS = "{:14} {:26} {:9} {:>10} {:>9}  {}"
HEADING = _COLUMNS.format("workload", "nemesis", "topology", "operations", "hand-offs", "verdict")

_COLOURS = {"ok": 32, "BROKEN": 31, "figure": 33, "nothing": 90}

#: Whose figures are told of each run: how often and how long there were two holders, by the
#: workers' clocks and as the resource saw it, and how long hand-offs took.
_PUBLISHED = ("mutual exclusion", "referee", "no lost wake-up")


def row(result: Result) -> str:
    """Return a run's row of the table."""
    plan = result.plan
    nemesis = plan.nemesis
    if len(nemesis) > 26:
        nemesis = f"{nemesis[:20]}… ({len(plan.nemeses)})"
    counted = (f"{result.operations:,}", f"{result.handoffs:,}")
    return _COLUMNS.format(plan.workload, nemesis, plan.topology, *counted, _verdict(result))


def _verdict(result: Result) -> str:
    """Return what every checker said, those first that found something."""
    by_state: dict[State, list[str]] = {"BROKEN": [], "figure": [], "ok": [], "nothing": []}
    for name, ruling in result.rulings.items():
        found = f" {ruling.found:,}" if ruling.found else ""
        by_state[ruling.state].append(name + found)
    said = []
    for state, names in by_state.items():
        text = f"{state}: {', '.join(names)}"
        if names:
            colour = f"\x1b[{_COLOURS[state]}m{text}\x1b[0m"
            said.append(colour if sys.stdout.isatty() else text)
    if result.idle:
        said.append(f"did not strike: {', '.join(result.idle)}")
    return "; ".join(["TROUBLE"] * bool(result.failures) + said)


def failure(result: Result) -> str:
    """Return what went wrong in a run, with the command that repeats it."""
    rows = [f"  {text}" for text in result.failures]
    for name, ruling in result.rulings.items():
        if ruling.state == "BROKEN":
            rows += [f"  {name}: {ruling.found:,} violations", *_counterexamples(ruling)]
    if not rows:
        rows = ["  no checker had anything to look at"]
    rows.append(f"  repeat it: {result.plan.command}")
    rows.append(f"  its histories: {result.folder}")
    return "\n".join(rows)


def _counterexamples(ruling: Ruling) -> list[str]:
    rows: list[str] = []
    for each in ruling.shown:
        rows.append(f"    {each.rule}")
        start = min((op.t0 for op in each.ops), default=0)
        rows += [f"      {_operation(op, start)}" for op in each.ops]
    return rows


def _operation(op: Op, start: int) -> str:
    """Return an operation in a line, with times in milliseconds since `start`."""
    end = "…" if op.t1 is None else f"{(op.t1 - start) / 1e6:.3f}"
    facts = {
        "rid": op.rid, "owner": op.owner, "fence": op.fence, "n": op.n, "value": op.value,
        "deadline": None if op.deadline is None else f"{(op.deadline - start) / 1e6:.3f}",
        "err": op.err,
    }  # fmt: skip
    said = " ".join(f"{name}={value}" for name, value in facts.items() if value not in (None, ""))
    moments = f"{(op.t0 - start) / 1e6:10.3f} .. {end:>10} ms"
    return f"{moments}  {op.process:9} {op.handle:12} {op.op} {op.obj} {op.out} {said}"


def whole(results: Sequence[Result]) -> str:
    """Return the figures of each run, what each checker said over all runs, and the sums."""
    rows = ["", "figures:"]
    for result in results:
        plan = result.plan
        for name in _PUBLISHED:
            if (ruling := result.rulings.get(name)) and ruling.figures:
                said = "; ".join(f"{what} {value}" for what, value in ruling.figures.items())
                rows.append(f"  {plan.workload} under {plan.nemesis}: {name}: {said}")
    looked_at, broken, figures = Counter[str](), Counter[str](), Counter[str]()
    for result in results:
        for name, ruling in result.rulings.items():
            looked_at[name] += ruling.looked_at
            broken[name] += ruling.found if ruling.state == "BROKEN" else 0
            figures[name] += ruling.found if ruling.state == "figure" else 0
    rows += ["", f"{'checker':24} {'looked at':>12} {'violations':>10}  of a broken assumption"]
    for name, number in sorted(looked_at.items()):
        rows.append(f"{name:24} {number:12,} {broken[name]:10,}  {figures[name]:,}")
        if not number:
            rows.append(f"{name} had nothing to look at in any run")
    return "\n".join([*rows, "", summary(results)])


def summary(results: Sequence[Result]) -> str:
    """Return the sums over all runs."""
    return (
        f"{len(results)} runs, {sum(each.ok for each in results)} well; "
        f"{sum(each.operations for each in results):,} operations; "
        f"{sum(each.handoffs for each in results):,} contended hand-offs"
    )
