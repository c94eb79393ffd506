"""What a checker says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.jepsen.history import History, Op

#: What the promise of a lease rests on, and a nemesis may break: no acknowledged write is lost,
#: clocks run at nearly the same speed and are not stepped, nobody else writes the keys.
Assumption = Literal["data", "clocks", "keys"]


@dataclass(frozen=True)
class Facts:
    """What a checker must know of a run besides its history.

    Attributes:
        limits: How many may hold each object at once: permits of a semaphore. 1 if not named.
        parties: How many a barrier waits for, how many a latch counts, by object.
        settings: What else the workload was given.
        broken: The assumptions that a nemesis of the run breaks.
    """

    limits: dict[str, int] = field(default_factory=dict)
    parties: dict[str, int] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    broken: frozenset[Assumption] = frozenset()


@dataclass(frozen=True)
class Violation:
    """A broken rule, and the fewest operations that show it.

    Attributes:
        rule: What does not hold, in a sentence.
        ops: The smallest counterexample: a history of these alone breaks the rule.
    """

    rule: str
    ops: tuple[Op, ...]


@dataclass(frozen=True)
class Verdict:
    """What a checker found.

    Attributes:
        violations: What breaks a rule; empty if all is well.
        figures: What was counted or measured, for the report.
        looked_at: How many operations, or pairs of them, the rule was applied to. A verdict over
            none says nothing.
        waived: The assumptions that the rule rests on and that did not hold: `Facts.broken` and
            what the checker needs. What was found then is a figure, which is published.
    """

    violations: Sequence[Violation]
    looked_at: int
    figures: dict[str, Any] = field(default_factory=dict)
    waived: frozenset[Assumption] = frozenset()

    @property
    def ok(self) -> bool:
        """Whether nothing was found that should not be."""
        return bool(self.waived) or not self.violations


Checker = Callable[[History, Facts], Verdict]
