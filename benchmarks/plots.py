"""Draws how costs grow, from the tables of `scenarios/growth.py`: one PNG with four panels."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.harness import Table
from benchmarks.scenarios import growth

Tables = dict[str, Table]

#: Points of a line: how many, and the median figure.
_Points = list[tuple[int, float]]


class CannotDrawError(Exception):
    """Raised when there is no matplotlib, or nothing to draw; the message says which."""


def draw(tables: Tables, path: Path) -> None:
    """Write the PNG.

    Raises:
        CannotDrawError: It cannot be drawn.
    """
    if growth.TASKS not in tables:
        raise CannotDrawError("the scenario growth was not chosen")
    try:
        # Not imports: it is installed for benchmarks only.
        matplotlib: Any = import_module("matplotlib")
        matplotlib.use("Agg")
        pyplot: Any = import_module("matplotlib.pyplot")
    except ImportError as error:
        raise CannotDrawError(f"matplotlib is not installed ({error})") from error
    figure, panels = pyplot.subplots(2, 2, figsize=(11, 8), layout="constrained")
    rates, pairs, names, waiters = panels.flat
    _panel(rates, tables[growth.TASKS], "tasks", {growth.RATE: "-"}, "pairs a second")
    costs = {growth.PAIR: "-", growth.PAIR_CPU: "--"}
    _panel(pairs, tables[growth.TASKS], "tasks", costs, "µs a pair")
    _panel(names, tables[growth.NAMES], "names", costs, f"µs a pair, {growth.NAMES_TASKS} tasks")
    costs = {growth.HAND_OFF: "-", growth.HAND_OFF_CPU: "--"}
    _panel(waiters, tables[growth.WAITERS], "waiters of one lock", costs, "µs a hand-off")
    memory = waiters.twinx()
    _lines(memory, tables[growth.WAITERS], {growth.BYTES: ":"})
    memory.set_ylabel("bytes a waiter")
    memory.set_ylim(bottom=0)
    memory.legend(loc="upper center", fontsize="small")
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


def _panel(panel: Any, table: Table, grows: str, styles: dict[str, str], unit: str) -> None:
    _lines(panel, table, styles)
    panel.set_xscale("log")
    panel.set_yscale("log")
    # Plain numbers: the axis often has less than a power of ten.
    ticker: Any = import_module("matplotlib.ticker")
    panel.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.0f}"))
    panel.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.4g}"))
    panel.yaxis.set_minor_formatter(ticker.FuncFormatter(_minor))
    panel.tick_params(axis="y", which="minor", labelsize="small")
    panel.set_xlabel(grows)
    panel.set_ylabel(unit)
    panel.grid(alpha=0.3)
    panel.legend(fontsize="small")


def _minor(value: float, _: int) -> str:
    """Return a label for 2 and 5, nothing for the rest."""
    return f"{value:,.4g}" if f"{value:e}"[0] in "25" else ""


def _lines(panel: Any, table: Table, styles: dict[str, str]) -> None:
    colors: dict[str, str] = {}
    for column, style in styles.items():
        for side, points in _sides(table, column):
            color = colors.setdefault(side, f"C{len(colors)}")
            label = f"{side}: {column}"
            panel.plot(*zip(*points, strict=True), style, color=color, marker=".", label=label)


def _sides(table: Table, column: str) -> Iterator[tuple[str, _Points]]:
    """Yield the points of each side; rows are those of `growth.row`."""
    found: dict[str, _Points] = {}
    for row, cells in table.rows.items():
        side, _, count = row.rpartition(", ")
        if column in cells:
            points = found.setdefault(side, [])
            points.append((int(count.replace(",", "")), cells[column].median))
    yield from found.items()
