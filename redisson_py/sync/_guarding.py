"""Binding a transaction of the user's to a lease, on a connection for threads.

The event loop says what to ask, and the thread asks on its own connection. Drivers differ in how
they say whether that is inside a transaction, so the server says it: a lock of a row gives its
transaction a number, which a second statement finds only in the same transaction.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from contextlib import closing
from typing import Any, Final

from redisson_py import BackendError, LeaseLostError
from redisson_py._stores.postgres.refusals import NO_TABLE_TO_GUARD
from redisson_py.sync._wrapping import Wrapper

_IN_TRANSACTION: Final = "SELECT 1 WHERE pg_catalog.txid_current_if_assigned() IS NOT NULL"
_PLACEHOLDER: Final = re.compile(r"\$(\d+)(?=::)")
_UNDEFINED_TABLE: Final = "42P01"


def guard_transaction(lease: Wrapper, connection: Any) -> None:
    """Keep others from being granted the lock of a lease until a transaction ends.

    Raises:
        LeaseLostError: The lease is gone.
        NotHeldError: It was released.
        RuntimeError: The connection is not inside a transaction.
        BackendError: It does not see the table of locks.
        TypeError: It is no connection for threads.
    """
    if (
        not callable(getattr(connection, "cursor", None))
        or hasattr(connection, "fetchrow")
        or inspect.iscoroutinefunction(getattr(connection, "execute", None))
    ):
        raise TypeError(
            "guard takes a connection of psycopg, psycopg2 or Django that is for threads, or"
            " SQLAlchemy's session.connection().connection, not"
            f" {type(connection).__module__}.{type(connection).__qualname__}"
        )
    asking = lease._call(_asking)
    if asking is None or not _guard(connection, *asking):
        raise lease._call(_refusal)


async def _asking(own: Any) -> tuple[str, tuple[object, ...]] | None:
    """Return the statement and its arguments; None if the hold is gone. In the event loop."""
    found = own._guarding()
    if found is None:
        return None
    store, name, token = found
    asking: tuple[str, tuple[object, ...]] = store.guarding(name, own.owner, token)
    return asking


async def _refusal(own: Any) -> LeaseLostError:
    """Note that the store does not have the hold; return the error. In the event loop."""
    refusal: LeaseLostError = own._not_guarded()
    return refusal


def _guard(connection: Any, statement: str, arguments: tuple[object, ...]) -> bool:
    order = [arguments[int(number) - 1] for number in _PLACEHOLDER.findall(statement)]
    # As DB-API has it: `%` in the name of a schema is no placeholder.
    asked = _PLACEHOLDER.sub("%s", statement.replace("%", "%%"))
    with closing(connection.cursor()) as cursor:
        if not _finds(lambda: cursor.execute(asked, order), cursor):
            return False
        if not _finds(lambda: cursor.execute(_IN_TRANSACTION), cursor):
            raise RuntimeError(
                "guard needs a transaction: call it inside `with connection.transaction():`, or in"
                " Django `with transaction.atomic():`, before anything that it must protect"
            )
    return True


def _finds(execute: Callable[[], object], cursor: Any) -> bool:
    """Return whether a statement brings a row."""
    try:
        execute()
        return cursor.fetchone() is not None
    except Exception as error:
        if _sqlstate(error) == _UNDEFINED_TABLE:
            raise BackendError(NO_TABLE_TO_GUARD) from error
        raise


def _sqlstate(error: BaseException) -> object:
    """Return the code of the server's error; Django's errors have the driver's as their cause."""
    for each in (error, error.__cause__):
        for name in ("sqlstate", "pgcode"):
            if code := getattr(each, name, None):
                return code
    return None
