"""What an error of asyncpg means to a caller: by its SQLSTATE, if it is the server's."""

from __future__ import annotations

import ssl
from typing import Final

from asyncpg import exceptions

from redisson_py._stores.postgres import codes
from redisson_py._stores.postgres.once import TABLE as ONCE_TABLE
from redisson_py._stores.postgres.shared_sql import SHARED_TABLE
from redisson_py._stores.postgres.sql import TABLE
from redisson_py._stores.verdicts import Verdict
from redisson_py.errors import BackendError, UnsupportedServerError

#: No answer, or asyncpg's own words for a connection that is closed or out of step.
_LOST: Final = (
    OSError,  # also TimeoutError
    EOFError,
    exceptions.InternalClientError,
    exceptions.InterfaceError,
)
_CREDENTIALS: Final = (
    exceptions.InvalidAuthorizationSpecificationError,
    exceptions.InvalidPasswordError,
)
_POOLED: Final = (
    exceptions.InvalidSQLStatementNameError,
    exceptions.DuplicatePreparedStatementError,
)
#: Our tables, that of locks last, with the function that returns what makes them.
_SQL_OF: Final = {SHARED_TABLE: "schema_sql", ONCE_TABLE: "once_schema_sql", TABLE: "schema_sql"}
#: PgBouncer has one code for its own errors, 08P01; of these texts nothing passes.
_PARAMETER: Final = "unsupported startup parameter"
_UNKNOWN: Final = ("no such database", "no such user", "bouncer config error")


def verdict_of(error: BaseException) -> Verdict:
    """Return what to do about an error."""
    if isinstance(error, exceptions.PostgresError):
        if isinstance(error, exceptions.ProtocolViolationError) and str(error).startswith(
            (_PARAMETER, *_UNKNOWN)
        ):
            return "wrong"
        return codes.verdict_of(_code(error))
    if isinstance(error, exceptions.ClientConfigurationError | ssl.SSLCertVerificationError):
        return "wrong"
    return "lost" if isinstance(error, _LOST) else "wrong"


def spoils_bell(error: BaseException) -> bool:
    """Return whether a statement may have failed because of its NOTIFY alone.

    The queue is full, its files cannot be written, or the role may not use it.
    """
    return isinstance(error, exceptions.PostgresError) and _code(error).startswith(
        ("42501", "53", "54", "58")
    )


def refusal(error: BaseException, where: str) -> BackendError:
    """Return the error for the caller, in one line. It says nothing of the URL but the address."""
    kind = UnsupportedServerError if _is_other_table(error) else BackendError
    return kind(f"PostgreSQL at {where}: {reason(error)}")


def reason(error: BaseException) -> str:
    """Return what PostgreSQL said, in one line, without the user and the password."""
    if isinstance(error, _CREDENTIALS):
        return "it rejects the user or the password"
    if isinstance(error, exceptions.TooManyConnectionsError):
        return (
            "it has no connection left for this role or database: raise the limit, or lower"
            " `connections`"
        )
    if isinstance(error, exceptions.InvalidCatalogNameError):
        return "the database does not exist"
    if isinstance(error, exceptions.ClientConfigurationError):
        return "asyncpg rejects the settings of the connection"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate was rejected: {error.verify_message}"
    if isinstance(error, exceptions.UndefinedTableError):
        table = _table_of(error)
        return f"the table {table} does not exist: {_make(table)}"
    if _is_other_table(error):
        table = _table_of(error)
        return (
            f"the table {table} does not fit this version of redisson_py: if nothing is"
            f" locked, drop it, and {_make(table)}"
        )
    if isinstance(error, _POOLED):
        return (
            "a pooler in front of it does not keep prepared statements: pass statement_cache_size=0"
        )
    if isinstance(error, exceptions.ProtocolViolationError):
        return _reason_of_pooler(_as_one_row(error))
    if not isinstance(error, exceptions.PostgresError):
        return type(error).__name__
    said = _as_one_row(error)
    if isinstance(error, exceptions.InsufficientPrivilegeError) and _names_a_table(said):
        return f"{said}. The role needs SELECT, INSERT and UPDATE on the table {_table_of(error)}"
    return f"{said} ({_code(error)})"


def _reason_of_pooler(said: str) -> str:
    if said.startswith(_PARAMETER):
        return (
            f"a pooler in front of it rejects an argument of the URL: {said}. Set it for the role"
            " instead (ALTER ROLE ... SET ...)"
        )
    if said.startswith(_UNKNOWN):
        return "a pooler in front of it does not know the database or the user"
    return f"{said.partition(' for user ')[0]} (08P01)"


def _names_a_table(said: str) -> bool:
    return any(each in said for each in _SQL_OF)


def _table_of(error: BaseException) -> str:
    """Return the table that an error is about; one about a column does not always say which."""
    texts = str(error), str(getattr(error, "query", None) or "")
    return next((each for text in texts for each in _SQL_OF if each in text), TABLE)


def _make(table: str) -> str:
    return f"run the SQL that redisson_py.postgres.{_SQL_OF[table]}() returns"


def _is_other_table(error: BaseException) -> bool:
    return isinstance(error, exceptions.UndefinedColumnError)


def _code(error: exceptions.PostgresError) -> str:
    return str(getattr(error, "sqlstate", None) or "XX000")


def _as_one_row(error: BaseException) -> str:
    """Return what PostgreSQL said, with its details and hints."""
    return " ".join(str(error).split())
