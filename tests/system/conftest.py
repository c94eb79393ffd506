"""One more process, which takes locks and gives them away as a test says."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest_asyncio

#: Seconds, of the processes. Long enough for a busy machine, short enough to wait for.
LEASE = 4.0
#: Far longer than any of these tests.
LONG = 300.0

Part = Callable[..., Awaitable["Other"]]


class Other:
    """Another process."""

    def __init__(self, process: Process) -> None:
        self.process = process

    def begin(self, *command: str) -> None:
        """Have it carry out a command."""
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(command).encode() + b"\n")

    async def __call__(self, *command: str) -> Any:
        """Have it carry out a command; return its answer."""
        assert self.process.stdout is not None
        self.begin(*command)
        async with asyncio.timeout(60):
            return json.loads(await self.process.stdout.readline())

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()


@pytest_asyncio.fixture
async def part(server_url: str) -> AsyncIterator[Part]:
    """Start one more process; what still runs in the end is killed."""
    started: list[Process] = []

    async def start(lease_time: float = LONG, url: str = server_url) -> Other:
        module, times = "tests.system.passing", str(lease_time)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", module, url, times), stdin=PIPE, stdout=PIPE
        )
        started.append(process)
        return Other(process)

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.communicate()
