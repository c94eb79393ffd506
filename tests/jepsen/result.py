"""What is left of a run when its history is forgotten: what reports and mutants read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from tests.jepsen.checkers.verdict import COUNTED, EXCUSED, Verdict, Violation
from tests.jepsen.history import Op
from tests.jepsen.plan import Plan

_FILE = "result.json"

#: So many counterexamples of one checker are kept; the rest is counted.
SHOWN = 3

#: It holds; it does not; it rests on what did not hold here, so that it is a figure; it had
#: nothing to look at.
State = Literal["ok", "BROKEN", "figure", "nothing"]


@dataclass(frozen=True)
class Ruling:
    """What one checker said of one run.

    Attributes:
        looked_at: How many operations, or pairs of them, its rule was applied to.
        found: How many violations there are.
        shown: The first of them.
        figures: What it counted or measured.
        excused: A nemesis broke an assumption of the rule: what was found is a figure.
    """

    looked_at: int
    found: int
    shown: tuple[Violation, ...] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)
    excused: bool = False

    @classmethod
    def of(cls, verdict: Verdict) -> Self:
        """Return what is kept of a verdict."""
        # What is excused never hides what is not.
        excused = None if verdict.violations else verdict.figures.get(EXCUSED)
        counted = excused or verdict.figures.get(COUNTED)
        number = sum(counted.values()) if counted else len(verdict.violations)
        shown = tuple(verdict.violations[:SHOWN])
        return cls(verdict.looked_at, number, shown, verdict.figures, bool(excused))

    @property
    def state(self) -> State:
        """What it came to, in a word."""
        if self.excused:
            return "figure"
        if self.found:
            return "BROKEN"
        return "ok" if self.looked_at else "nothing"

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Self:
        """Return what JSON has of one."""
        shown = tuple(
            Violation(each["rule"], tuple(Op(**op) for op in each["ops"]))
            for each in found["shown"]
        )
        return cls(**{**found, "shown": shown})


@dataclass(frozen=True)
class Result:
    """What came out of a run.

    Attributes:
        plan: What was run.
        operations: How many operations were recorded.
        rulings: What each checker said.
        failures: What went wrong besides: a worker that did not end, a run that failed.
        idle: Nemeses of the plan that did not strike.
        folder: Where the histories are; empty if they were not kept.
    """

    plan: Plan
    operations: int = 0
    rulings: Mapping[str, Ruling] = field(default_factory=dict)
    failures: Sequence[str] = ()
    idle: Sequence[str] = ()
    folder: str = ""

    @property
    def ok(self) -> bool:
        """Whether no rule is broken, every process ended well, and something was looked at."""
        states = [ruling.state for ruling in self.rulings.values()]
        return (
            not self.failures and "BROKEN" not in states and {"ok", "figure"} & {*states} != set()
        )

    @property
    def broken(self) -> list[str]:
        """The names of the checkers whose rule does not hold."""
        return [name for name, ruling in self.rulings.items() if ruling.state == "BROKEN"]

    @property
    def handoffs(self) -> int:
        """How many releases there were that somebody waited for."""
        ruling = self.rulings.get("no lost wake-up")
        return ruling.looked_at if ruling else 0

    def save(self, folder: Path) -> None:
        """Write it beside the histories it was made from."""
        (folder / _FILE).write_text(json.dumps(asdict(self)) + "\n", "utf-8")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Return what `save` wrote.

        Raises:
            FileNotFoundError: The run did not come that far.
        """
        found = json.loads((folder / _FILE).read_text("utf-8"))
        found["plan"] = Plan.from_json(found["plan"])
        found["rulings"] = {name: Ruling.from_json(each) for name, each in found["rulings"].items()}
        return cls(**{**found, "folder": str(folder)})
