"""What docs/performance.md is made of: results of runs, and tables of them in Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import number

ROOT = Path(__file__).parents[1]

#: Rows that are ours.
OURS = "redisson_py"
#: No library, but the limit: one connection, and nothing around it.
BARE = "bare stream"


def results(path: Path) -> dict[str, Any]:
    """Return what a run wrote."""
    found: dict[str, Any] = json.loads((ROOT / path).read_text("utf-8"))
    return found


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield f"| {' | '.join(head)} |"
    yield f"|---|{'---:|' * (len(head) - 1)}" if len(head) > 2 else "|---|---|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def cell(cells: dict[str, Any], column: str) -> str:
    """Return the median of a figure, or nothing."""
    return number(cells[column]["median"]) if column in cells else ""


def strong(name: str) -> str:
    """Return the name of a row; what is ours stands out."""
    return f"**{name}**" if name.startswith(OURS) else name
