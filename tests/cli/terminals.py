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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from click.testing import Result

from tests.cli.processes import PATIENCE
from tests.support.command_line import invoke
from tests.support.waiting import until


async def run(*arguments: str, answers: str | None = None) -> Result:
    """Run a command beside the tasks of a test."""
    return await asyncio.to_thread(invoke, *arguments, answers=answers)


_SEQUENCE = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A process that leads the session of a terminal, which a test types into and reads.

    Attributes:
        process: The process.
        shown: All that was written, and what was typed where the terminal echoes it.
    """

    def __init__(self, command: Sequence[str], size: tuple[int, int], **environment: str) -> None:
        self._own, self._its = pty.openpty()
        width, height = size
        fcntl.ioctl(self._its, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        os.set_blocking(self._own, False)
        self._settings: list[Any] = termios.tcgetattr(self._its)
        self._seen = 0
        self.shown = b""
        self.process = subprocess.Popen(
            command,
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
        return termios.tcgetattr(self._its) == self._settings

    @property
    def echoes(self) -> bool:
        """Whether what is typed is echoed, as at first."""
        return bool(termios.tcgetattr(self._its)[3] & termios.ECHO)

    @property
    def foreground(self) -> int:
        """The process group in the foreground."""
        return os.tcgetpgrp(self._own)

    def type(self, keys: str) -> None:
        """Type text or control characters; `\\x03` is Ctrl-C."""
        os.write(self._own, keys.encode())

    def read(self) -> bytes:
        """Return all that was written until now."""
        with suppress(BlockingIOError):
            while some := os.read(self._own, 65536):
                self.shown += some
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

    async def shows(self, pattern: str) -> re.Match[str]:
        """Return when something was written since what the last call found."""

        def found() -> re.Match[str] | None:
            return re.compile(pattern).search(self.text, self._seen)

        try:
            await until(found, PATIENCE)
        except TimeoutError:
            raise AssertionError(f"no {pattern!r} in {self.text[self._seen :]!r}") from None
        match = found()
        assert match is not None
        self._seen = match.end()
        return match

    async def ends(self) -> int:
        """Return the exit status, when there is one."""
        # A terminal that nobody reads makes writers wait.
        await until(lambda: (self.read(), self.process.poll())[1] is not None, PATIENCE)
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
    *arguments: str, size: tuple[int, int] = (120, 30), **environment: str
) -> Iterator[Terminal]:
    """Run `redisson-py` on a terminal for the time of a block, with these variables."""
    terminal = Terminal([sys.executable, "-m", "redisson_py", *arguments], size, **environment)
    try:
        yield terminal
    finally:
        terminal.close()
