"""Calls to a cluster of etcd: one connection at a time, to any of its members.

A call that gets no answer is made again, on a new connection to the next endpoint, until its
deadline; so each must be one that may be carried out twice. All calls ask for a member that knows
a leader, so that one that was cut off refuses, and the next endpoint has its turn.

Invariants: a connection that failed is never used for another call; it is closed when the calls
that are under way on it have ended. A token that was refused is never used again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc
import grpc.aio

from redisson_py._loop import end_task
from redisson_py._stores.etcd import messages
from redisson_py._stores.etcd.connection import Connection, check_not_forked, connect
from redisson_py._stores.etcd.messages import Message, Method
from redisson_py._stores.etcd.tls import credentials
from redisson_py._stores.etcd.url import Target
from redisson_py._stores.last_failure import LastFailure
from redisson_py._time import now
from redisson_py.errors import BackendError, ConnectionLostError, UnsupportedServerError

_T = TypeVar("_T")

_NEEDS_LEADER = ("hasleader", "true")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5
#: An attempt takes half of the time that is left, so that another can follow; not less than this.
_SHORTEST_ATTEMPT_SECONDS = 0.5
#: Seconds for the first attempt to connect; each further one has as much more.
_CONNECT_SECONDS = 1.0

_FINAL = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
}
#: Other members may do what these refuse: learners, and those that have just begun.
_ELSEWHERE = ("too many requests", "not supported for learner", "not capable")
#: Requests without a token get the last of them.
_OLD_TOKEN = ("invalid auth token", "revision of auth store is old", "user name is empty")
_NO_LEASE = "requested lease not found"
_TOO_MANY_OPERATIONS = "too many operations"
_BAD_CERTIFICATE = ("CERTIFICATE_VERIFY_FAILED", "is not in peer certificate")
_HINTS = {
    "permission denied": "this user's role needs readwrite on the names of locks and on the"
    " prefix redisson_py/",
    "user name is empty": "the cluster requires a user name and a password",
    "database space exceeded": "the cluster rejects writes until you compact it and disarm its"
    " alarm",
    _TOO_MANY_OPERATIONS: f"set --max-txn-ops of each member to at least"
    f" {messages.MOST_OPERATIONS} (default: 128)",
}


class LeaseEndedError(Exception):
    """Raised when etcd does not know a lease: it has ended, with all its keys, for good."""


class TooManyOperationsError(BackendError):
    """Raised when etcd rejects a transaction with that many operations."""


class _FailedError(Exception):
    """Raised when a connection gave no answer, or could not be made."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call was answered.

    Attributes:
        reply: The reply.
        written: The moment before the request that was answered was written.
        repeated: Whether it may have been carried out before, without an answer.
    """

    reply: Message
    written: float
    repeated: bool


class Link:
    """Makes calls.

    Args:
        target: Where to, and as whom.
        ca: A file with the authorities to trust, with TLS; None: those of the system.
        cert: A file with the client's own certificates, if it has some.
        key: A file with their key.
        last_failure: Where to note why there was no answer.
        recovered: Called when a call was answered after one that was not.
    """

    def __init__(
        self,
        target: Target,
        ca: str | None,
        cert: str | None,
        key: str | None,
        last_failure: LastFailure,
        recovered: Callable[[], object],
    ) -> None:
        self.last_failure = last_failure
        self.where = ", ".join(target.endpoints)
        self._target = target
        self._credentials = credentials(ca, cert, key) if target.tls else None
        self._recovered = recovered
        self._next_endpoint = 0
        self._connection: Connection | None = None
        #: Those that are not closed: the present one, and others that are still in use.
        self._connections: set[Connection] = set()
        #: None: not known. Empty: the cluster wants none.
        self._token: str | None = None
        self._authenticating = asyncio.Lock()
        self._away = False
        self._closing: set[asyncio.Task[None]] = set()

    async def call(self, method: Method, request: Message, deadline: float) -> Answer:
        """Return the answer of etcd.

        Raises:
            LeaseEndedError: etcd does not know the lease of the request.
            ConnectionLostError: There was none by the deadline.
            BackendError: etcd refused, or no endpoint has a certificate to trust.
        """
        sent = repeated = connected = False
        pause, tries = _FIRST_PAUSE, 0
        cause: BaseException | None = None
        token: str | None = None
        untrusted: set[str] = set()
        while (left := deadline - now()) > 0:
            attempt = min(left, max(left / 2, _SHORTEST_ATTEMPT_SECONDS))
            end = now() + attempt
            connection = self.take()
            tries, connected = tries + 1, False
            try:
                await self._ready(connection, min(end, now() + tries * _CONNECT_SECONDS))
                connected = True
                if self._target.user and self._token is None:
                    await self._get_token(connection, end)
                token = self._token
                repeated, sent, written = sent, True, now()
                reply = await self._ask(connection, method, request, end)
            except _FailedError as error:
                cause = error.__cause__
                away = not connected and tries >= len(self._target.endpoints)
                self.last_failure.note(_unless_late(cause), _details(cause), away=away, done=sent)
                self.retire(connection)
                if _says(cause, *_BAD_CERTIFICATE):
                    untrusted.add(connection.endpoint)
                if len(untrusted) == len(self._target.endpoints):
                    raise BackendError(
                        f"TLS with etcd at {self.where} failed: {_details(cause)}"
                    ) from cause
            except grpc.aio.AioRpcError as error:
                if token is not None and _says(error, *_OLD_TOKEN):
                    # Said before anything else is looked at: it was not carried out.
                    self._token = None if self._token == token else self._token
                    cause, sent = error, repeated
                else:
                    raise self._refusal(error) from error
            else:
                self.last_failure.clear()
                if self._away:
                    self._away = False
                    self._recovered()
                return Answer(reply, written, repeated)
            finally:
                self.leave(connection)
            await asyncio.sleep(min(random.uniform(0, pause), max(0.0, deadline - now())))
            pause = min(pause * 2, _LONGEST_PAUSE)
        raise self.last_failure.no_answer(maybe_held=sent) from cause

    def take(self) -> Connection:
        """Return the present connection, which stays open at least until `leave`.

        Raises:
            BackendError: This process was forked after its parent had connected.
        """
        check_not_forked()
        if self._connection is None:
            endpoint = self._target.endpoints[self._next_endpoint % len(self._target.endpoints)]
            self._connection = connect(endpoint, self._credentials)
            self._connections.add(self._connection)
        self._connection.users += 1
        return self._connection

    def leave(self, connection: Connection) -> None:
        """Use a connection no more."""
        connection.users -= 1
        self._close_if_idle(connection)

    def retire(self, connection: Connection) -> None:
        """Use a connection for nothing new; the next call has another endpoint."""
        if connection.retired:
            return
        connection.retired = True
        self._away = True
        if self._connection is connection:
            self._connection = None
            self._next_endpoint += 1
        for each in connection.when_retired:
            each()
        self._close_if_idle(connection)

    async def metadata(self, connection: Connection, end: float) -> tuple[tuple[str, str], ...]:
        """Return what goes along with a stream on a connection, which is ready then.

        Raises:
            BackendError: etcd refused the credentials.
            OSError: The connection failed.
        """
        try:
            await self._ready(connection, end)
            if self._target.user:
                await self._authenticate(connection, end)
        except _FailedError as error:
            raise OSError("the connection failed") from error.__cause__
        return self._metadata()

    async def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self.retire(self._connection)
        self._away, self._authenticating = False, asyncio.Lock()
        while self._closing:
            await asyncio.wait(self._closing)

    def leave_behind(self) -> None:
        """Close all connections of an event loop that was closed, or ends now."""
        self._connection, self._away = None, False
        self._authenticating = asyncio.Lock()
        connections, self._connections = self._connections, set()
        for connection in connections:
            connection.leave_behind()
        for task in self._closing:
            end_task(task)
        self._closing.clear()

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        return (_NEEDS_LEADER, ("token", self._token)) if self._token else (_NEEDS_LEADER,)

    async def _ask(
        self, connection: Connection, method: Method, request: Message, end: float
    ) -> Any:
        """Ask once.

        Raises:
            _FailedError: There was no answer, or one that says nothing of the request.
            grpc.aio.AioRpcError: etcd refused.
        """
        question = connection.channel.unary_unary(
            method.path,
            request_serializer=messages.serialized,
            response_deserializer=method.reply.FromString,
        )
        try:
            return await question(request, timeout=end - now(), metadata=self._metadata())
        except grpc.aio.AioRpcError as error:
            if error.code() in _FINAL and not _says(error, *_ELSEWHERE):
                raise
            raise _FailedError from error

    async def _ready(self, connection: Connection, end: float) -> None:
        """Return when a connection is made, so that nothing was sent if that fails.

        Raises:
            _FailedError: It could not be made.
        """
        channel = connection.channel
        ready = grpc.ChannelConnectivity.READY
        while (state := channel.get_state(try_to_connect=True)) is not ready:
            if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
                # The reason is not in the state; this fails at once, and tells.
                await self._ask(connection, messages.STATUS, messages.status(), end)
            else:
                try:
                    async with asyncio.timeout(end - now()):
                        await channel.wait_for_state_change(state)
                except TimeoutError as error:
                    raise _FailedError from error

    async def _get_token(self, connection: Connection, end: float) -> None:
        """Have a token, for which one of all calls without one asks: etcd takes long to check it.

        Raises:
            _FailedError: There was no answer.
            BackendError: etcd refused the credentials.
        """
        try:
            async with asyncio.timeout(end - now()):
                await self._authenticating.acquire()
        except TimeoutError as error:
            raise _FailedError from error
        try:
            if connection.retired:
                raise _FailedError
            if self._token is None:
                await self._authenticate(connection, end)
        finally:
            self._authenticating.release()

    async def _authenticate(self, connection: Connection, end: float) -> None:
        request = messages.authenticate(self._target.user, self._target.password)
        try:
            reply = await self._ask(connection, messages.AUTHENTICATE, request, end)
        except grpc.aio.AioRpcError as error:
            if _says(error, "authentication is not enabled"):
                self._token = ""
                return
            raise BackendError(
                f"etcd at {self.where} refused the credentials: {_details(error)}"
            ) from error
        self._token = reply.token

    def _refusal(self, error: grpc.aio.AioRpcError) -> Exception:
        if _says(error, _NO_LEASE):
            return LeaseEndedError()
        said = _details(error)
        if error.code() is grpc.StatusCode.UNIMPLEMENTED:
            return UnsupportedServerError(
                f"the server at {self.where} is not etcd, or is older than 3.4: {said}"
            )
        hint = next((f": {text}" for part, text in _HINTS.items() if part in said), "")
        kind = TooManyOperationsError if _TOO_MANY_OPERATIONS in said else BackendError
        return kind(f"etcd at {self.where} refused: {said}{hint}")

    def _close_if_idle(self, connection: Connection) -> None:
        if connection.retired and not connection.users and connection in self._connections:
            self._connections.discard(connection)
            task = asyncio.create_task(connection.close(), name="redisson_py etcd close")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


async def telling(work: Awaitable[_T], entered: bool | None) -> _T:
    """Return what `work` returns; its error says whether a key may be in the queue.

    Args:
        work: Calls to etcd.
        entered: Whether it may be; None: if a call of `work` may have been carried out.
    """
    try:
        return await work
    except ConnectionLostError as error:
        if entered is None or error.maybe_held is entered:
            raise
        raise ConnectionLostError(str(error), maybe_held=entered) from error.__cause__


def _details(error: BaseException | None) -> str:
    return str(error.details()) if isinstance(error, grpc.aio.AioRpcError) else ""


def _unless_late(error: BaseException | None) -> BaseException | None:
    """Return an error, unless it only says that nothing came in time."""
    late = isinstance(error, grpc.aio.AioRpcError) and (
        error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    )
    return None if late else error


def _says(error: BaseException | None, *parts: str) -> bool:
    said = _details(error)
    return any(part in said for part in parts)
