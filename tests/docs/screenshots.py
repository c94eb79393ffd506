"""Takes the picture of the demo: `python -m tests.docs.screenshots docs/images/demo.svg`.

The demo runs for real, on a terminal, so the picture has the numbers of this run, in its colours.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from tests.support import repository

WIDTH, HEIGHT = 96, 50
#: Dark, as terminals are, and readable on light and dark pages.
THEME = TerminalTheme(
    *((16, 20, 31), (214, 220, 235)),
    [
        *((59, 66, 97), (247, 118, 142), (158, 206, 106), (224, 175, 104)),
        *((122, 162, 247), (187, 154, 247), (86, 199, 220), (192, 202, 245)),
    ],
)
#: Rich names a font that a browser would fetch from another host.
_FONTS = re.compile(r"@font-face\s*\{[^}]*\}")
_CONTROL = re.compile(r"(\x1b\[[?0-9;]*[A-Za-ln-z]|\r?\n|\r)")


def demo(*arguments: str) -> str:
    """Run the demo on a terminal; return all that it writes.

    Raises:
        RuntimeError: It did not end well.
    """
    own, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "examples.demo", *arguments],
        cwd=repository.ROOT,
        stdin=its,
        stdout=its,
        stderr=its,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "", "LINES": "", "NO_COLOR": ""},
    )
    os.close(its)
    written = b""
    # The other end is closed.
    with suppress(OSError):
        while some := os.read(own, 65536):
            written += some
    os.close(own)
    text = written.decode()
    if process.wait():
        raise RuntimeError(text)
    return text


def last_screen(written: str) -> list[str]:
    """Return the lines that a terminal shows at the end, with their colours."""
    lines, row = [""], 0
    for part in _CONTROL.split(written):
        match part:
            case "\x1b[1A":
                row -= 1
            case "\x1b[2K":
                lines[row] = ""
            case "\n" | "\r\n":
                row += 1
                lines += [""] * (row == len(lines))
            case _ if not _CONTROL.match(part):
                lines[row] += part
    return lines


def draw(lines: list[str]) -> str:
    """Return a picture of a terminal, as SVG."""
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True)
    console.print(Text.from_ansi("\n".join(lines).rstrip()), no_wrap=True)
    svg = console.export_svg(title="make demo", theme=THEME, unique_id="demo")
    return _FONTS.sub("", svg)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(draw(last_screen(demo())), "utf-8")
