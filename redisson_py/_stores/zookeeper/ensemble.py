"""Exchanges with an ensemble: one session after the other, and each call until it is answered."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar, final

from kazoo.exceptions import (
    ConnectionLoss,
    KazooException,
    NoAuthError,
    OperationTimeoutError,
    RequestTimeoutError,
    SessionClosedRequireSaslError,
    SessionExpiredError,
    SessionMovedError,
    ThrottledOpError,
    UnimplementedError,
)

from redisson_py._forks import no_fork
from redisson_py._stores.last_failure import LastFailure
from redisson_py._time import now
from redisson_py.errors import BackendError

from .session import Session
from .url import Target

_T = TypeVar("_T")

#: Seconds, at most: between two attempts of a call, and between two sessions that did not connect.
_RETRY_PAUSE: Final = 0.05
_SESSION_PAUSE: Final = 1.0
#: Seconds, at most, that a client can ask for as the session timeout: 32 bits of milliseconds.
_LONGEST_SESSION: Final = (2**31 - 1) / 1000
#: Seconds to wait for the end of a session; its threads go on after that.
_CLOSE_TIME: Final = 2.0
#: Answers after which the request is sent again, when there is a connection.
_NO_ANSWER: Final = (
    ConnectionLoss,
    OperationTimeoutError,
    RequestTimeoutError,
    SessionExpiredError,
    SessionMovedError,
    ThrottledOpError,
)


class _NoAnswerError(Exception):
    """A request had no answer: in time, or at all. It may have been carried out."""


@final
class Ensemble:
    """The servers, through the session of the moment.

    Attributes:
        where: Their addresses and the path of the URL, without credentials.
    """

    def __init__(
        self,
        target: Target,
        timeout: float,
        lease: float,
        last_failure: LastFailure,
        *,
        ended: Callable[[], None],
        again: Callable[[], None],
    ) -> None:
        """Prepare; nothing is connected before `start`.

        Args:
            target: Where to.
            timeout: The session timeout to ask for.
            lease: The seconds for which a session outlives an event loop that is blocked.
            last_failure: Where to note why there was no answer.
            ended: Called when a session has ended: what it had is gone.
            again: Called then, and when a session is connected once more.
        """
        self.where: str = target.hosts + target.root
        self._target: Final = target
        self._timeout: Final = min(timeout, _LONGEST_SESSION)
        self._lease: Final = lease
        self._last_failure: Final = last_failure
        self._ended: Final = ended
        self._again: Final = again
        self._session: Session | None = None
        self._connections = 0
        self._up = asyncio.Event()
        self._restart: asyncio.TimerHandle | None = None

    @property
    def session_timeout(self) -> float:
        """The seconds without a sign of life after which a session ends."""
        return self._timeout if self._session is None else self._session.timeout

    async def start(self, deadline: float) -> None:
        """Begin a session.

        Raises:
            ConnectionLostError: It was not connected by the deadline.
            BackendError: The servers' certificate is refused, or ours cannot be read.
        """
        _check_files(self._target.tls)
        self._connections = 0
        self._up = asyncio.Event()
        try:
            self._begin()
            await self._connected(deadline, maybe_held=False)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """End the session."""
        session, self._session = self._session, None
        if self._restart is not None:
            self._restart.cancel()
        if session is not None:
            await asyncio.wait([session.close()], timeout=_CLOSE_TIME)

    def leave_behind(self) -> None:
        """End the session without waiting for it: the event loop was closed, or ends now."""
        session, self._session = self._session, None
        if self._restart is not None:
            self._restart.cancel()
        if session is not None:
            session.leave_behind()

    async def call(
        self, attempt: Callable[[Session], Awaitable[_T]], deadline: float, *, changes: bool
    ) -> _T:
        """Make a call of exchanges, again and again until they are answered.

        Raises:
            ConnectionLostError: They were not by the deadline.
            BackendError: A request was refused.
        """
        sent = False
        while True:
            session = await self._connected(deadline, maybe_held=sent)
            try:
                return await attempt(session)
            except _NoAnswerError as error:
                sent = changes
                if now() >= deadline:
                    raise self._last_failure.no_answer(maybe_held=sent) from error.__cause__
            # The news that the connection is lost may come after the errors.
            await asyncio.sleep(random.uniform(0, _RETRY_PAUSE))

    async def exchange(self, session: Session, deadline: float, *requests: object) -> list[Any]:
        """Send requests at once and return the replies, among them the server's errors."""
        _check_alive(session)
        connection, written = session.connections, now()
        futures = [session.send(request) for request in requests]
        if futures:
            await asyncio.wait(futures, timeout=max(0.0, deadline - now()))
        _check_alive(session)
        if not all(future.done() for future in futures):
            raise _NoAnswerError
        replies = [future.result() for future in futures]
        for reply in replies:
            if isinstance(reply, SessionClosedRequireSaslError):
                raise BackendError(
                    f"ZooKeeper at {self.where} serves only authenticated clients: put a user into"
                    " the URL, zookeeper://user:password@...; SASL is not supported"
                ) from reply
            if isinstance(reply, _NO_ANSWER):
                raise _NoAnswerError from reply
        if session.connections == connection:
            session.answered(written)
        return replies

    def kept_until(self, session: Session, written: float) -> float:
        """Return until when a session is kept; see there.

        If what is known of it is old, as after a time in which the event loop was blocked, there is
        no answer: the attempt begins again, on a new connection.
        """
        until = session.kept_until(written)
        if session.is_old:
            session.connect_anew()
            raise _NoAnswerError
        return until

    def check(self, reply: Any, path: str, *expected: type[Exception]) -> Any:
        """Return a reply, unless it is an error that the caller does not expect.

        Raises:
            BackendError: It is one.
        """
        if not isinstance(reply, Exception):
            return reply
        if isinstance(reply, expected):
            return reply
        if isinstance(reply, NoAuthError):
            text = "this client has no permission there; see the ACL of the node"
        elif isinstance(reply, UnimplementedError):
            text = "it is older than ZooKeeper 3.5"
        elif isinstance(reply, KazooException):
            text = f"{type(reply).__name__} {reply}".strip()
        else:
            text = "it sent a reply that cannot be parsed"
        raise self.refusal(path, text) from reply

    def refusal(self, path: str, text: str) -> BackendError:
        """Return the error of a request that was refused."""
        return BackendError(f"ZooKeeper at {self.where}, for {path!r}: {text}")

    async def _connected(self, deadline: float, *, maybe_held: bool) -> Session:
        """Return the session when it is connected."""
        while True:
            session = self._session
            if session is not None and session.connected:
                return session
            try:
                async with asyncio.timeout(max(0.0, deadline - now())):
                    await self._up.wait()
            except TimeoutError:
                cause = None if session is None else session.error
                if cause is not None and isinstance(cause.__context__, ssl.SSLError):
                    raise BackendError(
                        f"TLS with ZooKeeper at {self.where} failed: {cause}"
                    ) from cause
                raise self._last_failure.no_answer(maybe_held=maybe_held) from cause

    def _begin(self) -> None:
        self._session = Session(
            self._target, self._timeout, self._lease, self._last_failure, self._changed
        )
        self._session.begin()

    def _changed(self, session: Session) -> None:
        """Hear that a session was connected, or is no longer, or has ended."""
        if session is not self._session:
            return
        if session.connected:
            self._last_failure.clear()
            self._up.set()
            self._connections += 1
            if self._connections > 1:
                self._again()
            return
        self._up.clear()
        if session.ended:
            pause = 0.0 if session.connections else random.uniform(0, _SESSION_PAUSE)
            self._replace(session, pause)
            self._ended()
            self._again()

    def _replace(self, session: Session, pause: float) -> None:
        """Begin another session in a moment; again if there was no file or thread for it."""

        def begin() -> None:
            try:
                session.close()
                self._begin()
            except (OSError, RuntimeError) as error:
                self._last_failure.note(error)
                self._replace(session, _SESSION_PAUSE)

        self._restart = asyncio.get_running_loop().call_later(pause, begin)


def _check_alive(session: Session) -> None:
    if session.ended:
        raise _NoAnswerError


def _check_files(tls: dict[str, str] | None) -> None:
    """Read the files for TLS once: kazoo would take a bad one for a lost connection."""
    try:
        if tls is not None:
            with no_fork():
                context = ssl.create_default_context(cafile=tls.get("ca"))
                if "certfile" in tls:
                    context.load_cert_chain(tls["certfile"], tls["keyfile"])
    except (OSError, ssl.SSLError) as error:
        raise BackendError(f"a TLS file for ZooKeeper cannot be read: {error}") from error
