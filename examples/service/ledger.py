"""What must be right: who paid what, once. It trusts nobody's lock, only its token."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager


class StaleTokenError(Exception):
    """Raised when a newer holder of the lock has made an entry already."""


class Ledger:
    """A table of payments in an SQLite file.

    Its calls take about a millisecond, and they do not await: a request that is cancelled has made
    its entry, or has not.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        with self._transaction() as database:
            database.execute(
                "CREATE TABLE IF NOT EXISTS payments"
                " (request TEXT PRIMARY KEY, account TEXT, token INTEGER)"
            )

    def enter(self, request: str, account: str, token: int) -> None:
        """Enter a payment, once for each request.

        Raises:
            StaleTokenError: The lock has had a newer holder.
        """
        with self._transaction() as database:
            newest = database.execute(
                "SELECT max(token) FROM payments WHERE account = ?", (account,)
            ).fetchone()[0]
            if newest is not None and token < newest:
                raise StaleTokenError(f"{account}: {token} is older than {newest}")
            database.execute(
                "INSERT INTO payments VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                (request, account, token),
            )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        # Not kept: a process that forks must not share a connection with its children.
        with closing(sqlite3.connect(self._path, timeout=5, isolation_level=None)) as database:
            database.execute("BEGIN IMMEDIATE")
            try:
                yield database
            except BaseException:
                database.execute("ROLLBACK")
                raise
            database.execute("COMMIT")
