"""What a nemesis may strike: the servers, the links to them, and the workers."""

from __future__ import annotations

import asyncio
import json
import signal as signals
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from redisson_py.testing import EmbeddedServer, FaultProxy
from tests.jepsen.history import Recorder
from tests.jepsen.worker import WorkerSpec


class WorkerProcess:
    """A worker, seen from outside; after a kill it starts anew under the same name.

    Attributes:
        said: What it printed at its end; None if it was killed or has not ended.
        trouble: How a life of it ended that nobody killed, if not well.
    """

    def __init__(self, spec: WorkerSpec) -> None:
        self.spec = spec
        self.said: dict[str, Any] | None = None
        self.trouble = ""
        self._process: Process | None = None
        self._log = Path(spec.folder) / f"{spec.name}.log"

    @property
    def name(self) -> str:
        """Its name."""
        return self.spec.name

    @property
    def process(self) -> Process:
        """Its present process."""
        assert self._process is not None
        return self._process

    async def start(self) -> None:
        """Start it, and wait until its client is there."""
        # Another life makes other choices.
        self.spec = replace(self.spec, seed=self.spec.seed + 1)
        command = [sys.executable, "-m", "tests.jepsen.worker", self.spec.to_json()]
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *command, stdin=PIPE, stdout=PIPE, stderr=log
            )
        assert self._process.stdout is not None
        if not await self._process.stdout.readline():
            await self._process.wait()
            raise RuntimeError(f"{self.name} did not start: {self._log.read_text()[-2000:]}")

    def signal(self, number: signals.Signals) -> None:
        """Send it a signal, if it still runs."""
        if self.process.returncode is None:
            self.process.send_signal(number)

    async def kill(self) -> None:
        """End its present life with SIGKILL."""
        self.signal(signals.SIGKILL)
        await self.process.wait()

    async def stop(self, seconds: float) -> None:
        """Tell it to end, and note what it says; kill it after so many seconds."""
        process = self.process
        assert process.stdin is not None
        assert process.stdout is not None
        if process.returncode is not None:
            self.trouble = f"{self.name} ended by itself: {self._log.read_text()[-2000:]}"
            return
        process.stdin.close()
        try:
            async with asyncio.timeout(seconds):
                lines = (await process.stdout.read()).decode().splitlines()
                await process.wait()
        except TimeoutError:
            self.trouble = f"{self.name} did not end within {seconds:g} s"
            await self.kill()
            return
        if not lines:
            self.trouble = f"{self.name} failed: {self._log.read_text()[-2000:]}"
        else:
            self.said = json.loads(lines[-1])


@dataclass
class Field:
    """Servers, links and workers of one run.

    Attributes:
        record: The history of the nemesis.
        servers: Every server that has data.
        topology: What they form: an `EmbeddedCluster`, an `EmbeddedSentinel`, or None.
        links: The proxies between workers and servers; none if no nemesis needs them.
        workers: The workers.
        lease_time: Seconds of the leases of the workers' clients.
    """

    record: Recorder
    servers: Sequence[EmbeddedServer]
    topology: Any = None
    links: list[FaultProxy] = field(default_factory=list)
    workers: list[WorkerProcess] = field(default_factory=list)
    lease_time: float = 1.0

    @contextmanager
    def struck(self, what: str, whom: str = "", **facts: Any) -> Iterator[None]:
        """Record what a nemesis does while it lasts."""
        number = self.record.invoke("nemesis", whom, rid=what, **facts)
        try:
            yield
        finally:
            self.record.complete(number, "info")
