"""The commands that servers execute, as MONITOR reports them."""

from __future__ import annotations

import asyncio
import secrets
import shlex
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from redis.asyncio import Redis

from tests.support.cluster_look import ClusterLook, masters_of, url_of

#: Bytes; larger than any script that is loaded.
_MOST_ROW_BYTES = 2**20


class Monitor:
    """The commands that each server with keys executes inside a block, those of scripts included.

    In a cluster this also shows messages: nobody can subscribe to patterns of sharded channels.
    """

    def __init__(self, redis: Redis | ClusterLook) -> None:
        self._redis = redis
        self._published: list[tuple[Redis, asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def __aenter__(self) -> Self:
        for master in await masters_of(self._redis):
            address = urlsplit(url_of(master))
            reader, writer = await asyncio.open_connection(
                address.hostname, address.port, limit=_MOST_ROW_BYTES
            )
            self._published.append((master, reader, writer))
            writer.write(b"MONITOR\r\n")
            assert await reader.readline() == b"+OK\r\n"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for _, _, writer in self._published:
            writer.close()
            await writer.wait_closed()

    async def rows(self) -> list[bytes]:
        """Return the commands since the last call, server by server."""
        found: list[bytes] = []
        mark = secrets.token_hex(8)
        async with asyncio.timeout(30):
            for redis, reader, _ in self._published:
                # MONITOR reports commands in the order of execution.
                await redis.echo(mark)
                while mark.encode() not in (row := await reader.readline()):
                    assert row, "the server has hung up"
                    found.append(row)
        return found

    async def messages(self, name: str) -> list[tuple[str, str]]:
        """Return what was published since the last call to channels with a name in them."""
        commands = [words(row) for row in await self.rows() if b'publish"' in row.lower()]
        return [
            (command[1], command[2])
            for command in commands
            if command[0].lower() in ("publish", "spublish") and name in command[1]
        ]


def words(row: bytes) -> list[str]:
    """Return a command and its arguments, as a line of MONITOR has them."""
    text = row.decode("latin-1")
    # Its arguments are quoted as in C, which is near enough for names of a test.
    return shlex.split(text[text.index("]") + 1 :])
