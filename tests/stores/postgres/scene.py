"""What tests of the PostgreSQL store share: a bell that remembers, stores, and raw looks."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from redisson_py._stores.contract import Busy, Granted, Renewal, Wish
from redisson_py._stores.postgres import PostgresStore
from redisson_py._time import now


class Bell:
    """Remembers what rang."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.all = 0
        self._rang = asyncio.Event()

    def ring(self, name: str, owner: str | None = None) -> None:
        self.names.append(name)
        self._rang.set()

    def ring_all(self) -> None:
        self.all += 1
        self._rang.set()

    async def wait(self, patience: float = 20.0) -> None:
        """Return when it has rung since the last wait."""
        async with asyncio.timeout(patience):
            await self._rang.wait()
        self._rang.clear()


def soon(seconds: float = 30.0) -> float:
    """Return a deadline: without another one, only to end a test that hangs."""
    return now() + seconds


def wish(
    name: str,
    owner: str,
    lease: float = 30.0,
    waits: bool = False,
    tokens: int = 1,
) -> Wish:
    return Wish(name, owner, lease, renewed=True, waits=waits, tokens=tokens)


def renewal(name: str, owner: str, token: int, lease: float, exact: bool = False) -> Renewal:
    return Renewal(name, owner, token, lease, exact)


@asynccontextmanager
async def started(
    url: str, bell: Bell | None = None, **options: int
) -> AsyncIterator[PostgresStore]:
    store = PostgresStore.from_url(url, **options)
    await store.start(bell or Bell(), soon())
    try:
        yield store
    finally:
        await store.stop()


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Any]:
    """A plain connection, as a user has one."""
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def granted(
    store: PostgresStore, name: str, owner: str, lease: float = 30.0, waits: bool = False
) -> Granted:
    answer = await store.ask(wish(name, owner, lease, waits), soon())
    assert isinstance(answer, Granted)
    return answer


async def busy(
    store: PostgresStore, name: str, owner: str, lease: float = 30.0, waits: bool = False
) -> float:
    answer = await store.ask(wish(name, owner, lease, waits), soon())
    assert isinstance(answer, Busy)
    assert answer.retry_in is not None
    return answer.retry_in


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until a condition is true."""
    async with asyncio.timeout(60):
        while not await condition():
            await asyncio.sleep(0.01)


async def until_blocked(connection: Any, times: int = 1) -> None:
    """Wait until so many statements wait for a lock."""

    async def blocked() -> bool:
        found: int = await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        )
        return found >= times

    await until(blocked)


async def until_over(connection: Any, name: str) -> None:
    """Wait until a lease has ended by the clock of the server."""

    async def over() -> bool:
        return bool(
            await connection.fetchval(
                "SELECT expires <= clock_timestamp() FROM redisson_py_locks WHERE id = $1",
                id_of(name),
            )
        )

    await until(over)


async def row_of(connection: Any, name: str) -> Any:
    return await connection.fetchrow("SELECT * FROM redisson_py_locks WHERE id = $1", id_of(name))


def id_of(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()
