"""The narrow door to redis-py: settings, opening connections, foreign errors.

redis-py does what it is best at: URLs, TLS, credentials, HELLO 3, the client's name. The
open connection's transport is then handed to our own stream, which reads and writes faster
and in an order we can rely on.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import redis.exceptions
from redis.asyncio import Connection, Redis, RedisCluster, SSLConnection
from redis.asyncio.connection import AbstractConnection, UnixDomainSocketConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.maint_notifications import MaintNotificationsConfig

from redisson_py._connect_errors import connect_error, was_cut
from redisson_py._time import check_lease_time
from redisson_py._url import read_url
from redisson_py.errors import BackendError, ConnectionLostError, UnsupportedServerError

__all__ = [
    "AbstractConnection",
    "Connector",
    "connector_from_client",
    "connector_from_url",
    "let_go",
    "take_over",
    "tear_off",
]

log = logging.getLogger("redisson_py")

#: What a connection of ours must not take over from the user's settings: retries (ours to
#: decide), decoding, health checks and pushes that would come between our replies.
_DROPPED = (
    "decode_responses",
    "event_dispatcher",
    "health_check_interval",
    "himport_registry",
    "legacy_responses",
    "maint_notifications_config",
    "maint_notifications_pool_handler",
    "max_connections",
    "oss_cluster_maint_notifications_handler",
    "parser_class",
    "protocol",
    "retry",
    "retry_on_error",
    "retry_on_timeout",
    "timeout",
)

#: How long redis-py takes to connect where nobody says anything: no wish of the user's.
_REDIS_PY_CONNECT_TIMEOUT = 5

#: A server that is away, behind a proxy that is not, should not be asked for ever.
_MOST_ASKED = 3


@dataclass(slots=True)
class _Seen:
    """What has been seen of a server.

    Attributes:
        tried: It was tried to connect.
        opened: That worked once: TLS is spoken by both, or by none.
        asked: How often it was asked in vain whether it speaks TLS.
    """

    tried: bool = False
    opened: bool = False
    asked: int = 0


@dataclass(frozen=True)
class Connector:
    """How to open one more connection to one server.

    Attributes:
        connect_timeout: Seconds that one attempt may take, if the user said so.
        command_timeout: Seconds that a call may take, if the URL says so.
    """

    connection_class: type[AbstractConnection]
    settings: dict[str, Any]
    connect_timeout: float | None = None
    command_timeout: float | None = None
    _seen: _Seen = field(default_factory=_Seen)

    def __repr__(self) -> str:
        return f"<Connector to {self.where}>"

    @property
    def where(self) -> str:
        """The address, without any secret."""
        if "path" in self.settings:
            return str(self.settings["path"])
        return f"{self.settings.get('host', 'localhost')}:{self.settings.get('port', 6379)}"

    def at(self, host: str, port: int) -> Connector:
        """Return how to connect to another server with the same settings."""
        return replace(self, settings={**self.settings, "host": host, "port": port}, _seen=_Seen())

    @property
    def database(self) -> str:
        """The address and the number of the database."""
        return f"{self.where}/{self.settings.get('db') or 0}"

    async def open(self, limit: float) -> AbstractConnection:
        """Return a connection that has said HELLO 3, authenticated and chosen its database.

        Args:
            limit: Seconds that this attempt may take.

        Raises:
            BackendError: Credentials, permission or certificates are wrong: trying again is no use.
            UnsupportedServerError: The server does not speak RESP3.
            ConnectionLostError: It could not be reached; it may be reachable later.
        """
        seen, encrypted = self._seen, issubclass(self.connection_class, SSLConnection)
        unsure = not seen.opened and seen.asked < _MOST_ASKED and "path" not in self.settings
        until = asyncio.get_running_loop().time() + limit
        seconds = limit
        if unsure and encrypted:
            # A server that speaks no TLS is silent. It is then asked without, and at first soon.
            seconds = limit * 0.75 if seen.tried else min(limit / 2, 1.0)
        seen.tried = True
        timer = asyncio.timeout(seconds)
        try:
            async with timer:
                connection = await self._connect()
        except TimeoutError:
            problem: BackendError = ConnectionLostError(
                f"no connection to Redis at {self.where} within {seconds:.3g} s", maybe_held=False
            )
        except ConnectionLostError as error:
            problem = error
        else:
            seen.opened = True
            return connection
        if unsure and (timer.expired() if encrypted else was_cut(problem.__cause__)):
            problem = await self._without_or_with_tls(until) or problem
        try:
            raise problem
        finally:
            # It has this frame in its traceback.
            del problem

    async def _connect(self) -> AbstractConnection:
        connection = self.connection_class(**self.settings)
        try:
            await connection.connect()  # type: ignore[no-untyped-call]  # redis-py's
        except Exception as error:
            problem = connect_error(error, self.where, self.settings.get("password"))
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        else:
            return connection
        await connection.disconnect(nowait=True)
        try:
            # Not where the other error is at hand, which then would be its context.
            raise problem
        finally:
            # It has this frame in its traceback.
            del problem

    async def _without_or_with_tls(self, until: float) -> BackendError | None:
        """Ask a server that did not understand us the other way; return what is wrong then."""
        limit = min(1.0, until - asyncio.get_running_loop().time())
        if issubclass(self.connection_class, SSLConnection):
            if await self._first_byte(b"PING\r\n", limit) in (b"+", b"-"):
                # The next attempt is to be told as soon.
                self._seen.tried = False
                return BackendError(
                    f"Redis at {self.where} does not speak TLS there, and TLS was asked for"
                    " (rediss://, valkeys:// or ssl=True)"
                )
        elif await self._first_byte(_client_hello(), limit) in (b"\x15", b"\x16"):
            return BackendError(
                f"Redis at {self.where} speaks TLS there: connect with rediss://, valkeys://"
                " or ssl=True"
            )
        self._seen.asked += 1
        return None

    async def _first_byte(self, said: bytes, limit: float) -> bytes:
        """Return how the server begins its answer to `said`; nothing if there is none."""
        host, port = self.settings.get("host", "localhost"), self.settings.get("port", 6379)
        try:
            async with asyncio.timeout(limit):
                reader, writer = await asyncio.open_connection(host, port)
                try:
                    writer.write(said)
                    return await reader.read(1)
                finally:
                    writer.transport.abort()
        except (OSError, TimeoutError):
            return b""


def _client_hello() -> bytes:
    """Return how a client begins to speak TLS."""
    context, out = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.MemoryBIO()
    # The name of no host, for nothing is checked: how the answer begins is all that matters.
    context.check_hostname = False
    tls = context.wrap_bio(ssl.MemoryBIO(), out)
    with suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return out.read()


def take_over(connection: AbstractConnection, protocol: asyncio.Protocol) -> asyncio.Transport:
    """Make `protocol` the reader of an open connection; return its transport.

    The one place that uses a private name of redis-py. The connection object must be kept
    and disconnected in the end: it still owns the socket.

    Raises:
        UnsupportedServerError: This release of redis-py keeps its transport elsewhere.
    """
    writer = getattr(connection, "_writer", None)
    transport: asyncio.Transport | None = getattr(writer, "transport", None)
    # Not an isinstance check: uvloop's transports have no base class in asyncio.
    if transport is None or not hasattr(transport, "set_protocol"):
        raise UnsupportedServerError("this release of redis-py hides the transport we need")
    reader = getattr(connection, "_reader", None)
    if transport.is_closing() or (reader is not None and reader.at_eof()):
        # Its end was told to redis-py's protocol and will not be told to ours.
        raise ConnectionLostError("the connection broke while it was opened", maybe_held=False)
    transport.set_protocol(protocol)
    return transport


def let_go(connection: AbstractConnection) -> None:
    """Close a connection where nothing can be awaited; its transport ends a turn later."""
    # What redis-py's own finalizer does.
    connection._close()  # type: ignore[no-untyped-call]


def tear_off(connection: AbstractConnection) -> None:
    """Close the socket of a connection whose event loop was closed before it.

    asyncio's transports cannot be closed then; uvloop has closed its own.
    """
    writer = getattr(connection, "_writer", None)
    connection._writer = connection._reader = None
    transport = getattr(writer, "transport", None)
    # Not uvloop's, which have no base class in asyncio.
    while isinstance(transport, asyncio.BaseTransport):
        # What the finalizers of both ask, and complain of.
        for flag in ("_closing", "_closed"):
            if hasattr(transport, flag):
                setattr(transport, flag, True)
        sock = getattr(transport, "_sock", None)
        if sock is not None:
            transport._sock = None  # type: ignore[attr-defined]
            sock.close()
        # TLS has a transport of its own above that of the socket.
        transport = getattr(getattr(transport, "_ssl_protocol", None), "_transport", None)


def connector_from_url(url: str, client_name: str | None) -> Connector:
    """Return how to connect to what `url` names.

    Raises:
        TypeError: The URL is not a str.
        ValueError: The URL is malformed, of a scheme not supported, or switches TLS checks off.
    """
    target = read_url(url)
    classes: dict[str, type[AbstractConnection]] = {
        "tcp": Connection,
        "tls": SSLConnection,
        "unix": UnixDomainSocketConnection,
    }
    return _connector(
        classes[target.kind],
        target.settings,
        client_name,
        target.connect_timeout,
        target.command_timeout,
    )


def connector_from_client(client: object, client_name: str | None) -> Connector:
    """Return how to connect to where an existing redis-py client connects.

    Raises:
        TypeError: It is not an asyncio client of redis-py.
        ValueError: It is a cluster or Sentinel client.
    """
    if isinstance(client, RedisCluster):
        raise ValueError("a RedisCluster is not supported by this version")
    if isinstance(client, str):
        raise TypeError("Redisson takes a redis.asyncio.Redis; Redisson.from_url takes a URL")
    if not isinstance(client, Redis):
        raise TypeError(
            "Redisson takes a redis.asyncio.Redis, not"
            f" {type(client).__module__}.{type(client).__qualname__}"
        )
    pool = client.connection_pool
    if (
        not issubclass(pool.connection_class, Connection | UnixDomainSocketConnection)
        or "connection_pool" in pool.connection_kwargs
    ):
        raise ValueError("a Sentinel client is not supported by this version")
    seconds = pool.connection_kwargs.get("socket_connect_timeout")
    if seconds == _REDIS_PY_CONNECT_TIMEOUT:
        seconds = None
    if seconds is not None:
        seconds = check_lease_time(seconds, "socket_connect_timeout")
    return _connector(pool.connection_class, pool.connection_kwargs, client_name, seconds)


def _connector(
    connection_class: type[AbstractConnection],
    given: dict[str, Any],
    client_name: str | None,
    connect_timeout: float | None,
    command_timeout: float | None = None,
) -> Connector:
    settings = {k: v for k, v in given.items() if k not in _DROPPED}
    settings["protocol"] = 3
    settings["retry"] = Retry(NoBackoff(), 0)
    settings["maint_notifications_config"] = MaintNotificationsConfig(enabled=False)
    # Ours bound an attempt as a whole.
    settings["socket_timeout"] = settings["socket_connect_timeout"] = None
    if client_name is not None:
        settings["client_name"] = client_name
    if issubclass(connection_class, SSLConnection):
        if settings.get("ssl_cert_reqs", "required") not in ("required", ssl.CERT_REQUIRED):
            log.warning("the certificate of the Redis server is not checked, as configured")
        elif not settings.get("ssl_check_hostname", True):
            log.warning(
                "the name in the certificate of the Redis server is not checked, as configured"
            )
        if settings.get("ssl_min_version") is None:
            settings["ssl_min_version"] = ssl.TLSVersion.TLSv1_2
    if not _is_taken(connection_class, settings):
        raise ValueError(
            "redis-py does not take a setting of this client's pool: the client itself fails, too"
        )
    return Connector(connection_class, settings, connect_timeout, command_timeout)


def _is_taken(connection_class: type[AbstractConnection], settings: dict[str, Any]) -> bool:
    """Whether redis-py knows these settings; nothing connects yet.

    Its own error is not told: the name of a setting may come from a URL.
    """
    try:
        connection_class(**settings)
    except (TypeError, ValueError, redis.exceptions.RedisError):
        return False
    return True
