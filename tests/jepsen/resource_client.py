"""The resource, as a worker sees it: from tasks over one connection, or from threads."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import deque
from typing import Protocol


class ResourceClient(Protocol):
    """Tells the resource the steps of a worker."""

    async def tell(self, *words: object) -> str:
        """Tell the next step and return the answer."""
        ...

    def close(self) -> None:
        """Close the connection."""


class SharedConnection(asyncio.Protocol):
    """One connection for all tasks of a worker; the answers come in the order of the steps."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._asked: deque[asyncio.Future[str]] = deque()
        self._received = b""

    @classmethod
    async def open(cls, port: int) -> SharedConnection:
        """Connect to the resource."""
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(cls, "127.0.0.1", port)
        return connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        # Not an isinstance check: uvloop's transports have no base class in asyncio.
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Deliver the answers; a task that was cancelled meanwhile needs none."""
        *rows, self._received = (self._received + data).split(b"\n")
        for row in rows:
            answer = self._asked.popleft()
            if not answer.done():
                answer.set_result(row.decode())

    async def tell(self, *words: object) -> str:
        """Tell the next step and return the answer."""
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._asked.append(answer)
        self.transport.write((" ".join(map(str, words)) + "\n").encode())
        return await answer

    def close(self) -> None:
        """Close the connection."""
        self.transport.close()


class ThreadConnections:
    """A connection for each thread; `tell` blocks its thread, and never suspends."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._local = threading.local()
        self._open: list[socket.socket] = []

    async def tell(self, *words: object) -> str:
        """Tell the next step and return the answer."""
        if not hasattr(self._local, "rows"):
            connection = socket.create_connection(("127.0.0.1", self._port))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open.append(connection)
            self._local.rows = connection.makefile("rw", encoding="utf-8", newline="\n")
        rows = self._local.rows
        rows.write(" ".join(map(str, words)) + "\n")
        rows.flush()
        return str(rows.readline()).rstrip("\n")

    def close(self) -> None:
        """Close all connections."""
        for each in self._open:
            each.close()
