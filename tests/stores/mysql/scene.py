"""What tests of the MySQL store share: stores on the session's server, and a bell that counts."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from redisson_py import _time
from redisson_py._stores.contract import Busy, Granted, Wish
from redisson_py._stores.mysql import MySQLStore
from redisson_py.testing import FaultProxy
from tests.stores.mysql.server import MariaDB

_numbers = itertools.count()


class CountingBell:
    def __init__(self) -> None:
        self.rung: list[str] = []
        self.all_rung = 0

    def ring(self, name: str, owner: str | None = None) -> None:
        self.rung.append(name)

    def ring_all(self) -> None:
        self.all_rung += 1


def owner() -> str:
    """Return an owner that nobody was before."""
    return f"0b5a6d1e-52a7-4bb1-9a6f-3a2c1d4e5f60:{next(_numbers)}"


def new_name() -> str:
    return f"name {next(_numbers)}"


def soon(seconds: float = 10.0) -> float:
    """Return a deadline."""
    return _time.now() + seconds


def wish(name: str, who: str, lease: float = 30.0, waits: bool = False, tokens: int = 1) -> Wish:
    return Wish(name, who, lease, True, waits, tokens)


@asynccontextmanager
async def started(url: str, bell: CountingBell | None = None) -> AsyncIterator[MySQLStore]:
    """Start a store for the time of a block."""
    store = MySQLStore.from_url(url)
    await store.start(bell or CountingBell(), soon())
    try:
        yield store
    finally:
        await store.stop()
        await asyncio.sleep(0)


async def granted(
    store: MySQLStore, name: str, who: str, lease: float = 30.0, tokens: int = 1
) -> Granted:
    answer = await store.ask(wish(name, who, lease, tokens=tokens), soon())
    assert isinstance(answer, Granted)
    return answer


async def busy(store: MySQLStore, name: str, who: str, waits: bool = False) -> Busy:
    answer = await store.ask(wish(name, who, waits=waits), soon())
    assert isinstance(answer, Busy)
    return answer


async def holder(store: MySQLStore, name: str) -> str | None:
    state = await store.look(name, soon())
    return None if state.holder is None else state.holder.owner


@asynccontextmanager
async def proxied(server: MariaDB) -> AsyncIterator[FaultProxy]:
    """Give a proxy in front of the server that never takes bytes of MySQL for RESP."""
    proxy = FaultProxy("127.0.0.1", server.port)
    accept = proxy._accept

    def accept_raw(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accept(reader, writer)
        for link in proxy._links:
            link._raw = True

    proxy._accept = accept_raw  # type: ignore[method-assign]
    async with proxy:
        yield proxy


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until a condition of the server's is true."""
    async with asyncio.timeout(60):
        while not await condition():
            await asyncio.sleep(0.01)


async def count(server: MariaDB, status: str) -> int:
    """Return a counter of the server's."""
    rows = await server.sql(f"SHOW GLOBAL STATUS LIKE '{status}'")
    return int(rows[0][1])
