"""Three ways in which Redis can be away, and what a client keeps inside meanwhile."""

from __future__ import annotations

import asyncio
import os
import sys
from abc import ABC, abstractmethod
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from redisson_py import Redisson
from redisson_py.testing import EmbeddedServer
from tests.support.streams import stream_of


class Outage(ABC):
    """How Redis goes away and comes back.

    Attributes:
        keeps_data: Whether it comes back with the data it had.
        restarts: Whether it comes back as a new process, whose counters begin at zero.
    """

    keeps_data = True
    restarts = False

    def __init__(self, server: EmbeddedServer) -> None:
        self._server = server

    @property
    def url(self) -> str:
        """Where clients connect to."""
        return self._server.url

    @abstractmethod
    async def strike(self) -> None:
        """Take Redis away; it answers nothing any more when this returns."""

    @abstractmethod
    async def lift(self) -> None:
        """Bring it back."""

    async def end(self) -> None:
        """End what was started for this: nothing."""
        return


class Stopped(Outage):
    """SIGSTOP: connections stay open, new ones are accepted by the kernel, nothing answers."""

    async def strike(self) -> None:
        await self._server.pause()

    async def lift(self) -> None:
        await self._server.resume()


class Killed(Outage):
    """SIGKILL: connections break, new ones are refused; it comes back without its data."""

    keeps_data = False
    restarts = True

    async def strike(self) -> None:
        await self._server.kill()

    async def lift(self) -> None:
        await self._server.start()


class BlackHole(Outage):
    """Every byte disappears while connections stay open; who is connected finds out by itself."""

    def __init__(self, server: EmbeddedServer, process: Process, url: str) -> None:
        super().__init__(server)
        self._process = process
        self._url = url

    @property
    def url(self) -> str:
        return self._url

    async def strike(self) -> None:
        await self._order("hole")

    async def lift(self) -> None:
        await self._order("pass")

    async def _order(self, order: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{order}\n".encode())
        assert await self._process.stdout.readline() == b"done\n"

    async def end(self) -> None:
        if self._process.returncode is None:
            await self._process.communicate(b"")


OUTAGES: Final = ("stopped", "killed", "black hole")


@asynccontextmanager
async def prepared(name: str, server: EmbeddedServer) -> AsyncIterator[Outage]:
    """Prepare an outage of a server for the time of a block."""
    outage: Outage
    if name == "stopped":
        outage = Stopped(server)
    elif name == "killed":
        outage = Killed(server)
    else:
        # Not in this process, whose memory and processor time are measured.
        command = (sys.executable, "-m", "tests.soak.hole", server.url)
        process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
        assert process.stdout is not None
        outage = BlackHole(server, process, (await process.stdout.readline()).decode().strip())
    try:
        yield outage
    finally:
        await outage.end()


def rss() -> float:
    """Return the memory this process has now, in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def innards(client: Redisson) -> dict[str, int]:
    """Return how much of everything a client keeps that must not outlive those who wait for it."""
    stream, context = stream_of(client), client._context
    wire = stream._wire
    return {
        "backlog": len(stream._backlog),
        "in flight": len(wire.in_flight) if wire else 0,
        "delayed": len(stream._delayed),
        "refused": len(stream._refused_calls),
        "deadlines": len(stream._deadlines),
        "waiting for room": len(stream._room.waiting),
        "pending requests": len(context.pending),
        "seats": client._table.seats,
        "waiters": client.statistics().waiters,
    }
