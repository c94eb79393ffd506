"""What an error of asyncpg means to a caller."""

from __future__ import annotations

import ssl
from typing import Final, Literal

from asyncpg import exceptions

from redisson_py._stores.postgres.sql import TABLE
from redisson_py.errors import BackendError, UnsupportedServerError

#: "lost": no answer, a new connection may help. "again": refused for this moment only, and nothing
#: was changed. "refused": for good.
Kind = Literal["lost", "again", "refused"]

_LOST: Final = (
    OSError,  # also TimeoutError
    EOFError,
    exceptions.PostgresConnectionError,
    exceptions.AdminShutdownError,
    exceptions.CrashShutdownError,
    exceptions.CannotConnectNowError,
    exceptions.InternalClientError,
    exceptions.TargetServerAttributeNotMatched,
)
_AGAIN: Final = (
    exceptions.SerializationError,
    exceptions.DeadlockDetectedError,
    exceptions.QueryCanceledError,
    exceptions.TooManyConnectionsError,
    # A `lock_timeout` of the role, while somebody has locked the row or the table.
    exceptions.LockNotAvailableError,
    # A server that has just become a standby, until the primary is found.
    exceptions.ReadOnlySQLTransactionError,
)
_CREDENTIALS: Final = (
    exceptions.InvalidAuthorizationSpecificationError,
    exceptions.InvalidPasswordError,
)
_POOLED: Final = (
    exceptions.InvalidSQLStatementNameError,
    exceptions.DuplicatePreparedStatementError,
)
_MAKE_IT: Final = "run the SQL that redisson_py.postgres.schema_sql() returns"


def kind_of(error: BaseException) -> Kind:
    """Return what to do about an error."""
    if isinstance(error, _AGAIN):
        return "again"
    if isinstance(error, exceptions.ClientConfigurationError | ssl.SSLCertVerificationError):
        return "refused"
    # asyncpg's own errors are about a connection that is closed or out of step.
    if isinstance(error, (*_LOST, exceptions.InterfaceError)):
        return "lost"
    return "refused"


def is_read_only(error: BaseException | None) -> bool:
    """Return whether the server takes no writes."""
    return isinstance(error, exceptions.ReadOnlySQLTransactionError)


def refusal(error: BaseException, where: str) -> BackendError:
    """Return the error for the caller, in one line. It says nothing of the URL but the address."""
    at = f"PostgreSQL at {where}"
    if isinstance(error, _CREDENTIALS):
        return BackendError(f"{at} refuses the user or the password")
    if isinstance(error, exceptions.TooManyConnectionsError):
        return BackendError(
            f"{at} has no connection left, or its role or database has none: raise the limit, or"
            " lower `connections`"
        )
    if isinstance(error, exceptions.InvalidCatalogNameError):
        return BackendError(f"{at} has no database of that name")
    if isinstance(error, exceptions.ClientConfigurationError):
        return BackendError(f"asyncpg refuses the settings of the connection to {where}")
    if isinstance(error, ssl.SSLCertVerificationError):
        return BackendError(f"the certificate of {at} is refused: {error.verify_message}")
    if isinstance(error, exceptions.UndefinedTableError):
        return BackendError(f"{at} has no table {TABLE} (any more): {_MAKE_IT}")
    if isinstance(error, exceptions.UndefinedColumnError):
        return UnsupportedServerError(
            f"the table {TABLE} of {at} is not the one that this version of redisson_py needs: if"
            f" nothing is locked, drop it, and {_MAKE_IT}"
        )
    if isinstance(error, _POOLED):
        return BackendError(
            f"a pooler in front of {at} does not keep prepared statements: pass"
            " statement_cache_size=0"
        )
    if isinstance(error, exceptions.InsufficientPrivilegeError):
        return BackendError(
            f"{at}: {_in_one_line(error)}. The role needs SELECT, INSERT and UPDATE on the table"
            f" {TABLE}"
        )
    if isinstance(error, exceptions.PostgresError):
        code = getattr(error, "sqlstate", None)
        return BackendError(f"{at}: {_in_one_line(error)} ({code})")
    return BackendError(f"{at}: {type(error).__name__}")


def _in_one_line(error: BaseException) -> str:
    """Return what PostgreSQL said, with its details and hints."""
    return " ".join(str(error).split())
