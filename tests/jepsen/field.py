"""What a nemesis may strike: the servers, the links to them, and the workers."""

from __future__ import annotations

import asyncio
import json
import random
import signal as signals
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from redisson_py.testing import (
    CommandError,
    EmbeddedServer,
    FaultProxy,
    TopologyError,
    connecting_from,
)
from tests.jepsen.history import Recorder
from tests.jepsen.worker import WorkerSpec

#: What a nemesis needs: links that are proxies, replicas, servers that elect a master, Sentinel, a
#: cluster, a master that hands over when it is told to, servers that share their work with no other
#: (alone), that keep their data, whose clocks can be set or whose disk can be filled, workers that
#: log in as a user, or that the tool runs in a network of its own.
Need = Literal[
    "links",
    "replicas",
    "elects",
    "sentinel",
    "cluster",
    "handover",
    "alone",
    "appendonly",
    "clock shim",
    "disk",
    "user",
    "own network",
]

#: The user of the workers, if a nemesis needs one.
USER, PASSWORD = "jepsen", "of-the-workers"

#: What the library never logs, and Python does when something went wrong that nobody saw.
_NOISE = (
    "Traceback (most recent call last)",
    "exception was never retrieved",
    "was never awaited",
    "was destroyed but it is pending",
    "Exception in callback",
)

_LOOK_AGAIN = 0.02
_PATIENCE = 30.0
#: The last number of the address of the first worker, in a network of its own.
_FIRST_SOURCE = 100


class WorkerProcess:
    """A worker, seen from outside; after a kill it starts anew under the same name.

    Attributes:
        said: What it printed at its end; None if it was killed or has not ended.
        failure: How a life of it ended that nobody killed, if not well.
    """

    def __init__(self, spec: WorkerSpec) -> None:
        self.spec = spec
        self.said: dict[str, Any] | None = None
        self.failure = ""
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
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    def tell(self, row: str) -> None:
        """Tell it something on its standard input, if it still runs."""
        assert self.process.stdin is not None
        if self.process.returncode is None:
            self.process.stdin.write(row.encode() + b"\n")

    async def kill(self) -> None:
        """End its present life with SIGKILL; note it if that had ended by itself already."""
        if self.process.returncode is not None and self.said is None and not self.failure:
            self._note_end()
        self.signal(signals.SIGKILL)
        await self.process.wait()

    def look_at_log(self) -> None:
        """Note what Python logged, if it is more than what the library tells."""
        said = self._log.read_text("utf-8", "replace") if self._log.exists() else ""
        at = min((said.find(words) for words in _NOISE if words in said), default=-1)
        if at >= 0 and not self.failure:
            self.failure = f"{self.name} logged: {said[max(0, at - 200) :][:2000]}"

    def _note_end(self) -> None:
        self.failure = f"{self.name} ended by itself: {self._log.read_text()[-2000:]}"

    async def stop(self, seconds: float) -> None:
        """Tell it to end, and note what it says; kill it after so many seconds."""
        process = self.process
        assert process.stdin is not None
        assert process.stdout is not None
        if process.returncode is not None:
            self._note_end()
            return
        process.stdin.close()
        try:
            async with asyncio.timeout(seconds):
                rows = (await process.stdout.read()).decode().splitlines()
                await process.wait()
        except TimeoutError:
            self.failure = f"{self.name} did not end within {seconds:g} s"
            await self.kill()
            return
        if not rows or process.returncode:
            self.failure = f"{self.name} failed: {self._log.read_text()[-2000:]}"
        else:
            self.said = json.loads(rows[-1])


@dataclass(frozen=True)
class Link:
    """The proxy between one worker and one server.

    Attributes:
        worker: The name of the worker.
        server: The server.
        proxy: The proxy.
        faults: What begins each fault that acts now, by the name of its nemesis.
    """

    worker: str
    server: EmbeddedServer
    proxy: FaultProxy
    faults: dict[str, Callable[[FaultProxy], None]] = field(default_factory=dict)

    def begin(self, name: str, fault: Callable[[FaultProxy], None]) -> None:
        """Begin a fault beside those that act already."""
        self.faults[name] = fault
        fault(self.proxy)

    def end(self, name: str) -> None:
        """End a fault; the others go on."""
        del self.faults[name]
        self.proxy.pass_through()
        for fault in self.faults.values():
            fault(self.proxy)


@dataclass(frozen=True)
class Way:
    """How a worker reaches the servers.

    Attributes:
        urls: What its clients connect to.
        options: Options of its clients.
        source: The address it connects from; empty for any.
    """

    urls: list[str]
    options: dict[str, Any] = field(default_factory=dict)
    source: str = ""


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
        urls: What a client connects to that stands behind no link.
        needs: What the nemeses of this run need.
        folder: Where a nemesis may keep files.
        stack: Ends what was started later than the servers.
    """

    record: Recorder
    servers: Sequence[EmbeddedServer]
    topology: Any = None
    links: list[Link] = field(default_factory=list)
    workers: list[WorkerProcess] = field(default_factory=list)
    lease_time: float = 1.0
    urls: list[str] = field(default_factory=list)
    needs: frozenset[Need] = frozenset()
    folder: Path = Path()
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _locks: dict[object, asyncio.Lock] = field(default_factory=dict)
    _have_struck: set[str] = field(default_factory=set)
    _first_strikes: int = 0

    async def way(self, worker: str) -> Way:
        """Make the way of a worker to the servers."""
        source = ""
        if "own network" in self.needs:
            source = f"127.0.0.{_FIRST_SOURCE + len(self.workers)}"
        urls, options = self.urls, {}
        if "links" in self.needs:
            with connecting_from(source) if source else nullcontext():
                links = [await self._link(worker, server) for server in self.servers]
            near = {each.server.address: f"{each.proxy.host}:{each.proxy.port}" for each in links}
            urls = [_replaced(url, near) for url in urls]
            if urls[0].startswith(("redis+cluster:", "redis+sentinel:")):
                options["address_map"] = near
        if "user" in self.needs:
            urls = [_as_user(url) for url in urls]
        return Way(urls, options, source)

    def some_key(self, chance: random.Random) -> str:
        """Return the name of something that the workers use, for its slot."""
        return chance.choice(self.workers[0].spec.objects)

    @contextmanager
    def struck(self, what: str, whom: str = "", **facts: Any) -> Generator[dict[str, Any]]:
        """Record what a nemesis does while it lasts, and what the block puts into the dict.

        If others struck the topology at the same time, it may not do what it was told; that is
        recorded too.
        """
        number = self.record.invoke("nemesis", whom, rid=what, **facts)
        result: dict[str, Any] = {}
        try:
            yield result
        except TopologyError as error:
            result["err"] = str(error).partition("\n")[0]
        else:
            self._have_struck.add(what)
        finally:
            self.record.complete(number, "info", **result)

    def lock_of(self, thing: object) -> asyncio.Lock:
        """Return the lock under which a nemesis does to a thing what others must not mix with.

        The servers of a topology are one thing: what happens to one concerns all.
        """
        return self._locks.setdefault(self._whole(thing), asyncio.Lock())

    @asynccontextmanager
    async def topology_alone(self, name: str) -> AsyncGenerator[bool]:
        """Hold the turn of the topology; yield whether a nemesis is to strike it.

        A failover takes seconds: a queue of them would outlast the run. So a nemesis that has
        struck leaves the turn to others, if one has it or waits for it. One that has not struck
        waits, also when the time of the run is over: each strikes once.
        """
        lock_of = self.lock_of(self.topology)
        if name in self._have_struck and (lock_of.locked() or self._first_strikes):
            yield False
            return
        first = name not in self._have_struck
        self._first_strikes += first
        try:
            await lock_of.acquire()
        finally:
            self._first_strikes -= first
        try:
            yield True
        finally:
            lock_of.release()

    async def masters(self) -> list[EmbeddedServer]:
        """Return the servers that take writes, as far as they answer."""
        if self.topology is None:
            return [each for each in self.servers if each.running and not each.paused]
        try:
            found: list[EmbeddedServer] = await self.topology.masters()
        except TopologyError:
            return []
        return found

    async def tell(self, server: EmbeddedServer, *command: str | bytes | int) -> Any:
        """Have a server execute a command; return None if it refuses or does not answer."""
        try:
            return await server.execute(*command, timeout=self.lease_time)
        except (CommandError, OSError, TimeoutError, RuntimeError):
            return None

    async def insist(self, server: EmbeddedServer, *command: str | bytes | int) -> None:
        """Have a server execute a command, however long others keep it from doing so."""
        async with asyncio.timeout(_PATIENCE):
            while True:
                try:
                    await server.execute(*command, timeout=self.lease_time)
                    return
                except (CommandError, OSError, TimeoutError, RuntimeError):
                    await asyncio.sleep(_LOOK_AGAIN)

    async def heal(self) -> None:
        """Bring all back, and return when the servers are healthy.

        Raises:
            TopologyError: They are not in half a minute.
        """
        for link in self.links:
            link.proxy.pass_through()
        for worker in self.workers:
            worker.signal(signals.SIGCONT)
        for server in self.servers:
            if not server.running:
                await server.start()
            elif server.paused:
                await server.resume()
        if self.topology is not None:
            await self.topology.heal()
            await (
                self.topology.restore if "cluster" in self.needs else self.topology.wait_healthy
            )()
        for server in self.servers:
            await self.insist(server, "PING")

    async def _link(self, worker: str, server: EmbeddedServer) -> Link:
        proxy = FaultProxy(server.host, server.port)
        link = Link(worker, server, await self.stack.enter_async_context(proxy))
        self.links.append(link)
        return link

    def _whole(self, thing: object) -> object:
        is_part = self.topology is not None and thing in self.servers
        return self.topology if is_part else thing


def _replaced(url: str, near: Mapping[str, str]) -> str:
    """Return a URL with other addresses in it."""
    parts = urlsplit(url)
    hosts = ",".join(near.get(each, each) for each in parts.netloc.split(","))
    return parts._replace(netloc=hosts).geturl()


def _as_user(url: str) -> str:
    """Return a URL for the workers' user."""
    parts = urlsplit(url)
    return parts._replace(netloc=f"{USER}:{PASSWORD}@{parts.netloc}").geturl()
