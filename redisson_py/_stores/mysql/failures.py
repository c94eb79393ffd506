"""What a failed query means: whether it may have been carried out, and what to do next."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from typing import final

from asyncmy.errors import InterfaceError, MySQLError

from redisson_py._stores.mysql import codes
from redisson_py._stores.mysql.sql import TABLE
from redisson_py._stores.verdicts import Verdict

#: The login was refused. The server's text tells the user's name.
_LOGIN = (1044, 1045, 1049, 1130, 1251, 1698, 1820, 1862, 2059, 3118, 4151)
#: A limit of the user; its text tells the name, and then the limit.
_USER_LIMITS = (1203, 1226)
#: A node without its cluster, and a server that an operator took out of service.
_AWAY = (1047, 3032)
#: Its text tells the user's name, and why in parentheses at its end.
_ABORTED = 1184
_NO_TABLE, _NO_COLUMN = 1146, 1054
#: A command on a table or a column.
_DENIED = (1142, 1143)
#: The name of a user in the server's texts may have quotes in it: nothing says where it ends.
_USER = re.compile(r"(\s+(to|for))?\s*\buser:?\s.*", re.IGNORECASE | re.DOTALL)
_MAKE_IT = "run the SQL that redisson_py.mysql.schema_sql() returns"


@final
@dataclass(slots=True)
class Progress:
    """How far a query got.

    Attributes:
        written: Whether it was written, in full or in part.
        done: How many of its statements were carried out for certain, but for one that looks.
    """

    written: bool = False
    done: int = 0


@final
@dataclass(frozen=True, slots=True)
class Failure:
    """A query that got no answer, or a refusal.

    Attributes:
        error: The driver's error, or `TimeoutError`.
        verdict: What it means: see `verdicts`.
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
    def breaks(self) -> bool:
        """Whether the connection is of no more use, or there was none."""
        return self.verdict in ("elsewhere", "lost")

    @property
    def text(self) -> str:
        """What went wrong, for people, without the user and the password."""
        match self.code:
            case 1045 | 1698:
                return "wrong user or password, or no login from this host (1045)"
            case 1044 | 1049:
                return f"the database does not exist, or this user may not use it ({self.code})"
            case code if code == _NO_TABLE:
                return f"{self._said} ({code}): {_MAKE_IT}"
            case code if code == _NO_COLUMN:
                return (
                    f"{self._said} ({code}): the table {TABLE} does not fit this version of"
                    f" redisson_py: if nothing is locked, drop it, and {_MAKE_IT}"
                )
            case code if code in _DENIED:
                return f"SELECT, INSERT and UPDATE on {TABLE} are needed ({code})"
            case code if code in _USER_LIMITS:
                limits = re.findall(r"'(max_\w+)'", str(self.error.args[1]))
                return f"the limit {limits[-1] if limits else 'of the user'} is reached ({code})"
            case code if self.verdict == "elsewhere" and code not in _AWAY:
                return f"it is read-only; connect to the primary server ({code})"
            case code if code in _LOGIN:
                return f"the login was refused ({code})"
            case code if code == _ABORTED:
                why = str(self.error.args[1]).rpartition("(")[2].rstrip(")")
                return f"it closed the connection: {why} ({code})"
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
        return Failure(error, "wrong" if refused else "lost", progress.written, unreached)
    if isinstance(error.__cause__, ssl.SSLCertVerificationError):
        return Failure(error, "wrong", False)
    if code == codes.NOT_WRITTEN or isinstance(error, InterfaceError):
        return Failure(error, "lost", progress.done > 0)
    verdict = codes.verdict_of(code) if code else "lost"
    if verdict == "lost":
        return Failure(error, verdict, progress.written, not progress.written)
    return Failure(error, verdict, progress.done > 0)


def _code(error: BaseException) -> int:
    first = error.args[0] if isinstance(error, MySQLError) and error.args else 0
    return first if isinstance(first, int) else 0
