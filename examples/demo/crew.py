"""The demo's side of its worker processes: starting, hearing, striking and ending them."""

from __future__ import annotations

import asyncio
import bisect
import json
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from examples.demo.worker import STATUS_PERIOD, Settings, Stage

_ROOT = Path(__file__).resolve().parents[2]
_MOST_ROW_BYTES = 2**20
_LOOK_AGAIN = 0.02
_START_PATIENCE = 60.0
_LEAVE_PATIENCE = 60.0
_TAIL = 2000

State = Literal["working", "holding", "killed", "stopped", "left"]


class DemoError(Exception):
    """Raised when the demo cannot go on; its text is for the user."""


class Member:
    """One worker, as far as the demo knows it.

    Attributes:
        state: What it is doing; `holding` is waiting inside its critical section to be struck.
        waiting: How many of its tasks wait for the lock.
        booked: Bookings it finished.
        losses: Leases it lost.
        exposed: Writes of which it cannot say that its lease still stood at their end.
        failed: Bookings that failed because servers did not answer.
        sections: When it got the lock, when it left the section, and whether it was told that
            the lock was lost.
        grants: When it got the lock, and how long it had waited; by the monotonic clock, which
            all processes of a machine share.
        loss_of_parked: When its parked task noticed that its lease was lost.
    """

    def __init__(self, settings: Settings, process: Process) -> None:
        self.name = settings.name
        self.state: State = "working"
        self.waiting = self.booked = self.losses = self.exposed = self.failed = 0
        self.grants: list[tuple[float, float]] = []
        self.sections: list[tuple[float, float, bool]] = []
        self.loss_of_parked: float | None = None
        self.ready = False
        self._settings = settings
        self._process = process

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def rate(self) -> float:
        """Critical sections entered in the last second of which it has reported."""
        until = time.monotonic() - 1.5 * STATUS_PERIOD
        times = [granted_at for granted_at, _ in self.grants[-5000:]]
        return bisect.bisect(times, until) - bisect.bisect(times, until - 1)

    async def listen(self) -> None:
        """Take its reports until it ends.

        Raises:
            DemoError: It ended without being told to.
        """
        assert self._process.stdout is not None
        async for row in self._process.stdout:
            self._heard(json.loads(row))
        code = await self._process.wait()
        self.waiting = 0
        if self.state == "killed":
            return
        if code != 0:
            log = self._log.read_text(errors="replace")[-_TAIL:]
            raise DemoError(f"{self.name} ended with {code}; its log ends:\n{log}")
        self.state = "left"

    def _heard(self, report: dict[str, Any]) -> None:
        match report.pop("kind"):
            case "ready":
                self.ready = True
            case "status":
                self.grants += map(tuple, report.pop("grants"))
                self.sections += map(tuple, report.pop("sections"))
                for name, value in report.items():
                    setattr(self, name, value)
            case "parked":
                self.state = "holding"
            case "loss" if report["parked"]:
                self.loss_of_parked = report["at"]
                self.state = "working"

    def tell(self, order: str) -> None:
        """Give it an order."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.write(f"{order}\n".encode())

    def park(self, stage: Stage) -> None:
        """Have the next of its tasks that gets there wait inside its critical section."""
        self.loss_of_parked = None
        self.tell(f"park {stage}")

    def kill(self) -> None:
        """End it as a crash would (SIGKILL)."""
        self.state = "killed"
        self._process.kill()

    def stop(self) -> None:
        """Freeze it (SIGSTOP)."""
        self.state = "stopped"
        self._process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        """Let it go on (SIGCONT)."""
        self.state = "working"
        self._process.send_signal(signal.SIGCONT)

    async def end(self) -> None:
        """End it, whatever it does."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()
        await self._process.wait()

    @property
    def _log(self) -> Path:
        return log_of(self._settings)

    async def begin(self) -> None:
        """Tell it what it is."""
        assert self._process.stdin is not None
        self._process.stdin.write(self._settings.to_bytes())


def log_of(settings: Settings) -> Path:
    """Return where a worker's standard error goes: it must not disturb the table."""
    return Path(settings.directory) / f"{settings.name}.log"


async def until(condition: Callable[[], bool], patience: float, failure: str | None = None) -> bool:
    """Return True when the condition holds; at the end of patience, False or `DemoError`."""
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            if failure is not None:
                raise DemoError(failure)
            return False
        await asyncio.sleep(_LOOK_AGAIN)
    return True


@asynccontextmanager
async def crew(settings: Sequence[Settings]) -> AsyncGenerator[list[Member]]:
    """Run workers for the time of a block: started together, told to leave together.

    Whatever happens, none of them is left; each is ended by its own process id.
    """
    members: list[Member] = []
    try:
        for each in settings:
            process = await _start(each)
            members.append(Member(each, process))
        async with asyncio.TaskGroup() as group:
            listeners = [group.create_task(member.listen()) for member in members]
            for member in members:
                await member.begin()
            await until(
                lambda: all(member.ready for member in members),
                _START_PATIENCE,
                "the workers did not get ready",
            )
            for member in members:
                member.tell("start")
            yield members
            for member in members:
                member.tell("leave")
            await until(
                lambda: all(listener.done() for listener in listeners),
                _LEAVE_PATIENCE,
                "the workers did not leave",
            )
    finally:
        for member in members:
            await asyncio.shield(member.end())


async def _start(settings: Settings) -> Process:
    with ExitStack() as stack:
        log = stack.enter_context(log_of(settings).open("wb"))
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "examples.demo.worker",
            stdin=PIPE,
            stdout=PIPE,
            stderr=log,
            cwd=_ROOT,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
            limit=_MOST_ROW_BYTES,
        )
