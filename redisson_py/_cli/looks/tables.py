"""Findings as rows of a table."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from redisson_py._cli.looks.found import Found, client, left, printable, summary

COLUMNS = ("NAME", "KIND", "STATE", "HOLDER", "LEFT", "WAIT", "WAITED", "LISTEN")
#: Wide enough that nothing is cut where no terminal sets the width.
_WIDTH = 10_000

_SHORT = {
    "read-write-lock": "read-write",
    "permit-expirable-semaphore": "expirable",
    "fair-lock": "fair",
    "fenced-lock": "fenced",
}


def row(found: Found) -> tuple[str, ...]:
    """Return the words of one row, one for each of `COLUMNS`."""
    waiters, listeners = found.waiters_total, found.listeners
    return (
        printable(found.name),
        kind_of(found),
        summary(found),
        holder(found),
        left(found.holders[0].seconds_left) if found.holders else "-",
        "-" if waiters is None else str(waiters),
        left(found.waited),
        "?" if listeners is None else str(listeners),
    )


def kind_of(found: Found) -> str:
    """Return the kind of a resource in one short word."""
    return _SHORT.get(found.kind, found.kind)


def holder(found: Found, *, short: bool = False) -> str:
    """Return the first holder in few words, and how many more there are."""
    if not found.holders:
        return "-"
    first = found.holders[0]
    client_id, colon, number = printable(first.owner).partition(":")
    owner = f"{client_id[:8]}…:{number}" if short and colon else printable(first.owner)
    more = found.holders_total - 1
    return (client(first) or owner) + (f" +{more}" if more > 0 else "")


def print_table(rows: Sequence[tuple[str, ...]], columns: Sequence[str] = COLUMNS) -> None:
    """Print rows: fitted to a terminal, and in full where there is none."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in columns:
        table.add_column(name, no_wrap=True, overflow="ellipsis")
    for words in rows:
        table.add_row(*(Text(word) for word in words))
    if sys.stdout.isatty():
        Console().print(table)
        return
    console = Console(width=_WIDTH, color_system=None)
    with console.capture() as captured:
        console.print(table)
    click.echo("\n".join(row.rstrip() for row in captured.get().splitlines()))
