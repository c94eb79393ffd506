"""What many runs came to together: a file of JSON that a later command goes on with."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.jepsen.report import costs
from tests.jepsen.result import Result


@dataclass
class Totals:
    """The sums over runs.

    Attributes:
        runs: How many there were.
        seconds: For how long nemeses struck, together.
        operations: How many operations were recorded.
        handoffs: How many contended hand-offs there were.
        slowest_handoff: The slowest of them under each set of nemeses, in milliseconds.
        looked_at: By checker: to how many operations its rule was applied.
        broken: By checker: violations of rules that must hold.
        figures: By checker: violations where an assumption of the rule did not hold.
        windows: What checkers measured under each set of nemeses that breaks an assumption, in
            the run with the most violations: what is published.
        window: The window of W1, by nemesis: see `report.costs`.
        wakes: The contended hand-offs, by nemesis: see `report.costs`.
        runs_under: By nemesis: how many runs it struck in.
        tally: What else was counted, by name: strikes, replies lost, operations.
        failed: The commands that repeat the runs that failed.
    """

    runs: int = 0
    seconds: float = 0.0
    operations: int = 0
    handoffs: int = 0
    slowest_handoff: dict[str, float] = field(default_factory=dict)
    looked_at: Counter[str] = field(default_factory=Counter)
    broken: Counter[str] = field(default_factory=Counter)
    figures: Counter[str] = field(default_factory=Counter)
    windows: dict[str, dict[str, Any]] = field(default_factory=dict)
    window: dict[str, costs.Row] = field(default_factory=dict)
    wakes: dict[str, costs.Row] = field(default_factory=dict)
    runs_under: Counter[str] = field(default_factory=Counter)
    tally: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)

    def add(self, result: Result) -> None:
        """Add what a run came to."""
        plan = result.plan
        self.runs += 1
        self.seconds += plan.seconds
        self.operations += result.operations
        self.handoffs += len(result.handoffs.taken)
        costs.WINDOW.add(self.window, result)
        costs.WAKES.add(self.wakes, result)
        if taken := result.handoffs.taken:
            slowest = max(taken[-1], self.slowest_handoff.get(plan.nemesis, 0))
            self.slowest_handoff[plan.nemesis] = round(slowest, 3)
        self.tally.update(result.tally)
        struck = [name for name in plan.nemeses if name not in result.idle]
        self.runs_under.update(struck if plan.nemeses else ("none",))
        for name, ruling in result.rulings.items():
            self.looked_at[name] += ruling.looked_at
            if ruling.state == "BROKEN":
                self.broken[name] += ruling.found
            elif ruling.state == "figure":
                self.figures[name] += ruling.found
                self._publish(f"{plan.workload} under {plan.nemesis}: {name}", result, name)
        if not result.ok:
            self.failed.append(plan.command)

    def _publish(self, where: str, result: Result, name: str) -> None:
        ruling = result.rulings[name]
        if ruling.found >= self.windows.get(where, {"violations": 0})["violations"]:
            self.windows[where] = {"violations": ruling.found, **ruling.figures}

    def save(self, path: Path) -> None:
        """Write the file; a reader sees the old or the new one whole."""
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(path.name + ".new")
        beside.write_text(json.dumps(vars(self), indent=1, sort_keys=True) + "\n", "utf-8")
        beside.replace(path)

    @classmethod
    def of(cls, results: Iterable[Result]) -> Self:
        """Return the sums over some runs."""
        made = cls()
        for result in results:
            made.add(result)
        return made

    def published(self) -> Iterator[tuple[costs.Table, dict[str, costs.Row]]]:
        """Yield the tables of what nemeses cost that have any rows."""
        for table, rows in ((costs.WINDOW, self.window), (costs.WAKES, self.wakes)):
            if rows:
                yield table, dict(sorted(rows.items()))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Return what the file has, or nothing yet."""
        if not path.exists():
            return cls()
        made = cls(**json.loads(path.read_text("utf-8")))
        for name in ("looked_at", "broken", "figures", "runs_under", "tally"):
            setattr(made, name, Counter(getattr(made, name)))
        return made
