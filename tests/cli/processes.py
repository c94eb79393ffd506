"""`redisson-py` as a process of its own, and the processes that it starts."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from tests.support.waiting import until

StartCommandLine = Callable[..., Awaitable["CommandLine"]]

#: Seconds that anything may take on a busy machine.
PATIENCE = 30.0

#: Prints its process id, and ends when a line comes.
WAITS = ("sh", "-c", "echo $$; read line")
#: Prints the ids of itself and of a child, which ignore every signal that can be ignored.
STUBBORN = (
    *("sh", "-c"),
    "trap '' HUP INT QUIT TERM USR1 USR2; sleep 600 & echo $$ $!; wait; sleep 600",
)


def ignore_nothing() -> None:
    """Undo what a shell does for jobs in the background, as which CI may run."""
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


class CommandLine:
    """One process of the command line, with pipes for its standard streams."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, arguments: Sequence[str], url: str, **options: Any) -> Self:
        """Start it for the servers of a URL."""
        environment = {**os.environ, "REDISSON_URL": url, **options.pop("env", {})}
        environment.pop("REDISSON_CONFIG", None)
        command = options.pop("wrapped_in", ())
        process = await asyncio.create_subprocess_exec(
            *(*command, sys.executable, "-m", "redisson_py", *arguments),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=environment,
            # Not in the terminal that the tests were started in.
            start_new_session=True,
            preexec_fn=ignore_nothing,
            **options,
        )
        return cls(process)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.returncode is None

    async def read_row(self) -> str:
        """Return the next line of its output, or of its command's."""
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            return (await self._process.stdout.readline()).decode().strip()

    async def numbers(self) -> list[int]:
        """Return the numbers of the next line."""
        return [int(each) for each in (await self.read_row()).split()]

    def write(self, text: str) -> None:
        """Write to its input."""
        assert self._process.stdin is not None
        self._process.stdin.write(text.encode())

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it has not ended yet."""
        # Not asyncio's, which would reap it behind the back of its own watcher.
        with suppress(ProcessLookupError):
            os.kill(self._process.pid, number)

    async def end(self, answers: str | None = None) -> tuple[int, str, str]:
        """Return its exit status, the rest of its output, and its errors, when it has ended.

        `answers` ends its input; without, that stays open.
        """
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        if answers is not None:
            process.stdin.write(answers.encode())
            process.stdin.close()
        async with asyncio.timeout(PATIENCE):
            output, errors = await asyncio.gather(process.stdout.read(), process.stderr.read())
            return await process.wait(), output.decode(), errors.decode()

    async def kill(self) -> None:
        """Kill it if it runs; its guard ends what it has started."""
        if self.running:
            self._process.kill()
            await self._process.wait()
        # What its command has started may still have the other ends of its pipes.
        self._process._transport.close()  # type: ignore[attr-defined]  # asyncio's


def is_running(pid: int) -> bool:
    """Return whether a process runs, and is not only waiting to be reaped."""
    try:
        return _state(pid)[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def is_stopped(pid: int) -> bool:
    """Return whether a process is stopped."""
    return _state(pid)[0] == "T"


def parent_of(pid: int) -> int:
    """Return the process id of the parent of a process."""
    return int(_state(pid)[1])


def children_of(pid: int) -> list[int]:
    """Return the process ids of the children of a process."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_guard(pid: int) -> bool:
    """Return whether a process is the guard of a run, and ignores SIGTERM already."""
    status = Path(f"/proc/{pid}/status").read_text()
    ignored = int(status.partition("SigIgn:")[2].split()[0], 16)
    is_shell_of_guard = b"\0guard\0" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return is_shell_of_guard and bool(ignored >> (signal.SIGTERM - 1) & 1)


def _state(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


async def until_gone(*pids: int) -> None:
    """Return when none of these processes runs any more."""
    await until(lambda: not any(map(is_running, pids)), PATIENCE)


def kill_group(pid: int) -> None:
    """Kill what is left of a process group that a test has started."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
