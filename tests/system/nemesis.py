"""Writers under one referee, and what strikes them: stops, kills, lost data."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

from redis.asyncio import Redis

from redisson_py.testing import EmbeddedServer
from tests.support.waiting import until
from tests.system.referee import Referee, Write, newer_wrote

Blow = Literal["stop", "stop careful", "kill", "flush", "crash"]
Tokens = Literal["fenced", "counter"]

#: Writes between two blows: enough for everybody to have asked anew, and for a counter that
#: starts again to be far behind where it was.
_SPACING = range(100, 200)


@dataclass(frozen=True, slots=True)
class Struck:
    """A blow, the section it struck, and where in the log that section had begun."""

    blow: Blow
    section: str
    place: int


class Crew:
    """Writers, each a process, for one referee."""

    def __init__(self, url: str, referee: Referee, tokens: Tokens) -> None:
        self._arguments = (url, referee.port)
        self._tokens = tokens
        self.processes: dict[str, Process] = {}
        self.killed: set[str] = set()

    async def start(self, kind: str) -> None:
        """Start another writer of a kind, `careful` or `careless`."""
        name = f"{kind}-{len(self.processes)}"
        self.processes[name] = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.system.writer",
            *map(str, (*self._arguments, name, self._tokens)),
        )

    def of(self, section: str) -> Process:
        """Return the process whose section that is."""
        return self.processes[writer(section)]

    async def went_home(self) -> None:
        """Fail unless everybody who was not killed ends by itself, and well."""
        async with asyncio.timeout(60):
            codes = {name: await each.wait() for name, each in self.processes.items()}
        assert {name for name, code in codes.items() if code} == self.killed, codes

    async def end(self) -> None:
        """End who is left, stopped or not."""
        for process in self.processes.values():
            if process.returncode is None:
                process.kill()
            await process.wait()


@asynccontextmanager
async def crew(url: str, referee: Referee, tokens: Tokens) -> AsyncIterator[Crew]:
    """Run two careful and two careless writers for the time of a block."""
    writers = Crew(url, referee, tokens)
    try:
        for kind in ("careless", "careful") * 2:
            await writers.start(kind)
        await until(lambda: writers.processes.keys() <= {writer(e.section) for e in referee.log})
        yield writers
        referee.closed = True
        await writers.went_home()
    finally:
        await writers.end()


class Nemesis:
    """Strikes holders in the middle of their sections, one after the other.

    Driven by what the referee sees, never by time: the struck section has begun and its writer
    waits for what it reads; a newer one writes; then the writer gets its answer.

    Attributes:
        struck: What it did, in order.
    """

    def __init__(self, server: EmbeddedServer, referee: Referee, writers: Crew, seed: int) -> None:
        self._server = server
        self._referee = referee
        self._writers = writers
        self._chance = random.Random(seed)
        self.struck: list[Struck] = []

    async def run(self, rounds: int) -> None:
        """Strike every kind of blow, in an order that the seed decides, so many times."""
        blows: list[Blow] = ["stop", "stop careful", "kill", "flush", "crash"] * rounds
        self._chance.shuffle(blows)
        for blow in blows:
            await self._quiet()
            await self._strike(blow)
        await self._quiet()

    async def _quiet(self) -> None:
        log, start = self._referee.log, len(self._referee.log)
        writes = self._chance.choice(_SPACING)
        await until(lambda: sum(isinstance(event, Write) for event in log[start:]) >= writes)

    async def _strike(self, blow: Blow) -> None:
        kind = "careful" if blow == "stop careful" else "careless"
        section = await self._referee.catch(lambda each: each.startswith(kind))
        process, begun = self._writers.of(section), len(self._referee.log)
        self.struck.append(Struck(blow, section, begun))
        match blow:
            case "stop" | "stop careful":
                process.send_signal(signal.SIGSTOP)
            case "kill":
                process.kill()
                self._writers.killed.add(writer(section))
                await self._writers.start(kind)
            case "flush":
                async with Redis.from_url(self._server.url) as redis:
                    await redis.flushall()
            case "crash":
                await self._server.kill()
                await self._server.start()  # empty: it keeps nothing on disk
        await self._newer_section(begun)
        if blow == "kill":
            return
        # What it reads waits for it in the socket, so a stopped writer has nothing to wait for
        # when it wakes.
        self._referee.let_go(section)
        log, freed = self._referee.log, len(self._referee.log)
        if blow in ("stop", "stop careful"):
            process.send_signal(signal.SIGCONT)
        await until(lambda: any(writer(e.section) == writer(section) for e in log[freed:]))

    async def _newer_section(self, begun: int) -> None:
        """Wait until a section has written that is certainly newer than the one begun there."""
        log, looked_at = self._referee.log, 0

        def found() -> bool:
            nonlocal looked_at
            if looked_at == len(log):
                return False
            looked_at = len(log)
            return newer_wrote(log, begun)

        await until(found)


def writer(section: str) -> str:
    """Return the name of the writer whose section that is."""
    return section.partition("/")[0]
