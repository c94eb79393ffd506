"""Finds the tables, or makes them: that of locks is found, and the others are beside it.

Those are what several may hold at once, and what is done once. Clients of older versions know only
the first. So each of the others is made when it is first needed.
"""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass
from functools import cache
from typing import Final

import asyncpg

from redisson_py._stores.postgres import once, shared_sql, sql
from redisson_py._stores.postgres.connections import Connections
from redisson_py.errors import BackendError


def id_of(name: str) -> bytes:
    """Return the key of the row of a name."""
    return hashlib.sha256(name.encode()).digest()


def shared_id_of(kind: str, name: str) -> bytes:
    """Return the key of the row of a read-write lock or a semaphore."""
    return hashlib.sha256(f"{kind}\0{name}".encode()).digest()


@dataclass(frozen=True, slots=True)
class Table:
    """A table of ours.

    Attributes:
        name: Its name.
        create: The SQL that makes it, and says what it is.
        check: The SQL that fails if it is missing, is another one, or must not be read.
    """

    name: str
    create: str
    check: str


LOCKS: Final = Table(sql.TABLE, sql.locks_sql(), sql.CHECK)
SHARED: Final = Table(shared_sql.SHARED_TABLE, shared_sql.CREATE, shared_sql.CHECK)
ONCE: Final = Table(once.TABLE, once.CREATE, once.CHECK)


def _quoted(schema: str) -> str:
    return '"{}"'.format(schema.replace('"', '""'))


@cache
def in_schema(statement: str, schema: str) -> str:
    """Return a statement as one about the tables of a schema."""
    for table in (LOCKS, SHARED, ONCE):
        statement = statement.replace(table.name, f"{_quoted(schema)}.{table.name}")
    return statement


async def prepare_beside(
    connections: Connections, schema: str, where: str, deadline: float, table: Table
) -> None:
    """Find a table in the schema of that of locks, or make it; errors as for `prepare_table`."""
    await prepare_table(connections, _quoted(schema), where, deadline, table)


async def prepare_table(
    connections: Connections,
    search_path: str | None,
    where: str,
    deadline: float,
    table: Table = LOCKS,
) -> str:
    """Return the schema of a table, the first one of that name along the search_path.

    Args:
        connections: To the database.
        search_path: The one that the URL has; None: that of the role.
        where: The address for people.
        deadline: When to give up.
        table: Which one.

    Raises:
        BackendError: There is none, and the role may not make it; or it is not to be trusted.
        ConnectionLostError: The server did not answer.
    """
    answer = await connections.fetch(sql.LOCATE, (search_path, table.name), deadline)
    path = answer.value
    if not path:
        raise BackendError(
            f"PostgreSQL at {where}: no schema of the search_path exists that this role may use"
        )
    found = next((each for each in path if each["there"]), None)
    if found is None:
        schema: str = path[0]["schema"]
        await _make(connections, schema, where, deadline, table)
    else:
        schema = found["schema"]
        if not found["trusted"]:
            raise BackendError(
                f"PostgreSQL at {where}: everybody may create objects in the schema {schema!r}, and"
                f" the role {found['owner']!r} owns the table {table.name} there: it could run code"
                " as this role. Give the table to the owner of the schema or of the database"
                " (ALTER TABLE ... OWNER TO ...), or put it into a schema of its own"
            )
    await connections.fetch(in_schema(table.check, schema), (), deadline)
    return schema


async def prepare_for_elections(
    connections: Connections, schema: str, where: str, deadline: float
) -> None:
    """Give a table that was made before there were elections what they need.

    Raises:
        BackendError: The role may not.
        ConnectionLostError: The server did not answer.
    """
    try:
        await connections.fetch(in_schema(sql.CHECK_VALUE, schema), (), deadline)
    except BackendError as error:
        if not isinstance(error.__cause__, asyncpg.UndefinedColumnError):
            raise
    else:
        return

    async def add(connection: asyncpg.Connection) -> None:
        await connection.execute(in_schema(sql.ADD_VALUE, schema))

    try:
        await connections.run(add, deadline)
    except BackendError as error:
        if not isinstance(error.__cause__, asyncpg.InsufficientPrivilegeError):
            raise
        raise BackendError(
            f"PostgreSQL at {where}: the table {sql.TABLE} was made before there were elections,"
            f" and this role may not change it. Run as its owner: {sql.add_value_sql()}"
        ) from error.__cause__


async def _make(
    connections: Connections, schema: str, where: str, deadline: float, table: Table
) -> None:
    async def create(connection: asyncpg.Connection) -> None:
        # Another client may create it at this moment: that is as good, and said in four ways.
        with contextlib.suppress(
            asyncpg.DuplicateTableError,
            asyncpg.DuplicateObjectError,
            asyncpg.UniqueViolationError,
            asyncpg.InternalServerError,
        ):
            await connection.execute(in_schema(table.create, schema))

    try:
        await connections.run(create, deadline)
    except BackendError as error:
        if not isinstance(error.__cause__, asyncpg.InsufficientPrivilegeError):
            raise
        raise BackendError(
            f"PostgreSQL at {where}: this role may not create the table {table.name} in the schema"
            f" {schema!r}. Run there as one that may, and grant SELECT, INSERT and UPDATE on it:\n"
            f"{table.create}"
        ) from error.__cause__
