"""A resource that checks fencing tokens, the log it keeps, and the verdict over that log.

The resource is one number. A writer works on it in sections, each under the lock, and tells
the referee, one line a step, before it goes on:

    ask SECTION                  it is about to ask for the lock   -> ok, or closed
    begin SECTION OWNER TOKEN    it has the lock; it reads         -> the value
    write SECTION TOKEN VALUE    it writes                         -> accepted, or refused

A section is named `writer/number`, OWNER is its lease's. A write is refused if its token is
smaller than the greatest seen, *with reads as with writes*: were reads not to count, an old
holder could still write between the read and the write of a new one, whose write would then
undo it, and no token would ever have gone backwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

from tests.support.waiting import until


@dataclass(frozen=True, slots=True)
class Ask:
    """A section is about to ask for the lock."""

    section: str


@dataclass(frozen=True, slots=True)
class Begin:
    """A section was granted the lock, and reads the value."""

    section: str
    owner: str
    token: int


@dataclass(frozen=True, slots=True)
class Write:
    """A section wrote."""

    section: str
    token: int
    value: int
    accepted: bool


Event = Ask | Begin | Write
Rule = Literal["smaller token accepted", "tokens not in order", "overtaken", "lost update"]


class Violation(NamedTuple):
    """A broken rule and the place in the log where that shows."""

    rule: Rule
    position: int
    event: Event


class _Asked(NamedTuple):
    """When a grant was asked for, and the greatest token that anybody had shown by then."""

    position: int
    shown: int


def violations(log: Sequence[Event]) -> list[Violation]:
    """Judge a log; nothing but what the referee saw counts.

    When a grant happened nobody but Redis knows, but it was after its `ask` and before its
    `begin`. So a section is certainly *newer* than another one if it was asked for after the
    other had begun; those that overlap in this sense have no order, however late a slow
    process says that it begins. That makes the rules exact: no stop, no loss of data and no
    slow machine can make a correct run break one.

    - "overtaken" is the guarantee itself, in time and without tokens: no write is accepted
      from a section after a newer one has begun.
    - "smaller token accepted" is how the resource keeps it: the tokens of accepted writes
      never decrease.
    - "tokens not in order" is how the lock makes that possible: newer sections have greater
      tokens, and no two have the same. A counter that starts again breaks this rule, even if
      the resource checks: it then refuses the new holders and believes an old one.
    - "lost update" is what it is all for: each accepted write adds one to the last.

    A hold that is passed among the tasks of a process keeps its owner and is one grant, asked
    for when the first of them asked; its sections have growing tokens in the order they begin.
    """
    asked: dict[str, _Asked] = {}
    grants: dict[str, _Asked] = {}
    begun: dict[str, tuple[int, Begin]] = {}
    given: set[int] = set()
    last_of_owner: dict[str, int] = {}
    shown = newest = accepted = value = 0
    found: list[Violation] = []
    for position, event in enumerate(log):
        match event:
            case Ask(section):
                asked[section] = _Asked(position, shown)
            case Begin(section, owner, token):
                grant = grants.setdefault(owner, asked[section])
                if token in given or token <= max(grant.shown, last_of_owner.get(owner, 0)):
                    found.append(Violation("tokens not in order", position, event))
                begun[section] = position, event
                given.add(token)
                last_of_owner[owner] = token
                shown = max(shown, token)
                newest = max(newest, grant.position)
            case Write(section, token, written, True):
                if token < accepted:
                    found.append(Violation("smaller token accepted", position, event))
                if begun[section][0] < newest:
                    found.append(Violation("overtaken", position, event))
                if written != value + 1:
                    found.append(Violation("lost update", position, event))
                accepted, value = max(accepted, token), written
    return found


class Referee:
    """Keeps the resource and its log, and serves writers on a port of the loopback interface.

    Attributes:
        log: What it saw, in its order; only ever appended to.
        closed: Writers that ask are sent home.
        value: The number.
    """

    def __init__(self, *, checks: bool = True) -> None:
        """Make one that checks tokens, or one that accepts every write."""
        self.log: list[Event] = []
        self.closed = False
        self._checks = checks
        self.value = self._greatest = 0
        self._connections: set[_Connection] = set()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for connection in self._connections:
            connection.transport.abort()
        await until(lambda: not self._connections)

    def answer(self, row: str) -> str:
        """Take a step of a section into the log; return what to tell its writer."""
        match row.split():
            case ["ask", section]:
                self.log.append(Ask(section))
                return "closed" if self.closed else "ok"
            case ["begin", section, owner, token]:
                self._greatest = max(self._greatest, int(token))
                self.log.append(Begin(section, owner, int(token)))
                return str(self.value)
            case ["write", section, token, value]:
                accepted = not self._checks or int(token) >= self._greatest
                if accepted:
                    self._greatest = max(self._greatest, int(token))
                    self.value = int(value)
                self.log.append(Write(section, int(token), int(value), accepted))
                return "accepted" if accepted else "refused"
        raise ValueError(f"not a step of a section: {row!r}")


class _Connection(asyncio.Protocol):
    """A writer's process; it has one question at a time."""

    transport: asyncio.Transport

    def __init__(self, referee: Referee) -> None:
        self._referee = referee
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not an isinstance check: uvloop's transports have no base class in asyncio.
        self.transport = transport  # type: ignore[assignment]
        self._referee._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._referee._connections.discard(self)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._received.endswith(b"\n"):
            return
        row, self._received = self._received.decode(), b""
        self.transport.write(self._referee.answer(row).encode() + b"\n")
