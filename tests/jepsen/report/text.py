"""The table of runs, and what is said of each failure, as text."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence

from tests.jepsen.history import Op
from tests.jepsen.report import costs
from tests.jepsen.report.series import quantile
from tests.jepsen.result import Result, Ruling, State
from tests.jepsen.totals import Totals

_COLUMNS = "{:14} {:26} {:9} {:>10} {:>9}  {}"
HEADING = _COLUMNS.format("workload", "nemesis", "topology", "operations", "hand-offs", "verdict")

_COLOURS = {"ok": 32, "BROKEN": 31, "figure": 33, "nothing": 90}


def coloured(text: str, state: State) -> str:
    """Return a text as a terminal shows it; plain where none reads it."""
    return f"\x1b[{_COLOURS[state]}m{text}\x1b[0m" if sys.stdout.isatty() else text


def row(result: Result) -> str:
    """Return a run's row of the table."""
    plan = result.plan
    counted = (f"{result.operations:,}", f"{len(result.handoffs.taken):,}")
    names = (plan.workload, _short(plan.nemesis), plan.topology)
    return _COLUMNS.format(*names, *counted, verdict(result))


def _short(text: str) -> str:
    return text if len(text) <= 26 else f"{text[:20]}… ({text.count(',') + 1})"


def verdict(result: Result) -> str:
    """Return what every checker said, those first that found something."""
    by_state: dict[State, list[str]] = {"BROKEN": [], "figure": [], "ok": [], "nothing": []}
    for name, ruling in result.rulings.items():
        found = f" {ruling.found:,}" if ruling.found else ""
        by_state[ruling.state].append(name + found)
    said = [
        coloured(f"{state}: {', '.join(names)}", state)
        for state, names in by_state.items()
        if names
    ]
    if result.idle:
        said.append(f"did not strike: {', '.join(result.idle)}")
    return "; ".join(["TROUBLE"] * bool(result.trouble) + said)


def failure(result: Result) -> str:
    """Return what went wrong in a run, with the command that repeats it."""
    lines = [f"  {text}" for text in result.trouble]
    for name, ruling in result.rulings.items():
        if ruling.state == "BROKEN":
            lines += [f"  {name}: {ruling.found:,} violations", *_counterexamples(ruling)]
    if not lines:
        lines = ["  no checker had anything to look at"]
    lines.append(f"  repeat it: {result.plan.command}")
    lines.append(f"  its histories: {result.folder}")
    return "\n".join(lines)


def _counterexamples(ruling: Ruling) -> list[str]:
    lines: list[str] = []
    for each in ruling.shown:
        lines.append(f"    {each.rule}")
        start = min((op.t0 for op in each.ops), default=0)
        lines += [f"      {operation(op, start)}" for op in each.ops]
    return lines


def operation(op: Op, start: int) -> str:
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


def checkers(results: Sequence[Result]) -> str:
    """Return the table of checkers: over all runs, what each looked at and found."""
    totals = Totals.of(results)
    lines = [f"{'checker':24} {'looked at':>12} {'violations':>10}  where an assumption is broken"]
    for name, looked_at in sorted(totals.looked_at.items()):
        figure = f"{totals.figures[name]:,}" if name in totals.figures else "-"
        lines.append(f"{name:24} {looked_at:12,} {totals.broken[name]:10,}  {figure}")
    return "\n".join(lines)


def published(results: Sequence[Result]) -> str:
    """Return the tables of what each nemesis cost."""
    lines: list[str] = []
    for table, rows in Totals.of(results).published():
        names = ["runs", *table.columns]
        lines += ["", table.title, *textwrap.wrap(table.about, 100)]
        lines.append("  ".join([f"{'nemesis':30}", *names]))
        for nemesis, row in rows.items():
            cells = [f"{costs.shown(name, row[name]):>{len(name)}}" for name in names]
            lines.append("  ".join([f"{nemesis:30}", *cells]))
    return "\n".join(lines)


def summary(results: Sequence[Result]) -> str:
    """Return the figures of all runs together."""
    taken = sorted(each for result in results for each in result.handoffs.taken)
    said = [
        f"{len(results)} runs, {sum(each.ok for each in results)} well",
        f"{sum(each.operations for each in results):,} operations",
        f"{len(taken):,} contended hand-offs",
    ]
    if taken:
        parts = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
        said.append(
            ", ".join(f"{name} {quantile(taken, part):.2f} ms" for name, part in parts.items())
        )
    return "; ".join(said)


def silent(results: Sequence[Result]) -> list[str]:
    """Return the checkers that had nothing to look at in any run."""
    states: dict[str, set[State]] = {}
    for result in results:
        for name, ruling in result.rulings.items():
            states.setdefault(name, set()).add(ruling.state)
    return sorted(name for name, found in states.items() if found == {"nothing"})
