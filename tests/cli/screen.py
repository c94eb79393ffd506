"""A pseudo-terminal, and what runs in it with job control."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import termios
from collections.abc import Sequence
from typing import Self

from tests.cli.processes import PATIENCE
from tests.support.waiting import until

#: Makes its standard input the controlling terminal of the session that it leads.
_LAUNCH = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
_LAUNCH += " os.execvp(sys.argv[1], sys.argv[1:])"


class Screen:
    """A terminal that a test types into and reads.

    Attributes:
        text: All that was printed so far, and what was typed where the terminal echoes it.
    """

    def __init__(self, url: str) -> None:
        self.text = ""
        self._environment = {**os.environ, "REDISSON_URL": url, "PS1": "$ ", "TERM": "dumb"}
        self._environment["REDISSON_PY"] = f"{sys.executable} -m redisson_py"
        self._fd, self._slave = os.openpty()
        self._seen = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, command: Sequence[str]) -> Self:
        """Start the leader of a new session, whose terminal this is."""
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-c", _LAUNCH, *command],
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            env=self._environment,
            start_new_session=True,
        )
        asyncio.get_running_loop().add_reader(self._fd, self._read)
        return self

    def type(self, text: str) -> None:
        """Type some text, or a control character."""
        os.write(self._fd, text.encode())

    async def shows(self, pattern: str) -> re.Match[str]:
        """Return when something was printed since what the last call found."""

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

    @property
    def foreground(self) -> int:
        """The process group in the foreground."""
        return os.tcgetpgrp(self._fd)

    @property
    def echoes(self) -> bool:
        """Whether what is typed is echoed, as at first."""
        local_modes = termios.tcgetattr(self._slave)[3]
        return bool(local_modes & termios.ECHO)

    async def status(self) -> int:
        """Return the exit status of the leader when it has ended."""
        process = self._process
        assert process is not None
        await until(lambda: process.poll() is not None, PATIENCE)
        return int(process.returncode)

    def close(self) -> None:
        """Hang up: the session ends."""
        asyncio.get_running_loop().remove_reader(self._fd)
        os.close(self._fd)
        os.close(self._slave)
        process = self._process
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait()

    def _read(self) -> None:
        try:
            self.text += os.read(self._fd, 65536).decode(errors="replace")
        except OSError:
            # Nobody has the other end any more.
            asyncio.get_running_loop().remove_reader(self._fd)
