"""The narrow door to redis-py: settings, opening connections, foreign errors.

redis-py does what it is best at: URLs, TLS, credentials, HELLO 3, the client's name. The
open connection's transport is then handed to our own stream, which reads and writes faster
and in an order we can rely on.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

import redis.exceptions
from redis.asyncio import Connection, ConnectionPool, Redis, RedisCluster, SSLConnection
from redis.asyncio.connection import AbstractConnection, UnixDomainSocketConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.maint_notifications import MaintNotificationsConfig

from redisson_py.errors import BackendError, ConnectionLostError, UnsupportedServerError

__all__ = [
    "AbstractConnection",
    "Connector",
    "connector_from_client",
    "connector_from_url",
    "let_go",
    "take_over",
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

_LATER = {
    "redis+cluster": "Redis Cluster",
    "rediss+cluster": "Redis Cluster",
    "redis+sentinel": "Redis Sentinel",
    "rediss+sentinel": "Redis Sentinel",
}


@dataclass(frozen=True)
class Connector:
    """How to open one more connection to one server."""

    connection_class: type[AbstractConnection]
    settings: dict[str, Any]

    def __repr__(self) -> str:
        return f"<Connector to {self.where}>"

    @property
    def where(self) -> str:
        """The address, without any secret."""
        if "path" in self.settings:
            return str(self.settings["path"])
        return f"{self.settings.get('host', 'localhost')}:{self.settings.get('port', 6379)}"

    @property
    def database(self) -> str:
        """The address and the number of the database."""
        return f"{self.where}/{self.settings.get('db') or 0}"

    async def open(self) -> AbstractConnection:
        """Return a connection that has said HELLO 3, authenticated and chosen its database.

        Raises:
            BackendError: Credentials, permission or certificates are wrong: trying again is no use.
            UnsupportedServerError: The server does not speak RESP3.
            ConnectionLostError: It could not be reached; it may be reachable later.
        """
        connection = self.connection_class(**self.settings)
        try:
            await connection.connect()  # type: ignore[no-untyped-call]  # redis-py's
        except (redis.exceptions.RedisError, OSError) as error:
            await connection.disconnect(nowait=True)
            raise connect_error(error, self.where) from error
        except Exception as error:
            await connection.disconnect(nowait=True)
            if _from_transport(error):
                raise connect_error(error, self.where) from error
            # A credential provider or connect function of the user's own.
            raise BackendError(f"cannot connect to Redis at {self.where}: {error!r}") from error
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return connection


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


def connector_from_url(url: str, client_name: str | None) -> Connector:
    """Return how to connect to what `url` names.

    Raises:
        TypeError: The URL is not a str.
        ValueError: The URL is malformed, of a scheme not supported, or switches TLS checks off.
    """
    if not isinstance(url, str):
        raise TypeError(f"url must be str, not {type(url).__name__}")
    parts = urlsplit(url)
    if parts.scheme in _LATER:
        raise ValueError(
            f"{parts.scheme}:// is not supported by this version: {_LATER[parts.scheme]}"
            " comes in a later one; redis://, rediss:// and unix:// work"
        )
    if parts.scheme not in ("redis", "rediss", "unix"):
        raise ValueError("the URL must start with redis://, rediss:// or unix://")
    query = parse_qs(parts.query)
    if query.get("ssl_cert_reqs", ["required"])[0].lower() != "required":
        raise ValueError("ssl_cert_reqs in the URL would switch off the check of the certificate")
    if not _has_good_port(parts):
        # Not told: a password without a user's name in front ends up here.
        raise ValueError("the port in the URL must be a number below 65536")
    database = parts.path.strip("/")
    if parts.scheme != "unix" and database and not database.isdecimal():
        # Not told: with a slash in it, a password ends up here.
        raise ValueError("the database in the URL must be a number")
    return _connector(ConnectionPool.from_url(url), client_name)


def _has_good_port(parts: SplitResult) -> bool:
    try:
        parts.port  # noqa: B018  # a property that raises
    except ValueError:
        return False
    return True


def connector_from_client(client: object, client_name: str | None) -> Connector:
    """Return how to connect to where an existing redis-py client connects.

    Raises:
        TypeError: It is not an asyncio client of redis-py.
        ValueError: It is a cluster or Sentinel client.
    """
    if isinstance(client, RedisCluster):
        raise ValueError("a RedisCluster is not supported by this version")
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
    return _connector(pool, client_name)


def _connector(pool: ConnectionPool, client_name: str | None) -> Connector:
    settings = {k: v for k, v in pool.connection_kwargs.items() if k not in _DROPPED}
    settings["protocol"] = 3
    settings["retry"] = Retry(NoBackoff(), 0)
    settings["maint_notifications_config"] = MaintNotificationsConfig(enabled=False)
    if client_name is not None:
        settings["client_name"] = client_name
    if issubclass(pool.connection_class, SSLConnection):
        if settings.get("ssl_cert_reqs", "required") not in ("required", ssl.CERT_REQUIRED):
            log.warning("the certificate of the Redis server is not checked, as configured")
        if settings.get("ssl_min_version") is None:
            settings["ssl_min_version"] = ssl.TLSVersion.TLSv1_2
    try:
        # Nothing connects yet; a setting that does not exist is told now and not later.
        pool.connection_class(**settings)
    except (TypeError, redis.exceptions.RedisError) as error:
        raise ValueError(f"redis-py does not take these settings: {error}") from error
    return Connector(pool.connection_class, settings)


_FINAL = (
    redis.exceptions.AuthenticationError,
    redis.exceptions.AuthorizationError,
    redis.exceptions.AuthenticationWrongNumberOfArgsError,
    redis.exceptions.NoPermissionError,
)


def _from_transport(error: Exception) -> bool:
    """Whether the event loop raised this, for it was given bytes after the connection broke.

    uvloop then says RuntimeError, asyncio from Python 3.12 on AttributeError.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = "" if trace is None else str(trace.tb_frame.f_globals.get("__name__", ""))
    return module.partition(".")[0] in ("asyncio", "uvloop")


def connect_error(error: BaseException, where: str) -> BackendError:
    """Return what a failed attempt to connect means to us."""
    chain = [error, error.__cause__, error.__context__, *error.args]
    if isinstance(error, _FINAL):
        return BackendError(f"Redis at {where} refused the credentials: {error}")
    for reason in chain:
        if isinstance(reason, ssl.SSLError | ssl.CertificateError):
            return BackendError(f"TLS with Redis at {where} failed: {reason}")
        if isinstance(reason, FileNotFoundError) and ":" in where:
            return BackendError(f"TLS with Redis at {where} failed: a certificate file is missing")
    if isinstance(error, redis.exceptions.ResponseError):
        text = str(error)
        if "unknown command" in text.lower() or "NOPROTO" in text:
            return UnsupportedServerError(
                f"the server at {where} does not speak RESP3 (Redis 6.2 or newer is needed): {text}"
            )
        if not text.startswith(("LOADING", "BUSY", "MASTERDOWN")):
            return BackendError(f"Redis at {where} refused the connection: {text}")
    reason = _reason(error)
    return ConnectionLostError(f"no connection to Redis at {where}: {reason}", maybe_held=False)


def _reason(error: BaseException) -> str:
    if isinstance(error, socket.gaierror):
        return error.strerror or "unknown host"
    return str(error) or type(error).__name__
