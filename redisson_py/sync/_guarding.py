"""Binding a transaction of the user's to a lease, on a connection for threads.

The event loop says what to ask, and the thread asks on its own connection. Drivers differ in how
they say whether that is inside a transaction, so the server says it: a lock of a row gives its
transaction a number, which a second statement finds only in the same transaction. What records
something comes behind that, or it would be committed where there is no transaction.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, Final, cast

from redisson_py import BackendError, LeaseLostError, OnceLease
from redisson_py.locks.once import Statement, recorded_in
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
    _check_connection(connection, "guard")
    asking = lease._call(_asking)
    if asking is None or _ask(connection, [asking], "guard") is None:
        raise lease._call(_refusal)


async def _asking(own: Any) -> Statement | None:
    """Return the statement and its arguments; None if the hold is gone. In the event loop."""
    found = own._guarding()
    if found is None:
        return None
    store, name, token = found
    asking: Statement = store.guarding(name, own.owner, token)
    return asking


async def _refusal(own: Any) -> LeaseLostError:
    """Note that the store does not have the hold; return the error. In the event loop."""
    refusal: LeaseLostError = own._not_guarded()
    return refusal


def complete(once: Wrapper, result: str | bytes, connection: Any) -> None:
    """Record that something is done: in a step of its own, or in a transaction of the user's.

    Args:
        once: A `OnceLease`, or a `Once` that the current thread has entered.
        result: The result.
        connection: As for `guard_transaction`; None: no transaction of the user's.
    """
    if connection is None:
        once._call(lambda own: own.complete(result))
        return
    statements = once._call(lambda own: _recording(own, result))
    _check_connection(connection, "complete")
    row = _ask(connection, statements, "complete")
    if row is None:
        raise once._call(_not_recorded)
    once._call(lambda own: _recorded(own, row, result))


async def entered(own: Any) -> OnceLease:
    """Return what the current thread has entered. In the event loop."""
    return cast("OnceLease", own if isinstance(own, OnceLease) else own._of_task())


async def _recording(own: Any, result: str | bytes) -> Sequence[Statement]:
    return (await entered(own))._recording(result)


async def _not_recorded(own: Any) -> LeaseLostError:
    return (await entered(own))._not_recorded()


async def _recorded(own: Any, row: Sequence[Any], result: str | bytes) -> None:
    lease = await entered(own)
    lease._recorded(recorded_in(row, result), in_transaction=True)
    lease._check_recorded(result)


def _check_connection(connection: Any, call: str) -> None:
    """Refuse what is no connection for threads.

    Raises:
        TypeError: It is none.
    """
    if (
        not callable(getattr(connection, "cursor", None))
        or hasattr(connection, "fetchrow")
        or inspect.iscoroutinefunction(getattr(connection, "execute", None))
    ):
        raise TypeError(
            f"{call} takes a connection of psycopg, psycopg2 or Django that is for threads, or"
            " SQLAlchemy's session.connection().connection, not"
            f" {type(connection).__module__}.{type(connection).__qualname__}"
        )


def _ask(connection: Any, statements: Sequence[Statement], call: str) -> Sequence[Any] | None:
    """Return the row of the last statement, or None if one of them brings none.

    The first one locks a row, and changes nothing.
    """
    with closing(connection.cursor()) as cursor:
        first, *others = statements
        row = _find(cursor, *_for_driver(*first), call=call)
        if row is None:
            return None
        if _find(cursor, _IN_TRANSACTION, call=call) is None:
            raise RuntimeError(
                f"{call} needs a transaction: call it inside `with connection.transaction():`, or"
                " in Django `with transaction.atomic():`, before anything that it must protect"
            )
        for each in others:
            row = _find(cursor, *_for_driver(*each), call=call)
            if row is None:
                return None
        return row


def _for_driver(statement: str, arguments: tuple[object, ...]) -> tuple[str, list[object]]:
    """Return a statement as DB-API has it, and its arguments in the order of the placeholders."""
    order = [arguments[int(number) - 1] for number in _PLACEHOLDER.findall(statement)]
    # `%` in the name of a schema is no placeholder.
    return _PLACEHOLDER.sub("%s", statement.replace("%", "%%")), order


def _find(cursor: Any, *asked: object, call: str) -> Sequence[Any] | None:
    """Return the values of the row that a statement brings, if it does."""
    try:
        cursor.execute(*asked)
        row = cursor.fetchone()
    except Exception as error:
        if _sqlstate(error) == _UNDEFINED_TABLE:
            # Not above: its package needs the extra `postgres`, which then is there.
            from redisson_py._stores.postgres.sql import no_table_for

            raise BackendError(no_table_for(call)) from error
        raise
    # Of a connection whose rows are dictionaries too.
    return tuple(row.values()) if isinstance(row, Mapping) else row


def _sqlstate(error: BaseException) -> object:
    """Return the code of the server's error; Django's errors have the driver's as their cause."""
    for each in (error, error.__cause__):
        for name in ("sqlstate", "pgcode"):
            if code := getattr(each, name, None):
                return code
    return None
