"""Takes the picture of the demo's report: `python -m tests.docs.screenshots docs/images/demo.svg`.

The demo runs for real, so the picture has the numbers of this run.
"""

from __future__ import annotations

import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from tests.support import repository

#: Dark, as terminals are, and readable on light and dark pages.
THEME = TerminalTheme(
    *((16, 20, 31), (214, 220, 235)),
    [
        *((59, 66, 97), (247, 118, 142), (158, 206, 106), (224, 175, 104)),
        *((122, 162, 247), (187, 154, 247), (86, 199, 220), (192, 202, 245)),
    ],
)
_TITLE = re.compile(r"^(without|with) the lock$", re.MULTILINE)
#: Rich names a font that a browser would fetch from another host.
_FONTS = re.compile(r"@font-face\s*\{[^}]*\}")


def report(arguments: tuple[str, ...] = ()) -> str:
    """Run the demo; return the end of what it prints: the report and the verdict.

    Raises:
        RuntimeError: It did not end well.
    """
    done = subprocess.run(
        [sys.executable, "-m", "examples.demo", *arguments],
        cwd=repository.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    head = re.search(r"^ +bookings +cents$", done.stdout, re.MULTILINE)
    if head is None:
        raise RuntimeError(f"no report in: {done.stdout}")
    return done.stdout[head.start() :].rstrip()


def draw(text: str) -> str:
    """Return a picture of a report, as SVG."""
    lines = text.splitlines()
    shown = Text(text)
    shown.highlight_regex(_TITLE, "bold cyan")
    shown.highlight_regex(r"(?m)^OK after.*$", "bold green")
    shown.highlight_regex(r"(?m)^WRONG.*$|^FAILED.*$", "bold red")
    shown.highlight_regex(r"(?m)^\s+bookings.*$|^\s+expected.*$", "dim")
    width = max(map(len, lines)) + 1
    console = Console(record=True, width=width, file=StringIO(), force_terminal=True)
    console.print(shown)
    svg = console.export_svg(title="make demo", theme=THEME, unique_id="demo")
    return _FONTS.sub("", svg)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(draw(report()), "utf-8")
