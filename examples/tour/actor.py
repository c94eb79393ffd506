"""The tour's side of a process: hearing, telling, striking and ending it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from examples.tour.process import Settings

_ROOT = Path(__file__).resolve().parents[2]
_LOOK_AGAIN = 0.005
_TAIL = 2000


class TourError(Exception):
    """Raised when a scene cannot go on; its text is for the user."""


class Report:
    """Something that a process said.

    Attributes:
        what: What it is about.
        at: When, by the monotonic clock, which all processes of a machine share.
    """

    def __init__(self, what: str, at: float, **more: Any) -> None:
        self.what = what
        self.at = at
        self._more = more

    def __getitem__(self, name: str) -> Any:
        return self._more[name]


async def until(condition: Callable[[], bool], patience: float, failure: str) -> None:
    """Return when the condition holds.

    Raises:
        TourError: It did not in time.
    """
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            raise TourError(f"{failure} (waited for {patience:g} s)")
        await asyncio.sleep(_LOOK_AGAIN)


class Actor:
    """One process of a scene, as far as the tour knows it."""

    def __init__(self, settings: Settings, process: Process, patience: float) -> None:
        self.name = settings.name
        self._process = process
        self._patience = patience
        self._log = log_of(settings)
        self._reports: list[Report] = []
        self._heard: dict[str, int] = {}
        self._killed = False
        self._listening = asyncio.create_task(self._listen())

    def __str__(self) -> str:
        return f"{self.name} (pid {self._process.pid})"

    @classmethod
    async def start(cls, settings: Settings, patience: float) -> Actor:
        """Start a process and tell it what to do."""
        with log_of(settings).open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "examples.tour.process"),
                stdin=PIPE,
                stdout=PIPE,
                stderr=log,
                cwd=_ROOT,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
            )
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.write(settings.to_bytes())
        return cls(settings, process, patience)

    def tell(self, what: str) -> None:
        """Give it an order."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.write(json.dumps(what).encode() + b"\n")

    def all(self, what: str) -> list[Report]:
        """Return all that it has said of a kind."""
        return [report for report in self._reports if report.what == what]

    async def says(self, what: str) -> Report:
        """Return its next report of a kind: each is returned once.

        Raises:
            TourError: It did not say it, or ended.
        """
        number = self._heard.get(what, 0)
        await until(
            lambda: len(self.all(what)) > number or self._ended,
            self._patience,
            f"{self.name} did not say {what!r}",
        )
        if len(self.all(what)) <= number:
            raise TourError(f"{self.name} ended before it said {what!r}; {self._last_words()}")
        self._heard[what] = number + 1
        return self.all(what)[number]

    def kill(self) -> None:
        """End it as a crash would (SIGKILL)."""
        self._killed = True
        self._process.kill()

    def stop(self) -> None:
        """Freeze it (SIGSTOP)."""
        self._process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        """Let it go on (SIGCONT)."""
        self._process.send_signal(signal.SIGCONT)

    async def leaves(self) -> None:
        """Return when it has done what it had to do.

        Raises:
            TourError: It did not end, or not well.
        """
        await until(lambda: self._ended, self._patience, f"{self.name} did not end")
        code = await self._process.wait()
        if code != 0 and not self._killed:
            raise TourError(f"{self.name} ended with {code}; {self._last_words()}")

    def end(self) -> None:
        """End it, whatever it does."""
        self._listening.cancel()
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def gone(self) -> None:
        """Return when the process is no more."""
        await self._process.wait()

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        async for row in self._process.stdout:
            self._reports.append(Report(**json.loads(row)))

    @property
    def _ended(self) -> bool:
        return self._listening.done()

    def _last_words(self) -> str:
        return f"its log ends:\n{self._log.read_text(errors='replace')[-_TAIL:]}"


def log_of(settings: Settings) -> Path:
    """Return where a process's standard error goes: the tour is to be read."""
    return Path(settings.directory) / f"{settings.name}.log"
