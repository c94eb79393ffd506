"""A RESP server that does what a test tells it: answers, pushes, errors, cuts, silence.

The handshake (HELLO, CLIENT SETINFO, ...) is answered by itself and not recorded. Each other
command takes the next step of the plan. After the end of the plan, `otherwise` answers: by
default with the words of the command, so that a test can match replies with commands.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Callable
from typing import Final, Self

import hiredis

HOST: Final = "127.0.0.1"
Command = tuple[bytes, ...]


class Cut:
    """Break the connection instead of answering."""


CUT: Final = Cut()
#: Read the command and say nothing.
SILENCE: Final = b""
OK: Final = b"+OK\r\n"

Answer = bytes | Cut
Step = Answer | Callable[[Command], Answer]


def bulk(data: bytes) -> bytes:
    """Return a bulk string."""
    return b"$%d\r\n%s\r\n" % (len(data), data)


def error(text: str) -> bytes:
    """Return an error reply."""
    return f"-{text}\r\n".encode()


def push(*items: bytes | int) -> bytes:
    """Return a push message."""
    parts = [b":%d\r\n" % item if isinstance(item, int) else bulk(item) for item in items]
    return b">%d\r\n%s" % (len(items), b"".join(parts))


def message(channel: bytes, payload: bytes) -> bytes:
    """Return what subscribers of a channel are sent."""
    return push(b"message", channel, payload)


def confirmation(command: Command) -> bytes:
    """Return the answer to SUBSCRIBE or UNSUBSCRIBE, sharded or not."""
    return push(command[0].lower(), command[1], 1)


def hello(version: str = "7.2.4") -> bytes:
    """Return the answer to HELLO."""
    facts = {b"server": b"redis", b"version": version.encode(), b"mode": b"standalone"}
    pairs = b"".join(bulk(key) + bulk(value) for key, value in facts.items())
    return b"%%%d\r\n%s%sproto\r\n:3\r\n" % (len(facts) + 1, pairs, b"$5\r\n")


def echo(command: Command) -> bytes:
    """Answer as a friendly server would, with the command's own words where nothing is due."""
    word = command[0].upper()
    if word == b"PING":
        return b"+PONG\r\n"
    if word.endswith(b"SUBSCRIBE"):
        return confirmation(command)
    return bulk(b" ".join(command))


class FakePeer:
    """The server.

    Attributes:
        plan: What to do about the next commands, whichever connection they come on.
        otherwise: What to do when the plan is at its end.
        greeting: What to do about HELLO, which every connection is sent twice.
        selected: What to do about SELECT, which is sent where the URL names a database.
        welcome: Answers to be given to new connections instead of a handshake, one each.
        links: Every connection so far, open or closed.
    """

    def __init__(self) -> None:
        self.plan: deque[Step] = deque()
        self.otherwise: Step = echo
        self.greeting: Step = hello()
        self.selected: Step = OK
        self.welcome: deque[Answer] = deque()
        self.links: list[Link] = []
        self._server: asyncio.Server | None = None
        self._port = 0
        self._news = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self.listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.refuse()
        self.cut()
        await self.until(lambda: not self.open)

    @property
    def url(self) -> str:
        """Where it is."""
        return f"redis://{HOST}:{self._port}"

    @property
    def commands(self) -> list[Command]:
        """Every command of every connection, in order of arrival."""
        return [command for link in self.links for command in link.commands]

    @property
    def open(self) -> int:
        """How many connections are open."""
        return sum(link.is_open for link in self.links)

    def count(self, word: bytes) -> int:
        """Return how many commands begin with `word`."""
        return sum(command[0] == word for command in self.commands)

    async def listen(self) -> None:
        """Accept connections, always on the same port."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Link(self), HOST, self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def refuse(self) -> None:
        """Accept no more connections; open ones stay open."""
        if self._server is not None:
            server, self._server = self._server, None
            server.close()

    def cut(self) -> None:
        """Break every connection."""
        for link in self.links:
            link.abort()

    def say(self, data: bytes) -> None:
        """Send unsolicited data on the newest connection."""
        self.links[-1].say(data)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition, which is checked whenever anything arrives, opens or closes."""
        while not condition():
            self._news.clear()
            await self._news.wait()

    def changed(self) -> None:
        """Have all waiters check their condition again."""
        self._news.set()


class Link(asyncio.Protocol):
    """One connection.

    Attributes:
        commands: What came after the handshake.
        writes: The same, by the chunks in which it arrived.
    """

    def __init__(self, peer: FakePeer) -> None:
        self.commands: list[Command] = []
        self.writes: list[list[Command]] = []
        self._peer = peer
        self._reader = hiredis.Reader()
        self._transport: asyncio.Transport | None = None
        self._leaving = False

    @property
    def is_open(self) -> bool:
        """Whether the connection is still open."""
        return self._transport is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection, or refuse it."""
        # Not an isinstance check: uvloop's transports have no base class in asyncio.
        self._transport = transport  # type: ignore[assignment]
        self._peer.links.append(self)
        if self._peer.welcome:
            self._leaving = True
            self._do(self._peer.welcome.popleft(), ())
        self._peer.changed()

    def connection_lost(self, exc: Exception | None) -> None:
        """Record that the connection is lost."""
        self._transport = None
        self._peer.changed()

    def data_received(self, data: bytes) -> None:
        """Answer, command by command."""
        if self._leaving:
            # Only now: closing a socket with unread input would discard the output.
            self.close()
            return
        self._reader.feed(data)
        chunk: list[Command] = []
        while self._transport is not None and (words := self._reader.gets()):
            command: Command = tuple(words)
            if self._is_handshake(command):
                continue
            self.commands.append(command)
            chunk.append(command)
            peer = self._peer
            self._do(peer.plan.popleft() if peer.plan else peer.otherwise, command)
        if chunk:
            self.writes.append(chunk)
        self._peer.changed()

    def say(self, data: bytes) -> None:
        """Send bytes."""
        assert self._transport is not None
        self._transport.write(data)

    def close(self) -> None:
        """Close after all pending output has been sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Break the connection now."""
        if self._transport is not None:
            self._transport.abort()

    def stop_reading(self) -> None:
        """Let what the client sends pile up."""
        assert self._transport is not None
        self._transport.pause_reading()

    def go_on_reading(self) -> None:
        """Read what has piled up."""
        assert self._transport is not None
        self._transport.resume_reading()

    def _do(self, step: Step, command: Command) -> None:
        answer = step(command) if callable(step) else step
        if isinstance(answer, Cut):
            self.abort()
        elif answer:
            self.say(answer)

    def _is_handshake(self, command: Command) -> bool:
        if command[0] == b"HELLO":
            self._do(self._peer.greeting, command)
        elif command[0] == b"SELECT":
            self._do(self._peer.selected, command)
        elif command[0] in (b"CLIENT", b"AUTH"):
            self.say(OK)
        else:
            return False
        return True


class ScriptCache:
    """Answers as a server that knows a script only after it was loaded."""

    def __init__(self) -> None:
        self._known: set[bytes] = set()

    def flush(self) -> None:
        """Forget every script."""
        self._known.clear()

    def __call__(self, command: Command) -> bytes:
        """Answer a command."""
        if command[0] == b"SCRIPT":
            sha = hashlib.sha1(command[2], usedforsecurity=False).hexdigest().encode()
            self._known.add(sha)
            return bulk(sha)
        if command[0] == b"EVALSHA" and command[1] not in self._known:
            return error("NOSCRIPT No matching script. Please use EVAL.")
        return echo(command)
