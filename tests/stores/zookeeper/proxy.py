"""A proxy between a client and ZooKeeper that loses, delays and holds back requests and replies.

`FaultProxy` knows the frames of RESP only; this one knows those of ZooKeeper: a length, and then in
a request its number and the code of its operation, in a reply the number.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Callable
from typing import Final, Literal, Self

from tests.stores.zookeeper.server import HOST

CREATE: Final = 15
DELETE: Final = 2
EXISTS: Final = 3
GET_DATA: Final = 4
GET_CHILDREN: Final = 8
SYNC: Final = 9
CLOSE: Final = -11
Fate = Literal["pass", "cut before", "cut after", "swallow", "hold"]


class ZooKeeperProxy:
    """Passes frames on, but for the operations that were told another fate.

    - `"cut before"`: the connection breaks, and the server never gets the request;
    - `"cut after"`: the server carries it out, and the connection breaks instead of the reply;
    - `"swallow"`: the reply is lost, and so is everything that comes later;
    - `"hold"`: the request is kept back, with all that follows, until `release`.

    Attributes:
        seen: How many requests of each operation came.
        connections: How many connections were accepted.
        hit: Set when a fate was met.
        links: How many pairs of connections, to a client and to the server, are there.
        errors: The code of the reply to each request that was held back, 0 for none.
    """

    def __init__(self, port: int) -> None:
        """Prepare a proxy in front of a server's port."""
        self.seen: dict[int, int] = {}
        self.connections = 0
        self.hit = asyncio.Event()
        self.errors: list[int] = []
        self._target = port
        self._fates: list[tuple[int, Fate]] = []
        self._links: set[_Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._black = False
        self._refusing = False

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, HOST, 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()
        for link in self._links:
            link.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def links(self) -> int:
        return len(self._links)

    @property
    def url(self) -> str:
        """What clients connect to."""
        return f"zookeeper://{HOST}:{self.port}"

    def next(self, operation: int, fate: Fate) -> None:
        """Say what happens to the next request of an operation."""
        self.hit.clear()
        self._fates.append((operation, fate))

    def black_hole(self, on: bool) -> None:
        """Let everything disappear, or not any more."""
        self._black = on

    def deafen(self) -> None:
        """Let no reply through on the connections that there are."""
        for link in self._links:
            link.silent = True

    def refuse(self, on: bool) -> None:
        """Close new connections at once, or not any more."""
        self._refusing = on

    def cut(self) -> None:
        """Break the connections of clients; those to the server stay where requests are held."""
        for link in list(self._links):
            link.cut()

    def release(self) -> None:
        """Send what was held back."""
        for link in self._links:
            link.release()

    def fate_of(self, operation: int) -> Fate:
        """Return what happens to a request now."""
        self.seen[operation] = self.seen.get(operation, 0) + 1
        for rule in self._fates:
            if rule[0] == operation:
                self._fates.remove(rule)
                if rule[1] != "cut after":
                    self.hit.set()
                return rule[1]
        return "pass"

    @property
    def black(self) -> bool:
        """Whether everything disappears."""
        return self._black

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            if not self._refusing:
                await self._serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection(HOST, self._target)
        link = _Link(self, writer, up_writer)
        self._links.add(link)
        try:
            await asyncio.gather(
                _pump(reader, link.take_up, link.client_gone),
                _pump(up_reader, link.take_down, link.close),
            )
        finally:
            link.close()
            self._links.discard(link)


class _Link:
    def __init__(
        self, proxy: ZooKeeperProxy, client: asyncio.StreamWriter, server: asyncio.StreamWriter
    ) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._greeted = False
        self._held: list[bytes] | None = None
        self._fatal: set[int] = set()
        self.silent = False
        self._late: set[int] = set()

    def take_up(self, frame: bytes) -> None:
        fate: Fate = "pass"
        if self._greeted:
            number, operation = struct.unpack_from("!ii", frame, 4)
            fate = self._proxy.fate_of(operation)
            if fate == "cut after":
                self._fatal.add(number)
        self._greeted = True
        if self._proxy.black:
            return
        if fate == "cut before":
            self.cut()
            return
        if fate == "swallow":
            self.silent = True
        if fate == "hold":
            self._held = []
            self._late.add(number)
        if self._held is not None:
            self._held.append(frame)
        else:
            self._server.write(frame)

    def take_down(self, frame: bytes) -> None:
        (number,) = struct.unpack_from("!i", frame, 4)
        if number in self._late:
            self._proxy.errors.append(struct.unpack_from("!i", frame, 16)[0])
        if number in self._fatal:
            self._proxy.hit.set()
            self.cut()
        elif not self.silent and not self._proxy.black:
            self._client.write(frame)

    def release(self) -> None:
        held, self._held = self._held, None
        for frame in held or ():
            self._server.write(frame)

    def cut(self) -> None:
        self._client.transport.abort()

    def client_gone(self) -> None:
        if self._held is None:
            self.close()

    def close(self) -> None:
        self._client.transport.abort()
        self._server.transport.abort()


async def _pump(
    reader: asyncio.StreamReader, take: Callable[[bytes], None], gone: Callable[[], None]
) -> None:
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        while True:
            head = await reader.readexactly(4)
            take(head + await reader.readexactly(struct.unpack("!i", head)[0]))
    gone()
