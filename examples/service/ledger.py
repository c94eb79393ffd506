"""What must be right: who paid which order, once. It trusts no lock, only the token of one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager


class AlreadyPaidError(Exception):
    """Raised when another request has paid the order."""


class StaleTokenError(Exception):
    """Raised when a newer holder of the order's lock has begun to pay it."""


class Ledger:
    """A table of orders in an SQLite file.

    An order has one row, which says who paid it. The row keeps the token of the newest holder of
    the order's lock, so only that holder can write that the order is paid.

    Its calls take about a millisecond, and they do not await: a request that is cancelled has made
    its entry, or has not.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        with self._transaction() as database:
            database.execute(
                "CREATE TABLE IF NOT EXISTS orders"
                " (id TEXT PRIMARY KEY, token INTEGER NOT NULL, paid_by TEXT)"
            )

    def begin(self, order: str, request: str, token: int) -> bool:
        """Record that the holder of this token begins to pay; False if this request has paid.

        Raises:
            AlreadyPaidError: Another request has paid the order.
            StaleTokenError: A newer holder has begun.
        """
        with self._transaction() as database:
            row = database.execute(
                "SELECT token, paid_by FROM orders WHERE id = ?", (order,)
            ).fetchone()
            newest, paid_by = row or (token, None)
            if paid_by is not None and paid_by != request:
                raise AlreadyPaidError(order)
            if token < newest:
                raise StaleTokenError(f"{order}: {token} is older than {newest}")
            database.execute(
                "INSERT INTO orders VALUES (?, ?, NULL)"
                " ON CONFLICT (id) DO UPDATE SET token = excluded.token",
                (order, token),
            )
            return paid_by is None

    def enter(self, order: str, request: str, token: int) -> None:
        """Record that this request has paid the order.

        Raises:
            StaleTokenError: A newer holder has begun.
        """
        with self._transaction() as database:
            entered = database.execute(
                "UPDATE orders SET paid_by = ? WHERE id = ? AND token = ? AND paid_by IS NULL",
                (request, order, token),
            )
            if entered.rowcount == 0:
                raise StaleTokenError(f"{order}: there is a newer token than {token}")

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
