"""Frees a row, and rings for those that wait: with its bell, or else without.

The bell is in the statement that frees the row, so that it costs no round trip. PostgreSQL refuses
both if it takes no notification: any user can fill the queue for them, and so does a session that
listens and stays in a transaction. Then the row is freed without: those that wait ask again by
themselves (`listening`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, final

import asyncpg

from redisson_py._stores.postgres import sql
from redisson_py._stores.postgres.connections import Answer, Connections
from redisson_py._stores.postgres.refusals import reason, spoils_bell

log = logging.getLogger("redisson_py")


@final
class Freeing:
    """Frees rows of one table.

    Args:
        connections: To the database.
        where: The address for people.
    """

    def __init__(self, connections: Connections, where: str) -> None:
        self._connections: Final = connections
        self._where: Final = where
        #: The last release rang no bell, and that was logged.
        self._silent = False

    async def free(self, statement: str, arguments: Sequence[object], deadline: float) -> Answer:
        """Return the rows of a statement that frees a row; see `Connections.run`."""

        async def free(connection: asyncpg.Connection) -> Any:
            try:
                rows = await connection.fetch(statement, *arguments)
            except asyncpg.PostgresError as error:
                if not spoils_bell(error):
                    raise
                rows = await connection.fetch(sql.without_bell(statement), *arguments)
                self._tell(error)
                with suppress(asyncpg.PostgresError):
                    await connection.execute(sql.IS_CROWDED)
            else:
                self._silent = self._silent and not any(row.get("rang") for row in rows)
            return rows

        return await self._connections.run(free, deadline)

    def _tell(self, error: asyncpg.PostgresError) -> None:
        if not self._silent:
            log.warning(
                "PostgreSQL at %s refuses NOTIFY: %s; releases work without it, and waiters poll",
                self._where,
                reason(error),
            )
        self._silent = True
