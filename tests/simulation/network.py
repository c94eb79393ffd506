"""The simulated network: servers, the paths from hosts to them, and what goes wrong there."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Literal

import hiredis

from tests.simulation.connection import Connection, Signal
from tests.simulation.hosts import HOST, Host
from tests.simulation.loop import BEGIN, SimulatedLoop
from tests.simulation.pipes import Road
from tests.simulation.server.server import Server
from tests.simulation.server.session import Session
from tests.simulation.trace import Trace

#: The wall clock when a simulation begins, in microseconds: it does not matter which.
EPOCH = 1_700_000_000_000_000

#: What becomes of a command: executed and answered; lost on its way, with the connection; executed
#: without an answer, with the connection broken, or with it left open and silent.
Verdict = Literal["pass", "cut before", "cut after", "swallow"]
Rule = Callable[[tuple[bytes, ...]], Verdict]

#: Looks at a server before a script runs there, and after it.
Watch = Callable[["Node", tuple[bytes, ...]], AbstractContextManager[None]]

#: The path that connections of the current code take; None: that of their host.
PATH: ContextVar[Path | None] = ContextVar("path", default=None)


class Path:
    """The way between one host and one server; all its connections have the same troubles.

    Attributes:
        connections: Those open at the client's end, in the order in which they were opened.
        rule: What becomes of each command, if anything but "pass".
        refusing: New connections are refused.
        late: The longest time that bytes of a connection may arrive after their client closed it.
        repeats: The share of lost replies whose command arrives once more, late.
    """

    def __init__(self, network: Network, host: Host, node: Node, chance: random.Random) -> None:
        self.network = network
        self.loop = network.loop
        self.host = host
        self.node = node
        self.chance = chance
        self.up = Road(chance)
        self.down = Road(chance)
        self.connections: dict[Connection, None] = {}
        self.rule: Rule | None = None
        self.refusing = False
        self.late = 0.0
        self.repeats = 0.0

    def lateness(self) -> float:
        """Return how long the bytes of a connection that was given up stay on their way."""
        return self.late * self.chance.random() if self.late else 0.0

    def cut(self) -> int:
        """Break every open connection; return how many there were."""
        broken = list(self.connections)
        for connection in broken:
            self.network.trace(connection, "is cut")
            if self.chance.random() < 0.5:
                connection.down.drop()
            connection.reset()
            self.connections.pop(connection, None)
            # Also one that the server does not know yet.
            connection.down.put(Signal.RESET)
        return len(broken)

    def repeat(self, command: tuple[bytes, ...]) -> None:
        """Perhaps deliver the bytes of a command once more, much later."""
        if self.chance.random() < self.repeats:
            when = self.loop.time() + self.chance.random() * max(self.late, 0.01)
            self.loop.at(when, self.node.execute_late, [command])


class Node:
    """One server, reachable at one address.

    Attributes:
        server: Its state.
        rate: How fast its clock runs.
        sessions: The connections that it has accepted, in order.
        up: It runs; else it refuses connections.
        stopped: It does nothing (SIGSTOP); what arrives waits.
    """

    def __init__(self, network: Network, address: tuple[str, int], rate: float) -> None:
        self.network = network
        self.loop = network.loop
        self.address = address
        self.rate = rate
        self.server = Server(self.clock, str(address[1]))
        self.sessions: dict[Connection, None] = {}
        self.to_flush: list[Connection] = []
        self.up = True
        self.stopped = False
        self._waiting: deque[tuple[Connection, object]] = deque()

    def __repr__(self) -> str:
        return f"server {self.address[1]}"

    def clock(self) -> int:
        """Return its microseconds since the epoch."""
        return EPOCH + int((self.loop.time() - BEGIN) * 1e6 * self.rate)

    def take(self, connection: Connection, chunk: object) -> None:
        """Take what comes from a client."""
        if self.stopped and chunk is not Signal.OPEN:
            self._waiting.append((connection, chunk))
        elif chunk is Signal.OPEN:
            self._accept(connection)
        elif connection.session is None:
            return
        elif chunk is Signal.END:
            self.network.trace(connection, "has ended")
            connection.ended_by_client()
        elif isinstance(chunk, bytes):
            self._read(connection, chunk)

    def _accept(self, connection: Connection) -> None:
        if not self.up or connection.path.refusing:
            self.network.trace(connection, "is refused")
            connection.down.put(Signal.REFUSED)
        else:
            self.network.trace(connection, "is open to", self)
            connection.accept(self.server.session(connection.send, connection.close))

    def _read(self, connection: Connection, data: bytes) -> None:
        try:
            commands = connection.reader.feed(data)
        except hiredis.ProtocolError:
            connection.close()
            return
        for command in commands:
            if connection.session is None:
                break
            self._execute(connection, command)
        self._flush()

    def _execute(self, connection: Connection, command: tuple[bytes, ...]) -> None:
        path, session = connection.path, connection.session
        assert session is not None
        verdict = "pass" if path.rule is None else path.rule(command)
        self.network.trace_command(connection, command, verdict)
        if verdict == "cut before":
            connection.reset()
            return
        if verdict != "pass":
            connection.flush()
            connection.muted = True
            path.repeat(command)
        self._carry_out(session, command)
        if verdict == "cut after":
            connection.muted = False
            connection.reset()

    def execute_late(self, commands: Iterable[tuple[bytes, ...]]) -> None:
        """Execute commands of a connection that is long gone; nobody reads the answers."""
        if not self.up or self.stopped:
            return
        session = self.server.session(_nowhere, _nothing)
        for command in commands:
            self.network.trace_command("a dead connection", command, "late")
            self._carry_out(session, command)
        session.end()
        self._flush()

    def _carry_out(self, session: Session, command: tuple[bytes, ...]) -> None:
        self.network.executed += 1
        if self.network.watch is None or command[0] != b"EVALSHA":
            session.execute(command)
            return
        with self.network.watch(self, command):
            session.execute(command)

    def _flush(self) -> None:
        to_flush, self.to_flush = self.to_flush, []
        for connection in to_flush:
            connection.flush()

    def stop(self) -> None:
        """Do nothing until `go_on`, as after SIGSTOP."""
        self.stopped = True

    def go_on(self) -> None:
        """Do everything that has come meanwhile."""
        self.stopped = False
        while self._waiting and not self.stopped:
            self.take(*self._waiting.popleft())

    def go_down(self, *, keep_data: bool) -> None:
        """Crash: all connections break, and the data may be lost."""
        self.up = False
        self.network.executed += 1
        self._waiting.clear()
        for connection in list(self.sessions):
            connection.path.connections.pop(connection, None)
            connection.reset()
        self.server.restart(keep_data)

    def come_up(self) -> None:
        """Accept connections again."""
        self.up = True


class Network:
    """All servers, and the paths to them.

    Args:
        loop: Its time.
        trace: Where it writes what happens.
        chance: Returns the source of random numbers for a part of it, by name.

    Attributes:
        executed: How many commands the servers have executed.
        watch: Looks at what each script does, if anybody wants to.
    """

    def __init__(
        self, loop: SimulatedLoop, trace: Trace, chance: Callable[[str], random.Random]
    ) -> None:
        self.loop = loop
        self.nodes: dict[tuple[str, int], Node] = {}
        self.paths: dict[tuple[Host, Node], Path] = {}
        self.executed = 0
        self.watch: Watch | None = None
        self._trace = trace
        self._chance = chance
        self.next_number = itertools.count(1).__next__
        loop.network = self

    def add_node(self, port: int, rate: float = 1.0) -> Node:
        """Return a new server."""
        address = ("127.0.0.1", port)
        node = self.nodes[address] = Node(self, address, rate)
        return node

    def path(self, host: Host, node: Node) -> Path:
        """Return the path from a host to a server."""
        if (host, node) not in self.paths:
            self.paths[host, node] = self.new_path(host, node, f"path of {host} to {node}")
        return self.paths[host, node]

    def new_path(self, host: Host, node: Node, name: str) -> Path:
        """Return one more path."""
        return Path(self, host, node, self._chance(name))

    async def connect(self, protocol: asyncio.Protocol, host: str, port: int) -> asyncio.Transport:
        """Open a connection from the current host, on a path of its own if there is one."""
        node = self.nodes[host, int(port)]
        path = PATH.get()
        if path is None or path.node is not node:
            path = self.path(HOST.get() or self.loop.outside, node)
        connection = Connection(path, protocol)
        path.connections[connection] = None
        connection.up.put(Signal.OPEN)
        try:
            await connection.opened
        except BaseException:
            connection.transport.abort()
            raise
        protocol.connection_made(connection.transport)
        return connection.transport

    def trace(self, *words: object) -> None:
        """Note something that happened."""
        self._trace.add(self.loop.time(), *words)

    def trace_command(self, source: object, command: tuple[bytes, ...], verdict: str) -> None:
        """Note a command that a server has got."""
        self._trace.add_command(self.loop.time(), source, command, verdict)


def _nowhere(data: bytes) -> None:
    """Send a reply that nobody reads."""


def _nothing() -> None:
    """Close a connection that is closed."""
