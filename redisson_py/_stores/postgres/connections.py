"""A small pool of connections, and questions that outlive one of them.

A connection carries one question at a time. What ends a question early, a deadline or a caller that
was cancelled, ends its connection too: nothing of it is left to trip over. The question is then
sent again on another one, so all statements are safe to run twice.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import asyncpg

from redisson_py._forks import first_tls
from redisson_py._loop import is_closed, tear_off_transport
from redisson_py._stores.last_failure import LastFailure
from redisson_py._stores.postgres.refusals import reason, refusal, verdict_of
from redisson_py._stores.request_limit import RequestLimit
from redisson_py._time import now

#: Seconds of silence after which a question with a long deadline tries another connection: a row
#: lock or a slow disk takes less.
_LEAST_PATIENCE: Final = 1.0
#: Seconds after which a connection that nobody needed is closed.
_IDLE_TIME: Final = 60.0
_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 1.0

Statement = Callable[[asyncpg.Connection], Awaitable[Any]]


@final
@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said.

    Attributes:
        value: The result.
        sent: The moment just before the question was written.
        repeated: An earlier copy of the question had no answer: it may be carried out late.
    """

    value: Any
    sent: float
    repeated: bool


@final
@dataclass(frozen=True, slots=True)
class Target:
    """Where to connect.

    Attributes:
        urls: What asyncpg reads, one for each host. Never shown.
        where: The address for people.
        statement_cache_size: Prepared statements of a connection; 0 for a pooler that loses them.
    """

    urls: tuple[str, ...]
    where: str
    statement_cache_size: int

    def __repr__(self) -> str:
        return f"<Target {self.where}>"

    async def connect(self, patience: float) -> asyncpg.Connection:
        """Connect to the primary within that many seconds."""
        for url in self.urls[:-1]:
            try:
                return await self._connect(url, patience / len(self.urls))
            except Exception as error:
                if verdict_of(error) == "wrong":
                    raise
        return await self._connect(self.urls[-1], patience / len(self.urls))

    async def _connect(self, url: str, patience: float) -> asyncpg.Connection:
        seconds: Any = patience  # asyncpg's own type is that of its default, int
        # It makes a context for TLS before it knows whether the server speaks it.
        with first_tls(True):
            return await asyncpg.connect(
                url,
                timeout=seconds,
                statement_cache_size=self.statement_cache_size,
                max_cached_statement_lifetime=0,
                # A standby cannot keep locks.
                target_session_attrs="primary",
            )


@final
class Connections:
    """Asks questions on at most `most` connections, opened when they are needed.

    Args:
        target: Where to connect.
        most: How many.
        last_failure: Where to note why there was no answer.
        recovered: Called when a question has been answered again after one was not.
    """

    def __init__(
        self, target: Target, most: int, last_failure: LastFailure, recovered: Callable[[], None]
    ) -> None:
        self._target: Final = target
        self._last_failure: Final = last_failure
        self._recovered: Final = recovered
        self._request_limit = RequestLimit(most)
        #: Those that carry no question, each with the moment since when; the last is taken first.
        self._idle: deque[tuple[float, asyncpg.Connection]] = deque()
        self._busy: set[asyncpg.Connection] = set()
        self._interrupted = False
        self._closed = False

    def __len__(self) -> int:
        return len(self._idle) + len(self._busy)

    async def fetch(
        self,
        statement: str,
        arguments: Sequence[object],
        deadline: float,
        final: tuple[type[Exception], ...] = (),
        *,
        urgent: bool = False,
    ) -> Answer:
        """Return the rows of a statement; see `run`."""

        async def fetch(connection: asyncpg.Connection) -> Any:
            return await connection.fetch(statement, *arguments)

        return await self.run(fetch, deadline, final, urgent=urgent)

    async def run(
        self,
        statement: Statement,
        deadline: float,
        final: tuple[type[Exception], ...] = (),
        *,
        urgent: bool = False,
    ) -> Answer:
        """Return the result of a statement, which may be run twice.

        Args:
            statement: The statement.
            deadline: When to give up.
            final: Errors after which it is not run again.
            urgent: It goes before others that wait for a connection.

        Raises:
            ConnectionLostError: There was no answer by the deadline.
            BackendError: The server refuses it.
        """
        repeated, pause = False, _FIRST_PAUSE
        while True:
            admitted = written = False
            try:
                await self._request_limit.take(deadline, urgent=urgent)
                admitted = True
                try:
                    connection = await self._connection(deadline)
                    written = True
                    sent = now()
                    value = await self._ask(connection, statement, deadline)
                finally:
                    self._request_limit.end()
            except Exception as error:
                verdict = "wrong" if isinstance(error, final) else verdict_of(error)
                if verdict == "wrong" and not repeated:
                    raise refusal(error, self._target.where) from error
                lost = verdict == "lost"
                # If it was not admitted, the server was not asked.
                self._interrupted = self._interrupted or (lost and admitted)
                repeated = repeated or (lost and written)
                # What the server says may name the user.
                said = isinstance(error, asyncpg.PostgresError) or not lost
                why = reason(error) if said else ""
                away = lost and not written
                self._last_failure.note(error, why, away=away, done=repeated, refused=not lost)
                pause = min(2 * pause, _LONGEST_PAUSE)
                wait = pause * random.uniform(0.5, 1.0)
                left = deadline - now()
                if verdict != "wrong" and not self._closed:
                    # Not less than all of its time: by that an outage is known.
                    await asyncio.sleep(min(wait, left))
                if verdict == "wrong" or self._closed or wait >= left:
                    raise self._last_failure.no_answer(maybe_held=repeated) from error
            else:
                self._last_failure.clear()
                if self._interrupted:
                    self._interrupted = False
                    self._recovered()
                return Answer(value, sent, repeated)

    async def close(self) -> None:
        """Close all connections; questions that are under way fail."""
        self._closed = True
        for connection in [*self._busy]:
            connection.terminate()
        while self._idle:
            await _end(self._idle.pop()[1])

    def leave_behind(self) -> None:
        """Close all connections of an event loop that was closed, or ends now."""
        self._closed = True
        for connection in [*self._busy, *(connection for _, connection in self._idle)]:
            abandon(connection)
        self._idle.clear()

    async def _connection(self, deadline: float) -> asyncpg.Connection:
        while self._idle:
            _, connection = self._idle.pop()
            if not connection.is_closed():
                return connection
            # The server, or what is between, has closed it meanwhile.
            self._interrupted = True
        if self._closed:
            raise ConnectionError("the store was stopped")
        connection = await self._target.connect(_patience(deadline))
        if self._closed:
            connection.terminate()
            raise ConnectionError("the store was stopped")
        return connection

    async def _ask(
        self, connection: asyncpg.Connection, statement: Statement, deadline: float
    ) -> Any:
        loop = asyncio.get_running_loop()
        # Not a timeout of asyncpg's: that asks the server to stop, and waits for it.
        timer = loop.call_later(_patience(deadline), connection.terminate)
        self._busy.add(connection)
        try:
            value = await statement(connection)
        except BaseException as error:
            if not _keeps_connection(error):
                connection.terminate()
                if isinstance(error, Exception) and loop.time() >= timer.when():
                    self._suspect()
                    # What asyncpg says then is only that the connection was closed.
                    raise TimeoutError from error
            raise
        finally:
            timer.cancel()
            self._busy.discard(connection)
            if not connection.is_closed() and not self._closed:
                self._idle.append((now(), connection))
                self._close_unneeded()
        return value

    def _suspect(self) -> None:
        """Drop what is idle: after a silence it may go to the same dead peer."""
        while self._idle:
            self._idle.pop()[1].terminate()

    def _close_unneeded(self) -> None:
        since, connection = self._idle[0]
        if now() - since > _IDLE_TIME and len(self._idle) > 1:
            self._idle.popleft()
            connection.terminate()


def _keeps_connection(error: BaseException) -> bool:
    """Return whether the server has only refused a question, and will take the next one."""
    return isinstance(error, asyncpg.PostgresError) and verdict_of(error) in ("wrong", "later")


def _patience(deadline: float) -> float:
    """Return how long to wait for one connection: half of the time, so that another has a chance.

    A dead peer looks like a slow one, so a question with little time has no second try.
    """
    left = max(0.001, deadline - now())
    return min(left, max(left / 2, _LEAST_PATIENCE))


def abandon(connection: asyncpg.Connection) -> None:
    """Close the socket of a connection without waiting, also if its event loop was closed."""
    if not is_closed(connection._loop):
        connection.terminate()
        return
    tear_off_transport(connection._transport)
    # Its finalizer asks for these, and warns.
    connection._aborted, connection._protocol = True, None


async def _end(connection: asyncpg.Connection) -> None:
    """Say goodbye if the server listens; it need not."""
    try:
        await connection.close(timeout=1.0)
    except Exception:
        connection.terminate()
