"""Connections to the server: a few, each used by one query at a time.

A connection on which anything went wrong is broken off (RST), so that nobody reads the answer to
another query, and as little as possible reaches the server late. The driver's own pool would wait
without end on a connection whose peer is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import asyncmy
from asyncmy.errors import MySQLError

from redisson_py import _time
from redisson_py._forks import first_tls
from redisson_py._loop import is_closed, tear_off_transport
from redisson_py._stores.last_failure import LastFailure
from redisson_py._stores.mysql import sql
from redisson_py._stores.mysql.address import Target
from redisson_py._stores.mysql.failures import Failure, Progress, failure_of
from redisson_py._stores.request_limit import RequestLimit
from redisson_py.errors import BackendError

_LINGER_NOT: Final = struct.pack("ii", 1, 0)
#: Seconds before a query is sent again: the first pause and the longest.
_FIRST_PAUSE: Final = 0.01
_LONGEST_PAUSE: Final = 0.5
#: Seconds that an attempt gets even if half of what is left is less.
_SHORTEST_ATTEMPT: Final = 0.5
#: Seconds for saying goodbye.
_QUIT_TIME: Final = 1.0
#: Seconds that the driver gives to one connect; a call's deadline is nearer.
_CONNECT_TIME: Final = 60

Row = tuple[Any, ...]


@final
@dataclass(frozen=True, slots=True)
class Answer:
    """What the server answered.

    Attributes:
        changed: How many rows the first statement changed.
        rows: The rows of the last statement.
        before: A moment before the query was written.
        resent: An earlier sending of the query had no answer, and may still be carried out.
    """

    changed: int
    rows: tuple[Row, ...]
    before: float
    resent: bool


@final
class _Connection:
    """A connection of the driver."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    @property
    def _transport(self) -> Any:
        return self._driver._transport

    @property
    def usable(self) -> bool:
        """Whether the server has neither closed it nor said a last word."""
        transport, received = self._transport, self._driver._proto
        if transport is None or transport.is_closing() or received is None:
            return False
        return not received.eof and received.length == received.pos

    async def run(self, query: str, progress: Progress) -> tuple[int, tuple[Row, ...]]:
        """Return how many rows the first statement changed, and the rows of the last one."""
        cursor = self._driver.cursor()
        progress.written = True
        await cursor.execute(query)
        progress.done += 1
        changed: int = cursor.rowcount
        while await cursor.nextset():
            progress.done += 1
        return changed, tuple(await cursor.fetchall()) if cursor.description else ()

    def abort(self) -> None:
        """Break the connection off: what was not sent yet is not sent any more."""
        transport = self._transport
        if transport is not None:
            connection = transport.get_extra_info("socket")
            with contextlib.suppress(OSError, AttributeError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
            transport.abort()
        self._driver.close()

    def leave_behind(self) -> None:
        """Close the socket, also if the event loop was closed."""
        if not is_closed(self._driver.loop):
            self.abort()
            return
        tear_off_transport(self._transport)
        self._driver._transport = None
        self._driver.close()

    async def quit(self) -> None:
        """Say goodbye and close."""
        try:
            async with asyncio.timeout(_QUIT_TIME):
                await self._driver.ensure_closed()
        except (OSError, MySQLError):
            self.abort()


@final
class Connections:
    """Connections to one server, opened when they are needed.

    Args:
        target: The server, and the most connections to open.
        title: The server for people.
        last_failure: Where to note why there was no answer.
        reconnected: Called when a connection was opened after one was lost, or could not be opened.
    """

    def __init__(
        self, target: Target, title: str, last_failure: LastFailure, reconnected: Callable[[], None]
    ) -> None:
        self._target = target
        self._title = title
        self._last_failure = last_failure
        self._reconnected = reconnected
        self._request_limit = RequestLimit(target.connections)
        self._idle: list[_Connection] = []
        self._used: set[_Connection] = set()
        self._lost = False
        self._closed = False
        #: A query and the byte of its command must be shorter; the latest connection says so.
        self._packet = sys.maxsize

    def takes(self, query: str) -> bool:
        """Return whether the server takes a query of that length, as far as is known."""
        return len(query.encode()) + 1 < self._packet

    async def run(
        self,
        query: str,
        deadline: float,
        about: str,
        *,
        urgent: bool = False,
        unless: Sequence[int] = (),
    ) -> Answer:
        """Send a query, and again after a failure that passes, until there is an answer.

        Args:
            query: One statement or several, which may be carried out twice.
            deadline: When to give up.
            about: What it is for, in errors.
            urgent: It goes before others that wait for a connection.
            unless: Numbers of errors after which it is not sent again. With some, its first
                statement only looks.

        Raises:
            ConnectionLostError: There was no answer until then.
            BackendError: The server refused it. Nothing was changed.
        """
        resent = False
        pause = _FIRST_PAUSE
        if not self.takes(query):
            raise BackendError(
                f"{self._title} at {self._target.where} does not take a query as long as that for"
                f" {about}: set its max_allowed_packet to at least {len(query.encode()) + 2}"
            )
        reported: Failure | None = None
        while True:
            found = await self._attempt(query, deadline, resent, urgent, bool(unless))
            if isinstance(found, Answer):
                self._last_failure.clear()
                return found
            resent = resent or found.maybe_done
            if found.code in unless and not resent:
                self._last_failure.clear()
                raise BackendError(found.text) from found.error
            refused = found.verdict != "lost"
            self._last_failure.note(
                found.error, found.text, away=found.unreached, done=resent, refused=refused
            )
            # The last attempt is often too short: earlier errors say more.
            reported = (
                found if reported is None or not isinstance(found.error, TimeoutError) else reported
            )
            left = deadline - _time.now()
            if found.verdict == "wrong" or left <= 0:
                break
            await asyncio.sleep(min(left, pause * random.uniform(0.5, 1)))
            pause = min(pause * 2, _LONGEST_PAUSE)
        raise self._error(reported, about, resent) from reported.error

    async def quit(self) -> None:
        """Close all connections; what is under way is broken off."""
        self._closed = True
        idle, self._idle = self._idle, []
        for connection in tuple(self._used):
            connection.abort()
        await asyncio.gather(*(connection.quit() for connection in idle))

    def leave_behind(self) -> None:
        """Close all connections of an event loop that was closed, or ends now."""
        self._closed = True
        for connection in (*self._used, *self._idle):
            connection.leave_behind()
        self._idle.clear()

    async def _attempt(
        self, query: str, deadline: float, resent: bool, urgent: bool, looks: bool
    ) -> Answer | Failure:
        progress = Progress(done=-looks)
        try:
            # The wait to be admitted is no silence of the server's, and one that gave up would lose
            # its place.
            await self._request_limit.take(deadline, urgent=urgent)
        except TimeoutError as error:
            return failure_of(error, progress)
        try:
            left = deadline - _time.now()
            async with asyncio.timeout(max(left / 2, min(left, _SHORTEST_ATTEMPT))):
                before, (changed, rows) = await self._once(query, progress)
            return Answer(changed, rows, before, resent)
        except Exception as error:  # the driver lets errors of many kinds out
            failure = failure_of(error, progress)
            self._lost = self._lost or failure.breaks or not progress.written
            if isinstance(error, TimeoutError):
                self._suspect()
            return failure
        finally:
            self._request_limit.end()

    async def _once(
        self, query: str, progress: Progress
    ) -> tuple[float, tuple[int, tuple[Row, ...]]]:
        connection = self._take() or await self._open()
        self._used.add(connection)
        try:
            before = _time.now()
            found = await connection.run(query, progress)
        except BaseException as error:
            self._drop(connection, error, progress)
            raise
        else:
            self._keep(connection)
        finally:
            self._used.discard(connection)
        return before, found

    def _take(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
            connection.abort()
            self._lost = True
        return None

    def _drop(self, connection: _Connection, error: BaseException, progress: Progress) -> None:
        """Keep a connection whose server refused a query and did nothing; end any other."""
        if (
            isinstance(error, MySQLError)
            and not failure_of(error, progress).breaks
            and progress.done <= 0
            and connection.usable
        ):
            self._keep(connection)
        else:
            connection.abort()

    def _keep(self, connection: _Connection) -> None:
        if self._closed:
            connection.abort()
        else:
            self._idle.append(connection)

    def _suspect(self) -> None:
        """Drop what is idle: after a silence it may go to the same dead peer."""
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.abort()

    async def _open(self) -> _Connection:
        # The driver's types are narrower than what it takes.
        options: dict[str, Any] = {
            "host": self._target.host,
            "port": self._target.port,
            "user": self._target.user,
            "password": self._target.password,
            "database": self._target.database,
            "ssl": self._target.tls,
            "charset": "utf8mb4",
            "autocommit": None,  # the settings below say it
            "connect_timeout": _CONNECT_TIME,
        }
        with first_tls(self._target.tls is not None):
            driver = await asyncmy.connect(**options)
        connection = _Connection(driver)
        try:
            _, ((self._packet,),) = await connection.run(sql.SETTINGS, Progress())
        except BaseException:
            connection.abort()
            raise
        if self._lost:
            self._lost = False
            self._reconnected()
        return connection

    def _error(self, failure: Failure, about: str, maybe_held: bool) -> BackendError:
        server = f"{self._title} at {self._target.where}"
        if not maybe_held and failure.verdict == "wrong":
            return BackendError(f"{server} refused {about}: {failure.text}")
        return self._last_failure.no_answer(maybe_held=maybe_held)
