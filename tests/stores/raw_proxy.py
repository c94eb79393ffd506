"""A proxy of bytes in front of any store, which breaks its connections when it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Self

from tests.stores.zookeeper.server import HOST


class RawProxy:
    """Passes bytes on to a port of this machine.

    Attributes:
        port: Where clients connect to.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loses = False

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, HOST, 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def cut(self) -> int:
        """Break every connection now (RST); return how many ends there were."""
        writers = list(self._writers)
        for writer in writers:
            writer.transport.abort()
        return len(writers)

    def lose_next(self) -> None:
        """Break the connection on which the server next says something, and lose that."""
        self._loses = True

    def pass_through(self) -> None:
        """Lose nothing."""
        self._loses = False

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._spawn(self._serve(reader, writer))

    def _spawn(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            up, down = await asyncio.open_connection(HOST, self._target)
        except OSError:
            writer.transport.abort()
            self._writers.discard(writer)
            return
        self._writers.add(down)
        ends = [self._spawn(self._pass(reader, down)), self._spawn(self._pass(up, writer, down))]
        await asyncio.wait(ends)
        self._writers -= {writer, down}

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        server: asyncio.StreamWriter | None = None,
    ) -> None:
        """Pass bytes on until one end is closed; with `server` they come from there."""
        try:
            while data := await reader.read(65536):
                if server is not None and self._loses:
                    self._loses = False
                    server.transport.abort()
                    writer.transport.abort()
                    return
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()
