"""Writes docs/performance.md and its bar charts from the files in results/.

`python -m benchmarks.page`; a test compares what is committed with what this writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from benchmarks import page_crowd
from benchmarks.harness import number
from benchmarks.markdown import BARE, OURS, ROOT, cell, results, strong, table

RESULTS = Path("benchmarks/results/baseline.json")
PAGE = Path("docs/performance.md")
IMAGES = Path("docs/images")

#: The number of tasks that the page shows of the hand-off.
_TASKS = ", 10 tasks"


@dataclass(frozen=True)
class Chart:
    """Bars, one for each row of a table.

    Attributes:
        name: Of the file, without its ending.
        table: The table in the JSON.
        column: Its column.
        title: What stands above the bars, with the unit.
        rows: The rows, or those whose name ends so.
    """

    name: str
    table: str
    column: str
    title: str
    rows: tuple[str, ...]


CHARTS = (
    Chart(
        "performance-pairs",
        *("pairs", "64 tasks", "Pairs of acquire and release a second, 64 tasks: more is better"),
        (
            *("redisson_py", "redisson_py, uvloop", "bare stream"),
            *("bare stream, least scripts", "rueidislock (Go)"),
            *("Redisson (Java), async, 8 connections", "Redisson (Java), async"),
            *("Redisson (Java)", "aioredlock", "pottery"),
            *("redis-py", "python-redis-lock"),
        ),
    ),
    Chart(
        "performance-processor",
        *("processor time of pairs", "64 tasks"),
        "Processor time of the client, µs a pair, 64 tasks: less is better",
        (
            *("redisson_py", "redisson_py, uvloop", "bare stream"),
            *("bare stream, least scripts", "rueidislock (Go)"),
            *("Redisson (Java), async, 8 connections", "Redisson (Java), async"),
            *("Redisson (Java)", "aioredlock", "pottery"),
            *("redis-py", "python-redis-lock"),
        ),
    ),
    Chart(
        "performance-hand-off",
        *("hand-off in one process", "median us"),
        "Hand-off between 10 tasks of one process, µs: less is better",
        tuple(
            f"{side}{_TASKS}"
            for side in (
                *("redisson_py", "redisson_py, uvloop", "Redisson (Java)"),
                *("aioredlock", "pottery", "redis-py", "python-redis-lock"),
            )
        ),
    ),
)


def main() -> None:
    """Write the page and the charts."""
    for path, text in outputs().items():
        (ROOT / path).write_text(text, "utf-8")


def outputs() -> dict[Path, str]:
    """Return the text of each file."""
    tables = results(RESULTS)["tables"]
    charts = {IMAGES / f"{chart.name}.svg": _bars(chart, tables) for chart in CHARTS}
    return {PAGE: "\n".join(_page()) + "\n", **charts}


def shown(chart: Chart, tables: dict[str, Any]) -> list[str]:
    """Return the rows of a chart that a run has."""
    return [row for row in chart.rows if row in tables[chart.table]["rows"]]


def _page() -> Iterator[str]:
    whole = results(RESULTS)
    machine, versions, tables = whole["machine"], whole["versions"], whole["tables"]
    yield "# Performance"
    yield ""
    yield (
        "[One run of `make bench`](../benchmarks/results/baseline.json) on one machine: only the"
        " ratios are true elsewhere. [Benchmarks](../benchmarks/README.md) explains each figure."
    )
    yield ""
    yield from table(
        ("", ""),
        [
            ("processor", f"{machine['processor']}, {machine['processors']} cores"),
            ("server", versions["server"]),
            ("Python", versions["python"]),
            ("commit", f"`{versions['commit']}`"),
            ("versions", ", ".join(_others(versions))),
        ],
    )
    yield ""
    yield (
        "Client and server shared these cores. *bare stream* is the limit, not a library: the"
        " same two commands on one connection ([The limit](#the-limit))."
    )
    for heading, chart, words in (
        ("Uncontended", CHARTS[0], _UNCONTENDED),
        ("Processor time", CHARTS[1], _PROCESSOR),
        ("Hand-off", CHARTS[2], _HAND_OFF),
    ):
        yield from (
            "",
            f"## {heading}",
            "",
            words,
            "",
            f"![{chart.title}](images/{chart.name}.svg)",
        )
        yield ""
        yield from _figures(_shown(chart, tables[chart.table]), _columns(chart, tables))
    yield from page_crowd.limit(page_crowd.newest())
    yield from ("", "## Every primitive", "", _PRIMITIVES, "")
    yield from _figures(tables["primitives"], ["1 task", "64 tasks", "64 tasks, x lock"])
    yield from ("", "## A thousand waiters", "", _WAKE_UPS, "")
    columns = ["first, ms", "last, ms", "commands a waiter", "client us a waiter"]
    yield from _figures(tables["wake-ups"], columns)
    yield from page_crowd.crowd(page_crowd.newest())
    yield from ("", "## How costs grow", "")
    yield "![Costs by tasks, names and waiters](../benchmarks/results/baseline-growth.png)"


_UNCONTENDED = (
    "Each task acquires and releases its own lock. Our locks are renewed; those of the other Python"
    " libraries are not. Medians of the rounds:"
)
_PROCESSOR = "Of the client process, in the same rounds:"
_HAND_OFF = (
    "How long a contended lock is idle between two sections. This library passes a lock from task"
    " to task without a command for 10 ms, then releases it for other processes. Most rivals poll."
)
_PRIMITIVES = "Pairs a second, uncontended, and the ratio to a plain lock measured beside it:"
_WAKE_UPS = (
    "A thousand tasks of one process wait for one name; its holder releases it once. *last* is a"
    " thousand hand-offs of a lock; readers, latch and barrier let all go at once."
)


def _others(versions: dict[str, str]) -> Iterator[str]:
    named = {"redis": "redis-py"}
    own = ("python", "server", "commit", "redisson-py", "aioredis", "java", "go")
    return (
        f"{named.get(name, name)} {version}"
        for name, version in versions.items()
        if name not in own
    )


def _shown(chart: Chart, table: dict[str, Any]) -> dict[str, Any]:
    """Return a table with the rows of the chart, and the round-trip times."""
    rows = table["rows"]
    rows = {
        name.removesuffix(_TASKS): rows[name]
        for name in rows
        if name in chart.rows or "PING" in name
    }
    return {**table, "rows": rows}


def _columns(chart: Chart, tables: dict[str, Any]) -> list[str]:
    if chart.column == "median us":
        return ["median us", "p99 us", "hand-offs/s"]
    return list(next(iter(tables[chart.table]["rows"].values())))


def _figures(found: dict[str, Any], columns: Sequence[str]) -> Iterator[str]:
    rows = [
        (strong(name), *(cell(cells, each) for each in columns))
        for name, cells in found["rows"].items()
        if any(each in cells for each in columns)
    ]
    yield from table(("", *(each.replace(" us", " µs") for each in columns)), rows)
    for note in found["notes"]:
        yield from ("", f"*{note}*")


# Charts: text and rectangles, in colours that are readable on white and on black.

_WIDTH, _LABELS, _VALUES, _ROW_HEIGHT, _TOP = 760, 260, 80, 26, 34
_TEXT, _OUR_BAR, _LIMIT_BAR, _BAR = "#7d838c", "#c8324a", "#9aa3ad", "#5b8db8"


def _bars(chart: Chart, tables: dict[str, Any]) -> str:
    rows = tables[chart.table]["rows"]
    values = [(row, rows[row][chart.column]["median"]) for row in shown(chart, tables)]
    most = max(value for _, value in values)
    height = _TOP + _ROW_HEIGHT * len(values) + 4
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}"'
            f' role="img" aria-label="{escape(chart.title)}"'
            f' font-family="system-ui, sans-serif" font-size="13" fill="{_TEXT}">',
            f'<text x="0" y="16" font-weight="600">{escape(chart.title)}</text>',
            *(_bar(index, row, value, most) for index, (row, value) in enumerate(values)),
            "</svg>\n",
        ]
    )


def _bar(index: int, row: str, value: float, most: float) -> str:
    top = _TOP + _ROW_HEIGHT * index
    length = max(2, round((_WIDTH - _LABELS - _VALUES) * value / most))
    color = _BAR
    if row.startswith(OURS):
        color = _OUR_BAR
    elif row.startswith(BARE):
        color = _LIMIT_BAR
    label = escape(row.removesuffix(_TASKS))
    return (
        f'<text x="{_LABELS - 8}" y="{top + 14}" text-anchor="end">{label}</text>'
        f'<rect x="{_LABELS}" y="{top}" width="{length}" height="19" rx="2" fill="{color}"/>'
        f'<text x="{_LABELS + length + 6}" y="{top + 14}">{number(value)}</text>'
    )


if __name__ == "__main__":
    main()
