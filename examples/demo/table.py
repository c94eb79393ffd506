"""Showing what goes on: a table redrawn in place, or plain lines where that is no use."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from examples.console import labelled
from examples.demo.crew import Member
from redisson_py import LockSnapshot

TABLE_PERIOD = 0.15
ROW_SECONDS = 1.0

_COLOURS = {"killed": "bold red", "stopped": "bold yellow", "holding": "bold", "left": "dim"}
_HAS_THE_LOCK = "bold green"
#: Columns that a terminal needs for the process ids too.
_WIDE = 64
#: What stands out in what happens.
_STRIKING = {
    r"killed \(SIGKILL\)": "bold red",
    r"stopped \(SIGSTOP\)": "bold yellow",
    r"woken \(SIGCONT\)": "bold",
    r"slot with .* is moved": "bold yellow",
    r"another worker has the lock|a worker had the lock": _HAS_THE_LOCK,
}


@dataclass(frozen=True, slots=True)
class View:
    """What is to be shown.

    Attributes:
        title: The name of the phase.
        elapsed: Seconds since it began.
        length: Seconds that it will take, if the machine is not busy.
        snapshot: The lock; None if there is none in this phase.
        members: The workers.
    """

    title: str
    elapsed: float
    length: float
    snapshot: LockSnapshot | None
    members: Sequence[Member]

    @property
    def holder(self) -> str:
        """Who holds the lock, in words."""
        if self.snapshot is None:
            return "no lock"
        if not self.snapshot.holders:
            return "free"
        [holder] = self.snapshot.holders
        who = holder.client_name or holder.owner
        return f"held by {who} (pid {holder.pid}, {holder.remaining:.1f} s left)"

    @property
    def rate(self) -> str:
        """Hand-offs a second; without a lock there are only bookings."""
        what = "bookings/s" if self.snapshot is None else "hand-offs/s"
        return f"{sum(member.rate for member in self.members):.0f} {what}"

    @property
    def totals(self) -> str:
        """What the workers did until now."""
        booked = sum(member.booked for member in self.members)
        losses = sum(member.losses for member in self.members)
        return f"{booked:,} bookings, {self.rate}, leases lost: {losses}"


class Screen:
    """Standard output; leaving the block takes the table away.

    Args:
        console: Standard output, a terminal or not.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._began_at = time.monotonic()
        self.period = TABLE_PERIOD if console.is_interactive else ROW_SECONDS

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def begin(self, title: str) -> None:
        """Print the title of a phase, whose time is counted from now on."""
        self.clear()
        self._console.print(Text(f"\n{title}", "bold"))
        self._began_at = time.monotonic()

    def say(self, text: str) -> None:
        """Print something that stays, above the table, with the time since the phase began."""
        said = Text(text)
        for pattern, style in _STRIKING.items():
            said.highlight_regex(pattern, style)
        elapsed = f"{time.monotonic() - self._began_at:.1f} s"
        self._console.print(labelled(Text(elapsed, "dim"), said))

    def prepare(self, text: str) -> None:
        """Say what is being prepared, as long as there is no table."""
        if self._console.is_interactive:
            self._draw(Text(f"{text} ...", "dim", no_wrap=True, overflow="ellipsis"))

    def show(self, view: View) -> None:
        """Draw the table anew, or print one more line."""
        if self._console.is_interactive:
            self._draw(table(view, self._console.width))
            return
        waiting = " ".join(str(member.waiting) for member in view.members)
        self._console.print(
            f"{view.title} {view.elapsed:5.1f} of {view.length:.0f} s | {view.holder} | "
            f"waiting {waiting} | {view.totals}"
        )

    def clear(self) -> None:
        """Take the table away."""
        if self._live is not None:
            # At its end it draws all that it has, also where the terminal is too low for that.
            self._live.update("")
            self._live.stop()
            self._live = None

    def _draw(self, picture: RenderableType) -> None:
        if self._live is None:
            self._live = Live(
                console=self._console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
            # It hides the cursor, which would stay hidden if this process were killed.
            self._console.show_cursor(True)
        self._live.update(picture, refresh=True)


def table(view: View, width: int) -> RenderableType:
    """Return the table for a terminal of this width."""
    head = Table.grid(padding=(0, 2, 0, 0), expand=True)
    head.add_column(ratio=1)
    head.add_column(no_wrap=True)
    head.add_row(
        ProgressBar(total=view.length, completed=min(view.elapsed, view.length)),
        f"{view.elapsed:.1f} of {view.length:.0f} s",
    )
    lock = Text("lock ", "dim", no_wrap=True, overflow="ellipsis")
    lock.append(view.holder, "not dim")
    workers = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    wide = width >= _WIDE
    workers.add_column("WORKER", no_wrap=True)
    if wide:
        workers.add_column("PID", no_wrap=True, justify="right")
    workers.add_column("STATE", no_wrap=True, min_width=len("has the lock"))
    for name in ("WAITING", "BOOKED", "A SECOND"):
        workers.add_column(name, no_wrap=True, justify="right", min_width=8)
    holders = () if view.snapshot is None else view.snapshot.holders
    for member in view.members:
        holds = any(holder.client_name == member.name for holder in holders)
        state, style = str(member.state), _COLOURS.get(member.state, "")
        if holds and state == "working":
            state, style = "has the lock", _HAS_THE_LOCK
        cells = [member.name, str(member.pid)] if wide else [member.name]
        numbers = f"{member.waiting}", f"{member.booked:,}", f"{member.rate:.0f}"
        workers.add_row(*cells, state, *numbers, style=style)
    totals = Text(view.totals, no_wrap=True, overflow="ellipsis")
    return Group("", head, lock, "", workers, "", totals)
