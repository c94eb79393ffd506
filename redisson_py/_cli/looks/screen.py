"""How `top` looks, on a terminal and as plain lines, and which keys it takes."""

from __future__ import annotations

import os
import sys
import termios
import tty
from contextlib import suppress
from typing import Self

import anyio
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from redisson_py._cli.looks.found import client, printable, summary
from redisson_py._cli.looks.tables import holder, kind_of
from redisson_py._cli.looks.watching import Row, Watch

#: Columns, and how wide a terminal must be for each.
_COLUMNS = (
    ("NAME", 0),
    ("KIND", 72),
    ("STATE", 58),
    ("HOLDER", 30),
    ("HELD", 0),
    ("LEFT", 46),
    ("WAIT", 46),
    ("WAITED", 80),
    ("LISTEN", 88),
    ("HAND-OFFS/s", 96),
)
#: Lines of a screen that are not rows.
_HEAD = 6
#: A lease that ends sooner, in seconds, is not renewed, or its holder is dead.
_ENDS_SOON = 5.0


def plain(watch: Watch, present: float) -> list[str]:
    """Return one look as lines of text."""
    texts = [_summary(watch)]
    rows = [tuple(name for name, _ in _COLUMNS)]
    rows += [_words(row, watch, present) for row in watch.order()]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    for row in rows if len(rows) > 1 else []:
        padded = [word.ljust(width) for word, width in zip(row, widths, strict=True)]
        texts.append("  ".join(padded).rstrip())
    return texts + [f"! {note}" for note in _notes(watch)]


def screen(watch: Watch, present: float, where: str, width: int, height: int) -> RenderableType:
    """Return one look for a terminal of this size."""
    head = Text(no_wrap=True, overflow="ellipsis")
    head.append("redisson-py top", "bold cyan")
    head.append(f"  {printable(where)}  ", "dim")
    state = Text(_summary(watch), no_wrap=True, overflow="ellipsis")
    state.highlight_regex(r"\d[\d.,]*\d|\d", "bold")
    notes = [Text(note, "bold red", no_wrap=True, overflow="ellipsis") for note in _notes(watch)]
    columns = [column for column, (_, least) in enumerate(_COLUMNS) if width >= least]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), expand=True, header_style="")
    for column in columns:
        name = _COLUMNS[column][0]
        number = name in ("HELD", "LEFT", "WAIT", "WAITED", "LISTEN", "HAND-OFFS/s")
        table.add_column(
            Text(name, "bold blue"),
            justify="right" if number else "left",
            no_wrap=True,
            overflow="ellipsis",
            ratio=1 if name == "HOLDER" else None,
            max_width=max(12, width // 3) if name == "NAME" else None,
        )
    rows = watch.order()
    room = max(1, height - _HEAD - len(notes))
    for row in rows[:room]:
        words = _words(row, watch, present, short=True)
        cells = [Text(words[column], _style(_COLUMNS[column][0], row)) for column in columns]
        table.add_row(*cells, style="dim" if row.stale or row.free_since is not None else "")
    hidden = f"{len(rows) - room} more rows do not fit" if len(rows) > room else ""
    foot = Text(no_wrap=True, overflow="ellipsis")
    foot.append("q", "bold")
    foot.append(" quits   longest held first" + (f"   {hidden}" if hidden else ""), "dim")
    body: RenderableType = table if rows else Text(_nothing(watch), "dim")
    return Group(head, state, *notes, Text(), body, Text(), foot)


def _summary(watch: Watch) -> str:
    held = sum(row.free_since is None for row in watch.rows.values())
    waiting = sum(row.found.waiters_total or 0 for row in watch.rows.values())
    parts = [f"{held} held", f"{waiting} queued"]
    if watch.releases is not None:
        parts.append(f"{watch.releases:,.1f} releases/s")
    if not watch.searched:
        parts.append("searching")
    if watch.left_out:
        parts.append(f"only the first {watch.limit} found are watched")
    return ", ".join(parts)


def _nothing(watch: Watch) -> str:
    return "nothing is held" if watch.searched else "nothing found yet"


def _notes(watch: Watch) -> list[str]:
    return [printable(f"{server} does not answer: {why}") for server, why in watch.away.items()]


def _words(row: Row, watch: Watch, present: float, *, short: bool = False) -> tuple[str, ...]:
    """Return the words of a row, one for each of `_COLUMNS`."""
    found, handoffs = row.found, row.rate(present, watch.began)
    free = row.free_since is not None
    lease = found.holders[0].seconds_left if found.holders else None
    state = summary(found) if not row.stale else "no answer"
    return (
        printable(found.name),
        kind_of(found),
        state,
        holder(found, short=short),
        "-" if free else clock(present - row.since),
        "-" if lease is None else "none" if lease == float("inf") else f"{lease:.0f} s",
        "-" if found.waiters_total is None else str(found.waiters_total),
        "-" if found.waited is None else clock(found.waited),
        "?" if found.listeners is None else str(found.listeners),
        f"{handoffs:.1f}" if handoffs else "-",
    )


def _style(column: str, row: Row) -> str:
    found = row.found
    if row.stale or row.free_since is not None:
        return ""
    match column:
        case "NAME":
            return "bold"
        case "STATE" if found.broken:
            return "red"
        case "STATE":
            return "green"
        case "HOLDER" if found.holders and not client(found.holders[0]):
            # Redisson's, or a client that has not described itself.
            return "magenta"
        case "WAIT" | "WAITED" if found.waiters_total:
            return "bold yellow"
        case "HAND-OFFS/s":
            return "bold cyan" if row.handoffs else "dim"
        case "LEFT" if found.holders and (found.holders[0].seconds_left or 0) < _ENDS_SOON:
            return "red"
        case "KIND" | "LISTEN":
            return "dim"
        case _:
            return ""


def clock(seconds: float) -> str:
    """Return a time in few characters: 12 s, 3:07, 2:03:07."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, remaining = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{remaining:02}" if hours else f"{minutes}:{remaining:02}"


class Screen:
    """The other screen of a terminal, which hands over each key at once.

    Args:
        console: The terminal.

    Attributes:
        keys: The file to read keys from; None if there is no terminal to read from.
    """

    def __init__(self, console: Console) -> None:
        self.keys = sys.stdin.fileno() if sys.stdin.isatty() else None
        self._live = Live(console=console, screen=True, auto_refresh=False)
        self._before = None if self.keys is None else termios.tcgetattr(self.keys)

    def __enter__(self) -> Self:
        self.enter()
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def enter(self) -> None:
        """Show it, also after `leave`."""
        if self.keys is not None:
            tty.setcbreak(self.keys)
        self._live.start(refresh=True)

    def leave(self) -> None:
        """Restore the terminal."""
        try:
            self._live.stop()
        finally:
            if self.keys is not None and self._before is not None:
                # The terminal may be gone, with its session.
                with suppress(termios.error):
                    termios.tcsetattr(self.keys, termios.TCSADRAIN, self._before)

    def show(self, picture: RenderableType) -> None:
        """Draw a picture."""
        self._live.update(picture, refresh=True)


async def until_quit(file: int) -> None:
    """Return when q was pressed, or the terminal is gone."""
    while True:
        await anyio.wait_readable(file)
        try:
            keys = os.read(file, 64)
        except OSError:
            return
        if not keys or b"q" in keys or b"Q" in keys:
            return
