"""Standard output of the demo and of the tour: colours on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys

try:
    from rich.console import Console, JustifyMethod
    from rich.table import Table
    from rich.text import Text
except ModuleNotFoundError:
    sys.exit("rich is not installed: pip install '.[cli]'")

#: What the commands take from rich comes from here, so that its absence is said in one line.
__all__ = [
    "Console",
    "Table",
    "Text",
    "labelled",
    "range_of",
    "say_verdict",
    "standard_output",
]

#: Plain lines are never folded: whoever reads them may be a program.
_ENDLESS = 100_000


def standard_output() -> Console:
    """Return standard output.

    Without escape codes unless it is a terminal, and one that knows them (`TERM` is not `dumb`);
    without colours if `NO_COLOR` is set.
    """
    terminal = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    return Console(
        width=None if terminal else _ENDLESS,
        force_terminal=terminal,
        highlight=False,
        markup=False,
        emoji=False,
    )


def labelled(
    label: str | Text, text: str | Text, width: int = 7, justify: JustifyMethod = "right"
) -> Table:
    """Return a text beside its label; where a terminal is narrow, it is folded there."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(width=width, justify=justify, no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(label, text)
    return grid


def say_verdict(console: Console, seconds: float, wrong: str | None) -> None:
    """Print the last line: whether all went as it must, and how long that took.

    Args:
        console: Where to.
        seconds: How long it took.
        wrong: What went wrong, or nothing if that was said before; None if all is well.
    """
    verdict = Text("OK", "bold green") if wrong is None else Text("FAILED", "bold red")
    verdict.append(f" after {seconds:.0f} s", "not bold default")
    console.print(verdict.append(f": {wrong}" if wrong else "", "not bold default"))


def range_of(least: float, most: float) -> str:
    """Return a range of seconds in words, rounded to five."""
    low, high = (max(5, 5 * round(each / 5)) for each in (least, most))
    return f"about {low} s" if low == high else f"{low} to {high} s"
