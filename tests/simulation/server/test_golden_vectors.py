"""The golden vectors of `tests/lua`: the simulated server, too, is left what Redisson leaves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import hiredis
import pytest_asyncio
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.maint_notifications import MaintNotificationsConfig

from tests.lua import (
    test_fair_golden_vectors,
    test_golden_read_write,
    test_golden_vectors,
    test_permit_golden_vectors,
)
from tests.lua.conftest import rw as rw
from tests.lua.conftest import scripts as scripts
from tests.lua.test_fair_golden_vectors import fk as fk
from tests.lua.test_golden_read_write import TestWithRedisson as TestWithRedisson
from tests.simulation.server import Server
from tests.simulation.server.replies import encode

# Two of these files have a test of the same name, so each name tells its file, too.
for vectors in (
    test_golden_vectors,
    test_fair_golden_vectors,
    test_golden_read_write,
    test_permit_golden_vectors,
):
    for name, value in vars(vectors).items():
        if name.startswith("test_") and callable(value):
            globals()[f"{vectors.__name__.rpartition('.')[2]}_{name}"] = value


class Door(asyncio.Protocol):
    """A connection of a real client to a simulated server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._reader = hiredis.Reader()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._session = self._server.session(transport.write, transport.close)

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        while command := self._reader.gets():
            # What only tests ask for, to look.
            if command[0] == b"KEYS":
                self._transport.write(encode(self._server.keys(), False))
            elif command[0] == b"DUMP":
                value = self._server.database().find(command[1])
                text = repr(getattr(value, "rows", value)).encode()
                self._transport.write(encode(text, False))
            else:
                self._session.execute(tuple(command))

    def connection_lost(self, exc: Exception | None) -> None:
        self._session.end()


@pytest_asyncio.fixture
async def redis() -> AsyncIterator[Redis]:
    """A client of a simulated server whose clock is that of the machine."""
    server = Server(lambda: time.time_ns() // 1000)
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(lambda: Door(server), "127.0.0.1", 0)
    host, port = listener.sockets[0].getsockname()
    try:
        async with Redis(
            host=host,
            port=port,
            retry=Retry(NoBackoff(), 0),
            maint_notifications_config=MaintNotificationsConfig(enabled=False),
        ) as client:
            yield client
    finally:
        listener.close()
        await listener.wait_closed()
