"""What each nemesis cost, over all runs: the figures that are published whether good or bad.

A row of a table is a nemesis alone, or a nemesis and others that struck in the same runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.jepsen.report.handing import LONGEST_POLL
from tests.jepsen.result import Result

#: Sums and maxima of a row by the name of its column.
Row = dict[str, float]

#: The workload W1: its resource takes every write.
UNFENCED = "mutex"

_NONE = "none"


@dataclass(frozen=True)
class Table:
    """A table with a row for each nemesis.

    Attributes:
        title: What it is about.
        about: What its columns are, in sentences.
        columns: What a run adds to each, by name; sums, but for those that begin with a maximum.
        concerns: Whether a run belongs in it.
    """

    title: str
    about: str
    columns: Mapping[str, Callable[[Result], float]]
    concerns: Callable[[Result], bool]

    def add(self, rows: dict[str, Row], result: Result) -> None:
        """Add a run to the rows of the nemeses that struck in it."""
        if not self.concerns(result):
            return
        for name in struck(result):
            row = rows.setdefault(name, dict.fromkeys(["runs", *self.columns], 0.0))
            row["runs"] += 1
            for column, value in self.columns.items():
                found = value(result)
                worst = column.startswith(_MAXIMA)
                row[column] = max(row[column], found) if worst else row[column] + found


_MAXIMA = ("longest", "slowest")


def struck(result: Result) -> list[str]:
    """Return the rows of a run: the nemesis that struck, each of several, or none."""
    names = [name for name in result.plan.nemeses if name not in result.idle]
    if len(names) < 2:
        return names or [_NONE]
    return [f"{name} + others" for name in names]


WINDOW = Table(
    "The window of W1: two holders, as the resource saw them",
    "An unfenced lock. The resource takes every write; a window is the time from the moment in"
    " which a newer holder began to work on it to the last write of an older one.",
    {
        "windows": lambda result: len(result.overlaps),
        "longest ms": lambda result: max(result.overlaps, default=0.0),
        "ms in all": lambda result: sum(result.overlaps),
    },
    lambda result: result.plan.workload == UNFENCED,
)
WAKES = Table(
    "Contended hand-offs",
    "From a release that somebody waited for to the next grant. Own look: no message had woken the"
    " waiter; it found the lock when it looked for itself, after the lease of the holder or the"
    f" safety poll of at most {LONGEST_POLL:,.0f} ms. That is known of hand-offs between processes,"
    " of locks with one holder (of so many). Unserved: all that waited gave up first.",
    {
        "hand-offs": lambda result: len(result.handoffs.taken),
        "slowest ms": lambda result: max(result.handoffs.taken, default=0.0),
        "slower than the poll": lambda result: sum(
            each > LONGEST_POLL for each in result.handoffs.taken
        ),
        "own looks": lambda result: len(result.handoffs.own_looks),
        "of so many": lambda result: result.handoffs.followed,
        "slowest own look ms": lambda result: max(result.handoffs.own_looks, default=0.0),
        "unserved": lambda result: len(result.handoffs.unserved),
        "longest unserved ms": lambda result: max(result.handoffs.unserved, default=0.0),
    },
    lambda result: bool(result.handoffs.taken or result.handoffs.unserved),
)


def shown(column: str, value: float) -> str:
    """Return a figure as it is printed: counts whole, milliseconds with two places."""
    if "ms" in column.split():
        return f"{value:,.2f}"
    return f"{value:,.0f}"
