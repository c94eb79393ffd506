"""What tests of the MySQL store share."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from redisson_py._stores.mysql import MySQLStore
from tests.stores.databases import Bell, running
from tests.stores.mysql.server import MariaDB


def started(url: str, bell: Bell | None = None) -> AbstractAsyncContextManager[MySQLStore]:
    return running(MySQLStore.from_url(url), bell)


async def count(server: MariaDB, status: str) -> int:
    """Return a counter of the server's."""
    rows = await server.sql(f"SHOW GLOBAL STATUS LIKE '{status}'")
    return int(rows[0][1])
