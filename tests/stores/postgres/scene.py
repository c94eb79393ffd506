"""What tests of the PostgreSQL store share: stores on a server, and raw looks at it."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import asyncpg

from redisson_py._stores.postgres import PostgresStore
from tests.stores.databases import Bell, running
from tests.support.waiting import until_async


def started(
    url: str, bell: Bell | None = None, **options: int
) -> AbstractAsyncContextManager[PostgresStore]:
    return running(PostgresStore.from_url(url, **options), bell)


@asynccontextmanager
async def connected(url: str) -> AsyncGenerator[Any]:
    """A plain connection, as a user has one."""
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def until_blocked(connection: Any, times: int = 1) -> None:
    """Wait until so many statements wait for a lock."""

    async def blocked() -> bool:
        found: int = await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        )
        return found >= times

    await until_async(blocked)


async def until_ended(connection: Any, name: str) -> None:
    """Wait until a lease has ended by the clock of the server."""
    query = "SELECT expires <= clock_timestamp() FROM redisson_py_locks WHERE id = $1"
    await until_async(lambda: connection.fetchval(query, id_of(name)))


async def row_of(connection: Any, name: str) -> Any:
    return await connection.fetchrow("SELECT * FROM redisson_py_locks WHERE id = $1", id_of(name))


def id_of(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()
