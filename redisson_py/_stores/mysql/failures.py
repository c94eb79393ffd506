"""What a failed query means: whether it may have been carried out, and what to do next."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from typing import Literal, final

from asyncmy.errors import InterfaceError, MySQLError

from redisson_py._stores.mysql.sql import TABLE

Verdict = Literal["again", "reconnect", "refused"]

#: Undone by the server, which will take it again: a deadlock, a row or a table locked for too long
#: (an `ALTER TABLE`), a row that another transaction has changed, also on another node.
_UNDONE = (1213, 1205, 1020, 3101)
#: Not carried out by this server now; maybe soon, or by the one that answers to its address then:
#: too many connections, a limit of the user, a node that left its Galera cluster, a server that is
#: read-only.
READ_ONLY = (1290, 1836, 1792)
_USER_LIMITS = (1203, 1226)
_NOT_NOW = (1040, *_USER_LIMITS, 1047, *READ_ONLY)
#: The connection was gone before the query was written.
_NOT_WRITTEN = (2006,)
#: By the driver: no connection, one that ended, an answer to something else.
_LOST = (2003, 2013, 2014)
#: The connection ended, or the server ended the query, before there was an answer.
_UNKNOWN = (1053, 1152, 1158, 1159, 1160, 1161, 1180, 1184, 1317, 1927, 1969, 3024, 4031, *_LOST)
#: The login was refused. The server's text tells the user's name.
_LOGIN = (1044, 1045, 1049, 1130, 1251, 1698, 1820, 1862, 2059)
_NO_TABLE, _NO_COLUMN = 1146, 1054
#: A command on a table or a column.
_DENIED = (1142, 1143)
#: A user in the server's texts, with or without a host.
_USER = re.compile(r"( to)? user:? '.*?'(@'[^']*')?", re.IGNORECASE)
_MAKE_IT = "run the SQL that redisson_py.mysql.schema_sql() returns"


@final
@dataclass(slots=True)
class Progress:
    """How far a query got.

    Attributes:
        written: Whether it was written, in full or in part.
        done: How many of its statements were carried out for certain.
    """

    written: bool = False
    done: int = 0


@final
@dataclass(frozen=True, slots=True)
class Failure:
    """A query that got no answer, or a refusal.

    Attributes:
        error: The driver's error, or `TimeoutError`.
        verdict: Whether to send it again, on this connection or on a new one, or not at all.
        maybe_done: Whether some of it may have been carried out, now or later.
        unreached: No connection could be made.
    """

    error: Exception
    verdict: Verdict
    maybe_done: bool
    unreached: bool = False

    @property
    def code(self) -> int:
        """The number of the error; 0 if it has none."""
        return _code(self.error)

    @property
    def read_only(self) -> bool:
        """Whether the server takes no writes."""
        return self.code in READ_ONLY

    @property
    def text(self) -> str:
        """What went wrong, for people, without the user and the password."""
        match self.code:
            case 1045 | 1698:
                return "wrong user or password, or no login from this host (1045)"
            case 1044 | 1049:
                return f"the database is not there, or not for this user ({self.code})"
            case code if code == _NO_TABLE:
                return f"{self._said} ({code}): {_MAKE_IT}"
            case code if code == _NO_COLUMN:
                return (
                    f"{self._said} ({code}): the table {TABLE} is not the one that this version"
                    f" of redisson_py needs: if nothing is locked, drop it, and {_MAKE_IT}"
                )
            case code if code in _DENIED:
                return f"{self._said} ({code}): SELECT, INSERT and UPDATE on {TABLE} are needed"
            case code if code in _USER_LIMITS:
                limit = re.search(r"'(max_\w+)'", self._said)
                return f"the limit {limit[1] if limit else 'of the user'} is reached ({code})"
            case code if code in _LOGIN:
                return f"the login was refused ({code})"
            case 0 if isinstance(self.error, TimeoutError):
                return "no answer in time"
            case 0:
                return f"{type(self.error).__name__}: {self.error}"
            case code:
                return f"{self._said} ({code})"

    @property
    def _said(self) -> str:
        """What the server said, without the user."""
        return _USER.sub("", str(self.error.args[1]))


def failure_of(error: Exception, progress: Progress) -> Failure:
    """Return what the error of a query means."""
    code = _code(error)
    if not isinstance(error, MySQLError):
        # A package that a login needs. On uvloop the driver raises another RuntimeError where a
        # connection was closed while it was made.
        missing = isinstance(error, RuntimeError) and "package" in str(error)
        refused = missing and not progress.written
        unreached = not (refused or progress.written)
        return Failure(error, "refused" if refused else "reconnect", progress.written, unreached)
    if isinstance(error.__cause__, ssl.SSLCertVerificationError):
        return Failure(error, "refused", False)
    if code in _UNDONE:
        return Failure(error, "again", progress.done > 0)
    if code in _NOT_NOW:
        return Failure(error, "reconnect", progress.done > 0)
    if code in _NOT_WRITTEN or isinstance(error, InterfaceError):
        return Failure(error, "reconnect", progress.done > 0)
    if code in _UNKNOWN or code == 0:
        return Failure(error, "reconnect", progress.written, not progress.written)
    return Failure(error, "refused", progress.done > 0)


def _code(error: BaseException) -> int:
    first = error.args[0] if isinstance(error, MySQLError) and error.args else 0
    return first if isinstance(first, int) else 0
