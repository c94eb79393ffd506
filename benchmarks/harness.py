"""Figures: percentiles, the spread over rounds, tables of them, the lines that print them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


def percentile(values: Iterable[float], share: float) -> float:
    """Return the value that `share` (above 0, up to 1) of all values do not exceed: nearest rank.

    Raises:
        ValueError: There are no values.
    """
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values")
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


@dataclass
class Spread:
    """One figure as several rounds gave it: the median counts, the spread says how far.

    Attributes:
        rounds: The figure of each round. Rounds with the same index, of two sides that take
            turns, were measured right after one another.
    """

    rounds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The figure that counts."""
        return statistics.median(self.rounds)

    def relative_to(self, other: Spread) -> Spread:
        """Return the ratios of two figures, round by round, for the rounds both have."""
        return Spread([mine / its for mine, its in zip(self.rounds, other.rounds, strict=False)])

    def __str__(self) -> str:
        low, high = number(min(self.rounds)), number(max(self.rounds))
        median = number(self.median)
        return median if len(self.rounds) == 1 or low == high else f"{median} ({low}..{high})"

    def as_json(self) -> dict[str, Any]:
        """Return what goes into the file."""
        return {
            "median": self.median,
            "min": min(self.rounds),
            "max": max(self.rounds),
            "rounds": self.rounds,
        }


@dataclass
class Table:
    """What one scenario found: a row a side or a case, a column a figure.

    Attributes:
        absent: Rows that have no figures, with the reason.
        notes: What a reader must know beside the title.
    """

    name: str
    title: str
    rows: dict[str, dict[str, Spread]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, row: str, figures: Mapping[str, float]) -> None:
        """Add one round's figures to a row."""
        cells = self.rows.setdefault(row, {})
        for column, figure in figures.items():
            cells.setdefault(column, Spread()).rounds.append(figure)

    def find(self, row: str, column: str) -> Spread | None:
        """Return a figure, if there is one."""
        return self.rows.get(row, {}).get(column)

    def texts(self) -> list[str]:
        """Return the table as text."""
        heads = list(dict.fromkeys(column for cells in self.rows.values() for column in cells))
        body = [
            [row, *[str(cells[head]) if head in cells else "" for head in heads]]
            for row, cells in self.rows.items()
        ]
        absent = [f"{row}: {reason}" for row, reason in self.absent.items()]
        return ["", self.title, *aligned([["", *heads], *body]), *absent, *self.notes]

    def as_json(self) -> dict[str, Any]:
        """Return what goes into the file."""
        return {
            "title": self.title,
            "rows": {
                row: {column: figure.as_json() for column, figure in cells.items()}
                for row, cells in self.rows.items()
            },
            "absent": self.absent,
            "notes": self.notes,
        }


@dataclass
class Goal:
    """A figure of one run, mostly a ratio, and what it should be.

    Attributes:
        found: The figure, or None if one of its sides was not measured.
        better: Whether more is better, or less.
        detail: What else should be known.
    """

    name: str
    found: Spread | None
    better: Literal["more", "less"]
    at_least: float
    aim: float | None
    unit: str
    detail: str = ""

    @property
    def verdict(self) -> str:
        """Whether it is reached."""
        if self.found is None:
            return "not measured"
        if self.aim is not None and self._reaches(self.aim):
            return "aim reached"
        return "reached" if self._reaches(self.at_least) else "MISSED"

    def _reaches(self, wanted: float) -> bool:
        assert self.found is not None
        ratio = self.found.median
        return ratio >= wanted if self.better == "more" else ratio <= wanted

    def cells(self) -> list[str]:
        """Return its line in the table of goals, without the detail."""
        aim = "" if self.aim is None else number(self.aim)
        found = "" if self.found is None else str(self.found)
        return [self.name, found, number(self.at_least), aim, self.unit, self.verdict]

    def as_json(self) -> dict[str, Any]:
        """Return what goes into the file."""
        return {
            "found": None if self.found is None else self.found.as_json(),
            "at_least": self.at_least,
            "aim": self.aim,
            "unit": self.unit,
            "better": self.better,
            "verdict": self.verdict,
            "detail": self.detail,
        }


def goal_rows(goals: list[Goal]) -> list[str]:
    """Return the table of goals as text."""
    head = ["", "found", "at least", "aim", "", ""]
    title = "Goals (`at least` is `at most` where less is better: calls, hand-offs, costs)"
    texts = aligned([head, *[goal.cells() for goal in goals]])
    details = ["", *[goal.detail for goal in goals]]
    # To the left, since some are long.
    width = max(map(len, texts))
    return [
        "",
        title,
        *[
            f"{row.ljust(width)}  {detail}".rstrip()
            for row, detail in zip(texts, details, strict=True)
        ],
    ]


def number(value: float) -> str:
    """Return a figure with three digits or so."""
    size = abs(value)
    if size >= 100 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 0.1 else f"{value:.4f}"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return lines whose columns stand under each other, the first to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
