"""How a connection is opened, through redis-py, and taken from it.

redis-py sets up TLS, credentials, HELLO 3 and the client's name. The transport of the open
connection is then handed to our own stream, which reads and writes faster and in an order that we
can rely on.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import redis.exceptions
from redis._parsers import hiredis as redis_py_parser
from redis.asyncio import SSLConnection
from redis.asyncio.connection import AbstractConnection

from redisson_py._addresses import Address, write_address
from redisson_py._forks import first_tls, no_fork
from redisson_py._loop import (
    Task,
    loop_time,
    sleep,
    start_task,
    stop_task,
    tear_off_transport,
    time_limit,
)
from redisson_py._redis.connect_errors import connect_error, was_cut
from redisson_py._redis.limits import BoundedReader
from redisson_py.errors import BackendError, ConnectionLostError, UnsupportedServerError

__all__ = ["AbstractConnection", "Connector", "ask_once", "let_go", "take_over", "tear_off"]

#: Seconds of silence in a TLS handshake after which a server is asked without TLS.
_SILENCE_SECONDS = 0.2

#: How often a server is asked in vain whether it speaks TLS. A proxy may accept connections for a
#: server that is away.
_MOST_QUESTIONS = 3

#: How many other servers are remembered: addresses change as nodes come and go.
_MOST_KEPT_SERVERS = 64

#: What the parser's reader returns while a reply is not complete; False before redis-py 5.0.8.
_NOTHING: object = getattr(redis_py_parser, "NOT_ENOUGH_DATA", False)


class BoundedParser(redis_py_parser._AsyncHiredisParser):
    """redis-py's parser, for the handshake and for single questions, with bounds on replies."""

    def on_connect(self, connection: Any) -> None:
        """Read from a new connection."""
        begin: Callable[[Any], object] = super().on_connect
        begin(connection)
        self._reader: Any = BoundedReader(self._reader, _NOTHING)


@dataclass(slots=True)
class _Seen:
    """What is known of a server from earlier attempts.

    Attributes:
        opened: An attempt succeeded: both sides use TLS, or neither does.
        asked: How often it was asked in vain whether it speaks TLS.
    """

    opened: bool = False
    asked: int = 0


@dataclass(frozen=True)
class Connector:
    """How to open one more connection to one server.

    Attributes:
        connect_timeout: Seconds that one attempt may take, if the user said so.
        announced: Whether a cluster or sentinels, not the user, may have named this address.
    """

    connection_class: type[AbstractConnection]
    settings: dict[str, Any]
    connect_timeout: float | None = None
    announced: bool = False
    _seen: _Seen = field(default_factory=_Seen)
    _others: dict[Address, Connector] = field(default_factory=dict, init=False)

    def __repr__(self) -> str:
        return f"<Connector to {self.where}>"

    @property
    def where(self) -> str:
        """The address, without any secret."""
        if "path" in self.settings:
            return str(self.settings["path"])
        host = str(self.settings.get("host", "localhost"))
        return write_address(host, self.settings.get("port", 6379))

    def at(self, host: str, port: int) -> Connector:
        """Return how to connect to another server with the same settings.

        It is the same object each time, which remembers whether the server speaks TLS.
        """
        address = host, port
        if address not in self._others:
            if len(self._others) >= _MOST_KEPT_SERVERS:
                self._others.clear()
            settings = {**self.settings, "host": host, "port": port}
            self._others[address] = replace(self, settings=settings, announced=True, _seen=_Seen())
        return self._others[address]

    @property
    def database(self) -> str:
        """The address and the number of the database."""
        return f"{self.where}/{self.settings.get('db') or 0}"

    async def open(self, limit: float) -> AbstractConnection:
        """Return a connection that has said HELLO 3, authenticated and chosen its database.

        Args:
            limit: Seconds that this attempt may take.

        Raises:
            BackendError: Credentials, permissions or certificates are wrong: a retry cannot help.
            UnsupportedServerError: The server does not speak RESP3.
            ConnectionLostError: It could not be reached; it may be reachable later.
        """
        seen, encrypted = self._seen, issubclass(self.connection_class, SSLConnection)
        unsure = not seen.opened and seen.asked < _MOST_QUESTIONS and "path" not in self.settings
        until = loop_time() + limit
        asking: Task | None = None
        connection: AbstractConnection | None = None
        try:
            async with time_limit(limit) as timer:
                if unsure and encrypted:
                    work = self._ask_if_silent(timer, until)
                    asking = start_task(work, f"redisson_py asks {self.where}")
                connection = await self._connect()
        except TimeoutError:
            plain = asking.result() if asking is not None and asking.done() else None
            problem: BackendError = plain or ConnectionLostError(
                f"no connection to Redis at {self.where} within {limit:.3g} s", maybe_held=False
            )
        except ConnectionLostError as error:
            problem = error
        else:
            seen.opened = True
            return connection
        finally:
            if asking is not None:
                try:
                    await stop_task(asking)
                except asyncio.CancelledError:
                    if connection is not None:
                        let_go(connection)
                    raise
        if unsure and not encrypted and was_cut(problem.__cause__):
            problem = await self._without_or_with_tls(until) or problem
        try:
            raise problem
        finally:
            # Its traceback refers to this frame: without this they would form a cycle.
            del problem

    async def _connect(self) -> AbstractConnection:
        connection = self.connection_class(**self.settings)
        try:
            with first_tls(isinstance(connection, SSLConnection)):
                connect: Callable[[], Awaitable[object]] = connection.connect
                await connect()
        except Exception as error:
            password = self.settings.get("password")
            problem = connect_error(error, self.where, password, self.announced)
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        else:
            return connection
        await connection.disconnect(nowait=True)
        try:
            # Raised outside of `except`, or the other error would become its context.
            raise problem
        finally:
            # Its traceback refers to this frame: without this they would form a cycle.
            del problem

    async def _ask_if_silent(self, timer: asyncio.Timeout, until: float) -> BackendError | None:
        """Ask a server without TLS if it is silent in a handshake; end that if it answers.

        The handshake goes on meanwhile: a server with TLS may just be slow.
        """
        await sleep(_SILENCE_SECONDS)
        problem = await self._without_or_with_tls(until)
        if problem is not None and not timer.expired():
            timer.reschedule(0)
        return problem

    async def _without_or_with_tls(self, until: float) -> BackendError | None:
        """Return an error if the server speaks TLS and we do not, or the other way round."""
        limit = min(1.0, until - loop_time())
        if issubclass(self.connection_class, SSLConnection):
            if await self._first_byte(b"PING\r\n", limit) in (b"+", b"-"):
                why = "; with tls-cluster no, a cluster names plain ports" if self.announced else ""
                return BackendError(
                    f"Redis at {self.where} does not speak TLS, which rediss://, valkeys:// or"
                    f" ssl=True asked for{why}"
                )
        elif await self._first_byte(_client_hello(), limit) in (b"\x15", b"\x16"):
            return BackendError(
                f"Redis at {self.where} speaks TLS: connect with rediss://, valkeys:// or ssl=True"
            )
        self._seen.asked += 1
        return None

    async def _first_byte(self, said: bytes, limit: float) -> bytes:
        """Return the first byte of the server's answer to `said`; empty if there is none."""
        host, port = self.settings.get("host", "localhost"), self.settings.get("port", 6379)
        try:
            async with time_limit(limit):
                reader, writer = await asyncio.open_connection(host, port)
                try:
                    writer.write(said)
                    return await reader.read(1)
                finally:
                    writer.transport.abort()
        except (OSError, TimeoutError):
            return b""


def _client_hello() -> bytes:
    """Return the first message of a TLS client."""
    out = ssl.MemoryBIO()
    with no_fork():
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # No certificate is checked: only the first byte of the answer matters.
        context.check_hostname = False
        tls = context.wrap_bio(ssl.MemoryBIO(), out)
        with suppress(ssl.SSLWantReadError):
            tls.do_handshake()
    return out.read()


def take_over(
    connection: AbstractConnection, protocol: asyncio.Protocol, where: str
) -> asyncio.Transport:
    """Make `protocol` the reader of an open connection to a server; return its transport.

    This function, `let_go` and `tear_off` use private names of redis-py. The connection object must
    be kept and disconnected in the end: it still owns the socket.

    Raises:
        UnsupportedServerError: This release of redis-py keeps its transport elsewhere.
    """
    writer = getattr(connection, "_writer", None)
    transport: asyncio.Transport | None = getattr(writer, "transport", None)
    # Not an isinstance check: uvloop's transports have no base class in asyncio.
    if transport is None or not hasattr(transport, "set_protocol"):
        raise UnsupportedServerError(
            "this release of redis-py does not expose the transport that redisson_py needs"
        )
    reader = getattr(connection, "_reader", None)
    if transport.is_closing() or (reader is not None and reader.at_eof()):
        # redis-py's protocol was informed that it ended; ours will not be.
        text = f"the connection to Redis at {where} broke while opening"
        raise ConnectionLostError(text, maybe_held=False)
    transport.set_protocol(protocol)
    return transport


def let_go(connection: AbstractConnection) -> None:
    """Close a connection where nothing can be awaited; its transport ends a turn later."""
    writer = _taken_from(connection)
    if writer is not None:
        writer.close()


def tear_off(connection: AbstractConnection) -> None:
    """Close the socket of a connection whose event loop was closed before it."""
    # Kept until its transport is closed: its finalizer warns before that.
    writer = _taken_from(connection)
    tear_off_transport(getattr(writer, "transport", None))


def _taken_from(connection: AbstractConnection) -> Any:
    """Return the writer of a connection, which forgets it, as in redis-py's own finalizer."""
    writer = getattr(connection, "_writer", None)
    connection._writer = connection._reader = None
    return writer


async def ask_once(connector: Connector, limit: float, *commands: tuple[str, ...]) -> list[Any]:
    """Return the replies to some commands, over a connection of their own.

    A `BackendError` stands for the reply to a command that was refused.

    Args:
        connector: Opens it.
        limit: Seconds that it may take, connecting included.
        commands: The words of each.

    Raises:
        BackendError: We were refused.
        ConnectionLostError: There was no answer in time.
    """
    until = loop_time() + limit
    connection = await connector.open(limit)
    try:
        async with time_limit(until - loop_time()):
            replies: list[Any] = []
            for words in commands:
                await connection.send_command(*words)
                try:
                    replies.append(await connection.read_response())
                except redis.exceptions.ResponseError as error:
                    replies.append(BackendError(str(error)))
            return replies
    except TimeoutError:
        asked = " ".join(commands[0])
        problem: BackendError = ConnectionLostError(
            f"Redis at {connector.where} did not answer {asked} within {limit:.3g} s",
            maybe_held=False,
        )
    except Exception as error:
        # Not only redis-py's: see `connect_error`.
        problem = connect_error(error, connector.where, connector.settings.get("password"))
    finally:
        await connection.disconnect(nowait=True)
    try:
        raise problem
    finally:
        # Its traceback refers to this frame: without this they would form a cycle.
        del problem
