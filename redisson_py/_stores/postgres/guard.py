"""A lease that a transaction of the user's is bound to."""

from __future__ import annotations

import hashlib
from typing import Any

import asyncpg

from redisson_py._stores.postgres.sql import TABLE
from redisson_py.errors import BackendError


async def guard(connection: Any, statement: str, name: str, owner: str, token: int) -> bool:
    """Keep others from being granted a hold until the user's transaction ends.

    It locks the row of the hold FOR KEY SHARE: renewals and the release pass, a grant to another
    owner does not, even if the lease runs out meanwhile. So what the transaction writes is written
    under the hold, without a look at fencing tokens.

    Errors of the driver are the user's, as the transaction is: in one with REPEATABLE READ or
    SERIALIZABLE it may be a serialization failure, after which the transaction must be repeated.

    Args:
        connection: An asyncpg connection inside a transaction, to the database of the locks.
        statement: `sql.GUARD` about the table of the locks.
        name: The name.
        owner: The owner of the hold.
        token: The first of its fencing tokens.

    Returns:
        Whether the hold is still there. If not, nothing is locked.

    Raises:
        RuntimeError: The connection is not inside a transaction.
        BackendError: The database of the connection has no table of these locks.
    """
    if not connection.is_in_transaction():
        raise RuntimeError(
            "guard needs a transaction: call it inside `async with connection.transaction():`,"
            " before anything that it must protect"
        )
    digest = hashlib.sha256(name.encode()).digest()
    try:
        row = await connection.fetchrow(statement, digest, owner, token)
    except asyncpg.UndefinedTableError as error:
        raise BackendError(
            f"the database of this transaction has no table {TABLE}: guard works only in the"
            " database that keeps the locks"
        ) from error
    return row is not None
