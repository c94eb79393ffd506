"""Draws how costs grow: a PNG of the tables of `scenarios/growth.py`, one of `crowd.py`."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.harness import Table
from benchmarks.scenarios import crowd, growth

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
    pyplot = _pyplot()
    figure, panels = pyplot.subplots(2, 3, figsize=(15, 8), layout="constrained")
    rates, pairs, cpu, names, waiters, memory = panels.flat
    tasks, by_name, waiting = (
        tables[name] for name in (growth.TASKS, growth.NAMES, growth.WAITERS)
    )
    _panel(rates, tasks, [growth.RATE], "tasks", "pairs a second")
    _panel(pairs, tasks, [growth.PAIR], "tasks", "µs a pair")
    _panel(cpu, tasks, [growth.PAIR_CPU], "tasks", "µs of the client's processor a pair")
    costs = [growth.PAIR, growth.PAIR_CPU]
    _panel(names, by_name, costs, f"names, taken by {growth.NAMES_TASKS} tasks", "µs a pair")
    costs = [growth.HAND_OFF, growth.HAND_OFF_CPU]
    _panel(waiters, waiting, costs, "waiters of one lock", "µs a hand-off")
    _panel(memory, waiting, [growth.BYTES], "waiters of one lock", "bytes a waiter")
    memory.set_yscale("linear")
    memory.set_ylim(bottom=0)
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


def draw_clients(tables: Tables, path: Path) -> None:
    """Write the PNG of the crowd: the lock beside rivals, and below it every kind of ours.

    Raises:
        CannotDrawError: It cannot be drawn.
    """
    if crowd.NAME not in tables:
        raise CannotDrawError("the scenario crowd was not chosen")
    pyplot = _pyplot()
    figure, panels = pyplot.subplots(2, 4, figsize=(20, 9), layout="constrained")
    for name, row in zip((crowd.NAME, crowd.NAME_KINDS), panels, strict=True):
        columns = (crowd.RATE, crowd.SCRIPTS, crowd.LONGEST, crowd.EVENNESS)
        units = ("hand-offs a second", "scripts a hand-off", "longest wait, ms", "Jain's index")
        for panel, column, unit in zip(row, columns, units, strict=True):
            _panel(panel, tables[name], [column], "clients, each with one task", unit)
        row[0].set_title("the lock" if name == crowd.NAME else "every kind of redisson_py")
        row[-1].set_yscale("linear")
        row[-1].set_ylim(0, 1.05)
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


def _pyplot() -> Any:
    """Return matplotlib's module, which is installed for benchmarks only.

    Raises:
        CannotDrawError: It is not.
    """
    try:
        matplotlib: Any = import_module("matplotlib")
        matplotlib.use("Agg")
        return import_module("matplotlib.pyplot")
    except ImportError as error:
        raise CannotDrawError(f"matplotlib is not installed ({error})") from error


def _panel(panel: Any, table: Table, columns: list[str], grows: str, unit: str) -> None:
    colors: dict[str, str] = {}
    for column, style in zip(columns, ("-", "--"), strict=False):
        for side, points in _sides(table, column):
            color = colors.setdefault(side, f"C{len(colors)}")
            label = side if len(columns) == 1 else f"{side}: {column}"
            panel.plot(*zip(*points, strict=True), style, color=color, marker=".", label=label)
    panel.set_xscale("log")
    panel.set_yscale("log")
    # Plain numbers, and more than powers of ten: an axis often has only one of those.
    ticker: Any = import_module("matplotlib.ticker")
    panel.xaxis.set_major_formatter(ticker.FuncFormatter(_figure))
    panel.yaxis.set_major_formatter(ticker.FuncFormatter(_figure))
    panel.yaxis.set_minor_formatter(ticker.FuncFormatter(_minor_figure))
    panel.tick_params(axis="y", which="minor", labelsize="small")
    panel.set_xlabel(grows)
    panel.set_ylabel(unit)
    panel.grid(alpha=0.3)
    panel.legend(fontsize="small")


def _figure(value: float, _: int) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.3g}"


def _minor_figure(value: float, index: int) -> str:
    """Return a label for 2 and 5, nothing for the rest."""
    return _figure(value, index) if f"{value:e}"[0] in "25" else ""


def _sides(table: Table, column: str) -> Iterator[tuple[str, _Points]]:
    """Yield the points of each side; rows are those of `growth.row`. Logarithms know no 0."""
    found: dict[str, _Points] = {}
    for row, cells in table.rows.items():
        side, _, count = row.rpartition(", ")
        if column in cells and cells[column].median:
            points = found.setdefault(side, [])
            points.append((int(count.replace(",", "")), cells[column].median))
    yield from found.items()
