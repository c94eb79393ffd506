"""A TCP proxy that breaks the connection between a client and a server on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Literal, Self, final
from urllib.parse import urlsplit

from ._lane import Direction, Traffic
from ._link import Book, Faults, Link, abort
from ._rules import Match, Rule, Verdict

HOST: Final = "127.0.0.1"
Directions = Literal["both", "up", "down"]
_BOTH: Final[frozenset[Direction]] = frozenset(("up", "down"))


@final
class FaultProxy:
    """Stands between clients and a server and misbehaves on demand.

    "Up" is from the client to the server, "down" the way back. The faults can be set and
    changed at any time, none of them waits, and they add up until `pass_through` ends them.
    `cut` and `refuse` together look like a server that is down; `black_hole` like a network
    that is.

    Faults act on whole RESP frames, so they hit exactly the replies they are meant for, also
    in a pipeline. A connection that does not speak RESP (TLS) is passed on as it is; the
    faults that need no frames work there too. For servers other than Redis, pass `raw=True`: some
    bytes of other protocols look like commands.
    """

    def __init__(self, target_host: str, target_port: int, *, raw: bool = False) -> None:
        """Make a proxy in front of a server; use it as an async context manager.

        Args:
            target_host: The server's host.
            target_port: Its port.
            raw: Pass everything on as it is, for any protocol. Faults act on the bytes read at
                once, and rules do nothing; cut a connection that lost bytes before it goes on.
                Default: False
        """
        self._raw: Final = raw
        self._target: Final = (target_host, target_port)
        self._url = urlsplit("redis://")
        self._faults: Final = Faults()
        self._refusing = False
        self._news = asyncio.Event()  # replaced by a new one whenever it is set
        self._book: Final = Book(self._changed)
        self._links: Final[set[Link]] = set()
        self._tasks: Final[dict[asyncio.Task[None], Link]] = {}
        self._errors: Final[list[Exception]] = []
        self._server: asyncio.Server | None = None
        self._port = 0
        self.accepted: int = 0
        self.refused: int = 0

    @classmethod
    def in_front_of(cls, url: str, *, raw: bool = False) -> Self:
        """Make a proxy for the server at `url`; `proxy.url` contains the same credentials."""
        parts = urlsplit(url)
        proxy = cls(parts.hostname or HOST, parts.port or 6379, raw=raw)
        proxy._url = parts
        return proxy

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, HOST, 0)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def host(self) -> str:
        """The address clients connect to."""
        return HOST

    @property
    def port(self) -> int:
        """The port clients connect to."""
        return self._port

    @property
    def url(self) -> str:
        """The URL clients connect to."""
        user, at, _ = self._url.netloc.rpartition("@")
        return self._url._replace(netloc=f"{user}{at}{HOST}:{self._port}").geturl()

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return sum(not link.broken for link in self._links)

    @property
    def held(self) -> int:
        """How many commands `hold` holds back."""
        return sum(link.held for link in self._links)

    @property
    def triggered(self) -> int:
        """How many replies the rules have dropped."""
        return self._book.triggered

    @property
    def up(self) -> Traffic:
        """The traffic that clients sent."""
        return self._book.traffic["up"]

    @property
    def down(self) -> Traffic:
        """The traffic that the server sent."""
        return self._book.traffic["down"]

    def pass_through(self) -> None:
        """End all faults, drop all rules, and send the commands held back."""
        self._refusing = False
        self._faults.rules.clear()
        self.delay(0)
        self.dribble(0, 0)
        self._swallow(frozenset())
        self.release_held()

    def delay(self, seconds: float, *, direction: Directions = "both") -> None:
        """Deliver everything `seconds` later; zero ends it."""
        for each in _chosen(direction):
            self._faults.pace[each].delay = seconds

    def black_hole(self, direction: Directions = "both") -> None:
        """Drop everything in a direction while connections stay open.

        If one side closes, the other learns of it only after `pass_through`. Connections still open
        then work again, but what was lost stays lost.
        """
        self._swallow(_chosen(direction))

    def cut(self) -> int:
        """Break every open connection now (RST); return how many there were."""
        links = [link for link in self._links if not link.broken]
        for link in links:
            link.reset()
        self._changed()
        return len(links)

    def refuse(self) -> None:
        """Close new connections at once (RST); open ones stay open."""
        self._refusing = True

    def cut_after_execution(self, match: Match, times: int = 1) -> None:
        """Break the connection instead of delivering the reply to a command.

        The server has executed the command, and the client cannot know. Replies to commands
        before it are delivered; commands sent after it may have been executed as well.

        Args:
            match: Bytes the command (as RESP) contains, or a test of its bytes. The first
                rule that matches takes a command.
            times: How many commands the rule applies to. Default: 1
        """
        self._add_rule(match, "cut", times)

    def swallow_reply(self, match: Match, times: int = 1) -> None:
        """Drop the reply to a command and deliver everything else.

        Args:
            match: See `cut_after_execution`.
            times: How many commands the rule applies to. Default: 1
        """
        self._add_rule(match, "swallow", times)

    def dribble(self, n_bytes: int, seconds: float) -> None:
        """Deliver what the server sends in pieces of `n_bytes`, `seconds` apart; zero ends it."""
        self._faults.pace["down"].piece = n_bytes
        self._faults.pace["down"].gap = seconds

    def hold(self) -> None:
        """Hold commands back until `release_held`, even if their client is gone by then."""
        self._faults.holding = True

    def release_held(self) -> None:
        """Send the commands held back, those of one connection at once, and hold no more."""
        self._faults.holding = False
        for link in self._links:
            link.release()
        self._changed()

    async def wait_until(self, condition: Callable[[Self], bool]) -> None:
        """Wait until `condition(proxy)` is true; checked whenever something changes.

        These changes count: `connections`, `accepted`, `refused`, `held`, `triggered`, and what
        `up` and `down` have received.
        """
        while not condition(self):
            await self._news.wait()

    async def aclose(self) -> None:
        """Stop listening and break all connections; no task or socket is left.

        Raises:
            ExceptionGroup: A rule's test raised in the connections' tasks.
        """
        if self._server is None:
            return
        self._server.close()
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None
        if self._errors:
            raise ExceptionGroup("in the proxy's connections", self._errors)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            self.refused += 1
            abort(writer)
        else:
            self.accepted += 1
            link = Link(reader, writer, self._faults, self._book, raw=self._raw)
            self._links.add(link)
            task = link.start(*self._target)
            self._tasks[task] = link
            task.add_done_callback(self._ended)
        self._changed()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._links.discard(self._tasks.pop(task))
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._errors.append(error)
        self._changed()

    def _add_rule(self, match: Match, verdict: Verdict, times: int) -> None:
        self._faults.rules.append(Rule(match, verdict, times))

    def _swallow(self, directions: frozenset[Direction]) -> None:
        self._faults.swallowed = directions
        for link in self._links:
            link.heal()

    def _changed(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()


def _chosen(direction: Directions) -> frozenset[Direction]:
    return _BOTH if direction == "both" else frozenset((direction,))
