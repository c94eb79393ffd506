"""Showing what goes on: a table redrawn in place, or plain lines where that is no use."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from examples.demo.crew import Member
from redisson_py import LockSnapshot

TABLE_PERIOD = 0.15
LINE_PERIOD = 1.0

_BOLD, _DIM, _RED, _YELLOW, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[33m", "\x1b[0m"
_COLOURS = {"killed": _RED, "stopped": _YELLOW, "holding": _BOLD, "left": _DIM}


@dataclass(frozen=True, slots=True)
class View:
    """What is to be shown.

    Attributes:
        title: The name of the phase.
        elapsed: Seconds since it began.
        snapshot: The lock; None if there is none in this phase.
        members: The workers.
    """

    title: str
    elapsed: float
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


class Screen:
    """Standard output: a terminal, or not."""

    def __init__(self) -> None:
        self.live = sys.stdout.isatty()
        self.period = TABLE_PERIOD if self.live else LINE_PERIOD
        self._drawn = 0

    def say(self, text: str) -> None:
        """Print something that stays, above the table."""
        self._erase()
        print(text, flush=True)

    def show(self, view: View) -> None:
        """Draw the table anew, or print one more line."""
        if not self.live:
            self._line(view)
            return
        self._erase()
        width = shutil.get_terminal_size().columns
        lines = table(view)
        for text, colour in lines:
            sys.stdout.write(f"{colour}{text[: width - 1]}{_PLAIN}\n")
        self._drawn = len(lines)
        sys.stdout.flush()

    def clear(self) -> None:
        """Take the table away."""
        self._erase()
        sys.stdout.flush()

    def _erase(self) -> None:
        if self._drawn:
            sys.stdout.write(f"\x1b[{self._drawn}F\x1b[J")
            self._drawn = 0

    def _line(self, view: View) -> None:
        waiting = " ".join(str(member.waiting) for member in view.members)
        booked = sum(member.booked for member in view.members)
        losses = sum(member.losses for member in view.members)
        print(
            f"{view.title} {view.elapsed:5.1f} s | {view.holder} | waiting {waiting} | "
            f"{view.rate} | {booked} bookings | {losses} losses",
            flush=True,
        )


def table(view: View) -> list[tuple[str, str]]:
    """Return the lines of the table, each with its colour."""
    lines = [
        (f"{view.title}  {view.elapsed:.1f} s  {time.strftime('%X')}", _BOLD),
        (f"lock: {view.holder}    {view.rate}", ""),
        (f"{'worker':<12}{'pid':>8}  {'state':<9}{'waiting':>8}{'a second':>10}", _DIM),
    ]
    holders = () if view.snapshot is None else view.snapshot.holders
    for member in view.members:
        holds = any(holder.client_name == member.name for holder in holders)
        lines.append(
            (
                f"{member.name:<12}{member.pid:>8}  {member.state:<9}{member.waiting:>8}"
                f"{member.rate:>10.0f}  {'<- has the lock' if holds else ''}",
                _COLOURS.get(member.state, ""),
            )
        )
    booked = sum(member.booked for member in view.members)
    losses = sum(member.losses for member in view.members)
    return [*lines, (f"{booked} bookings, {losses} losses noticed", "")]
