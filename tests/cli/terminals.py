"""Runs `redisson-py` on a terminal of its own, and elsewhere in a process of its own."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from click.testing import Result

from tests.support.command_line import invoke
from tests.support.waiting import until


async def run(*arguments: str, answers: str | None = None) -> Result:
    """Run a command beside the tasks of a test."""
    return await asyncio.to_thread(invoke, *arguments, answers=answers)


_SEQUENCE = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A process on a terminal.

    Args:
        arguments: What the command gets.
        width: Columns of the terminal.
        height: Its lines.
        environment: Variables beside those of the tests.

    Attributes:
        process: The process.
        shown: All that it has written.
    """

    def __init__(
        self, arguments: tuple[str, ...], width: int, height: int, environment: dict[str, str]
    ) -> None:
        self._own, self._its = pty.openpty()
        fcntl.ioctl(self._its, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        os.set_blocking(self._own, False)
        self.settings: list[Any] = termios.tcgetattr(self._its)
        self.shown = b""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "redisson_py", *arguments],
            stdin=self._its,
            stdout=self._its,
            stderr=self._its,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "", "LINES": "", **environment},
            # The terminal is its own: Ctrl-C reaches it, and nobody else.
            preexec_fn=_take_terminal,
        )

    @property
    def is_as_before(self) -> bool:
        """Whether the terminal has the settings that it had before the command."""
        return termios.tcgetattr(self._its) == self.settings

    def press(self, keys: str) -> None:
        """Press keys; `\\x03` is Ctrl-C."""
        os.write(self._own, keys.encode())

    def read(self) -> bytes:
        """Return all that was written until now."""
        try:
            while some := os.read(self._own, 65536):
                self.shown += some
        except BlockingIOError:
            pass
        return self.shown

    @property
    def text(self) -> str:
        """What was written, without the sequences that move the cursor and choose colours."""
        return _SEQUENCE.sub(b"", self.read()).decode(errors="replace")

    @property
    def frames(self) -> list[list[str]]:
        """The lines of each screen that was drawn from the top."""
        drawn = self.read().split(b"\x1b[H")[1:]
        return [_SEQUENCE.sub(b"", each).decode(errors="replace").splitlines() for each in drawn]

    async def until_shown(self, text: str, seconds: float = 30.0) -> None:
        """Return when the command has written this."""
        await until(lambda: text in self.text, seconds)

    async def ends(self, seconds: float = 30.0) -> int:
        """Return the exit status, when there is one."""
        # A terminal that nobody reads makes writers wait.
        await until(lambda: (self.read(), self.process.poll())[1] is not None, seconds)
        self.read()
        return self.process.returncode

    def close(self) -> None:
        """End the process, if it runs, and close the terminal."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._own)
        os.close(self._its)


def _take_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@contextmanager
def on_terminal(
    *arguments: str, width: int = 120, height: int = 30, **environment: str
) -> Iterator[Terminal]:
    """Run a command on a terminal for the time of a block, with these variables."""
    terminal = Terminal(arguments, width, height, environment)
    try:
        yield terminal
    finally:
        terminal.close()
