"""What a checker says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.jepsen.history import History, Op

#: What the promise of a lease rests on, and a nemesis may break: no acknowledged write is lost,
#: clocks run at nearly the same speed and are not stepped, nobody else writes the keys.
Assumption = Literal["data", "clocks", "keys"]

#: The figures in which a verdict counts its violations, by their rule.
EXCUSED, COUNTED = "found, excused by broken assumptions", "violations"


@dataclass(frozen=True)
class Facts:
    """What a checker must know of a run besides its history.

    Attributes:
        limits: How many may hold each object at once: permits of a semaphore. 1 if not named.
        parties: How many a barrier waits for, how many a latch counts, by object, or by what the
            names of many begin with: `barrier` stands for `barrier-1`, `barrier-2`, ...
        settings: What else the workload was given.
        broken: The assumptions that a nemesis broke (`Nemesis.breaks`): what rests on them becomes
            a figure instead of a verdict.
        broken_since: When the first of these nemeses struck. What was over by then is not excused.
        lasting: Patterns of keys that are there at the end of a good run, too.
        wake_bound: Seconds after which a hand-off to a waiter was slow: above it, it must have a
            reason. None: what wakes waiters was under attack, so latencies are figures.
        longest_lease: Seconds of the longest lease that anybody asks for; None: not known.
    """

    limits: dict[str, int] = field(default_factory=dict)
    parties: dict[str, int] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    broken: frozenset[Assumption] = frozenset()
    broken_since: int = 0
    lasting: tuple[str, ...] = ("redisson_lock_token:*",)
    wake_bound: float | None = None
    longest_lease: float | None = None

    def parties_of(self, obj: str) -> int:
        """Return how many a barrier waits for, how many a latch counts; 1 if that is not known."""
        return self.parties.get(obj) or self.parties.get(obj.rpartition("-")[0], 1)


@dataclass(frozen=True)
class Violation:
    """A broken rule, and the fewest operations that show it.

    Attributes:
        rule: What does not hold, in a sentence.
        ops: The smallest counterexample: a history of these alone breaks the rule. A checker may
            find the operation alone that shows it; `judged` then finds the others.
        exact: The checker found exactly what shows it. Without some of them the rest would be
            broken too, but not by what happened (a write that nobody made is a lost update).
    """

    rule: str
    ops: tuple[Op, ...]
    exact: bool = False


@dataclass(frozen=True)
class Verdict:
    """What a checker found.

    Attributes:
        violations: What breaks a rule; empty if all is well.
        figures: What was counted or measured, for the report.
        looked_at: How many operations, or pairs of them, the rule was applied to. A verdict over
            none says nothing.
    """

    violations: Sequence[Violation]
    looked_at: int
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.violations


Checker = Callable[[History, Facts], Verdict]
