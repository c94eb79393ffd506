"""The servers that a URL or a client of redis-py names.

Addresses and settings are read from them. Nothing connects here (`_connector` does), and redis-py's
own discovery of nodes and masters is not used.
"""

from __future__ import annotations

import logging
import ssl
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from inspect import signature
from typing import Any

import redis.exceptions
from redis.asyncio import Connection, Redis, RedisCluster, SSLConnection
from redis.asyncio.connection import AbstractConnection, UnixDomainSocketConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import (
    Sentinel,
    SentinelConnectionPool,
    SentinelManagedConnection,
    SentinelManagedSSLConnection,
)
from redis.backoff import NoBackoff

from redisson_py._addresses import Address, AddressMap, Topology, one_argument, write_address
from redisson_py._redis.connector import (
    BoundedParser,
    Connector,
    ask_once,
    let_go,
    take_over,
    tear_off,
)
from redisson_py._redis.url import Kind, Target, read_url
from redisson_py._time import check_lease_time

__all__ = [
    "AbstractConnection",
    "Connector",
    "Servers",
    "ask_once",
    "let_go",
    "servers_from_client",
    "servers_from_target",
    "servers_from_url",
    "take_over",
    "tear_off",
]

log = logging.getLogger("redisson_py")

#: Settings of the user that our connections must not use: retries (we decide on those), decoding,
#: and health checks and pushes, which would come between our replies.
_DROPPED = (
    "connection_class",
    "connection_pool",
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
    "response_callbacks",
    "retry",
    "retry_on_error",
    "retry_on_timeout",
    "timeout",
)

_TAKEN = "Redisson takes a redis.asyncio.Redis or redis.asyncio.RedisCluster"

#: redis-py's own default for connecting, in seconds: the user did not ask for it.
_REDIS_PY_CONNECT_TIMEOUT = 5

_CLASSES: dict[Kind, type[AbstractConnection]] = {
    "tcp": Connection,
    "tls": SSLConnection,
    "unix": UnixDomainSocketConnection,
}

#: The connection classes of Sentinel clients, and those used here, because we find the master.
_MANAGED: dict[type[AbstractConnection], type[AbstractConnection]] = {
    SentinelManagedConnection: Connection,
    SentinelManagedSSLConnection: SSLConnection,
}


@dataclass(frozen=True)
class Servers:
    """The servers that a client is for, and how to connect to them.

    Attributes:
        connector: How to connect to the servers with the data: the settings are for all of them,
            the address is that of the first.
        addresses: Where to begin: the nodes of a cluster, the sentinels, or the servers one of
            which is master. Empty for a Unix socket.
        service: What the sentinels call the master.
        sentinel: How to connect to the sentinels, at the address of the first.
        command_timeout: Seconds that a call may take, if the URL says so.
        address_map: From the address that a node announces to the one to use, if a client has it.
    """

    topology: Topology
    connector: Connector
    addresses: tuple[Address, ...]
    service: str = ""
    sentinel: Connector | None = None
    command_timeout: float | None = None
    address_map: AddressMap | None = None

    @property
    def where(self) -> str:
        """The addresses, without any secret."""
        if self.topology == "single":
            return self.connector.where
        return ",".join(write_address(*address) for address in self.addresses)

    @property
    def database(self) -> str:
        """A text that is the same for all clients of these servers and this database."""
        if self.topology == "single":
            return self.connector.database
        addresses = ",".join(sorted(write_address(*address) for address in self.addresses))
        service = f"{self.service}@" if self.service else ""
        return f"{service}{addresses}/{self.connector.settings.get('db') or 0}"

    def __repr__(self) -> str:
        return f"<Servers {self.topology} {self.where}>"


def servers_from_url(url: str, client_name: str | None) -> Servers:
    """Return the servers that `url` names.

    Raises:
        TypeError: The URL is not a str.
        ValueError: The URL is malformed, of a scheme not supported, or switches TLS checks off.
    """
    return servers_from_target(read_url(url), client_name)


def servers_from_target(target: Target, client_name: str | None) -> Servers:
    """Return the servers of a target.

    Raises:
        ValueError: redis-py does not take one of its settings.
    """
    sentinel = None
    if target.sentinel is not None:
        sentinel = _connector(
            _CLASSES[target.sentinel_kind], target.sentinel, client_name, target.connect_timeout
        )
    return Servers(
        target.topology,
        _connector(_CLASSES[target.kind], target.settings, client_name, target.connect_timeout),
        target.addresses,
        target.service,
        sentinel,
        target.command_timeout,
    )


def servers_from_client(client: object, client_name: str | None) -> Servers:
    """Return the servers that an existing redis-py client is for.

    Raises:
        TypeError: It is not an asyncio client of redis-py.
        ValueError: It reads from replicas, or connects in a way of its own.
    """
    if _is_fake(client):
        raise TypeError(_refusal(client))
    if isinstance(client, RedisCluster):
        return _of_cluster(client, client_name)
    if isinstance(client, Sentinel):
        raise TypeError(
            "Redisson takes a redis.asyncio.Redis: for Sentinel, pass master_for(service)"
        )
    if not isinstance(client, Redis):
        raise TypeError(_refusal(client))
    pool = client.connection_pool
    if isinstance(pool, SentinelConnectionPool):
        return _of_sentinel(pool, client_name)
    connector = _of_pool(client, client_name)
    return Servers("single", connector, _address(connector))


def _is_fake(client: object) -> bool:
    """Return whether a client is a mock, or of fakeredis, which is a subclass of redis-py's."""
    mock = sys.modules.get("unittest.mock")
    if mock is not None and isinstance(client, mock.NonCallableMock):
        return True
    pool = getattr(client, "connection_pool", None)
    connection_class = getattr(pool, "connection_class", None)
    return _is_of("fakeredis", type(client)) or _is_of("fakeredis", connection_class)


def _refusal(client: object) -> str:
    """Return the text of the error for what is no client, or a fake."""
    if isinstance(client, str | bytes):
        return f"{_TAKEN}; Redisson.from_url takes a URL"
    if _is_fake(client):
        return (
            f"Redisson needs a real server, and this {_name(type(client))} is a fake. For tests,"
            " redisson_py.testing starts a server, and the pytest plugin has fixtures for it: see"
            " docs/testing.md"
        )
    if isinstance(client, type):
        return f"{_TAKEN}, not the class {_name(client)} itself"
    text = f"{_TAKEN}, not {_name(type(client))}"
    if _is_of("redis", type(client)) and not _is_of("redis.asyncio", type(client)):
        return (
            f"{text}, which is synchronous. Redisson.from_url takes a URL instead, also in"
            " redisson_py.sync, which has the locks for threads"
        )
    return f"{text}. Redisson.from_url takes the server's URL instead"


def _is_of(package: str, kind: object) -> bool:
    """Return whether a class, one of its bases, or a function is from a package."""
    modules = [getattr(each, "__module__", "") for each in getattr(kind, "__mro__", (kind,))]
    return any(f"{module}.".startswith(f"{package}.") for module in modules)


def _name(kind: type) -> str:
    builtin = kind.__module__ == "builtins"
    return kind.__qualname__ if builtin else f"{kind.__module__}.{kind.__qualname__}"


def _of_cluster(client: RedisCluster, client_name: str | None) -> Servers:
    given = client.get_connection_kwargs()
    # This function is redis-py's own: it sends READONLY, for replicas.
    settings = {name: value for name, value in given.items() if name != "redis_connect_func"}
    addresses = _distinct((str(node.host), int(node.port)) for node in _startup_nodes(client))
    settings["host"], settings["port"] = addresses[0]
    connection_class: Any = settings["connection_class"]
    remap = client.nodes_manager.address_remap
    return Servers(
        "cluster",
        _connector(connection_class, settings, client_name, _connect_timeout(settings)),
        addresses,
        address_map=None if remap is None else AddressMap(one_argument(remap)),
    )


def _startup_nodes(client: RedisCluster) -> Iterable[Any]:
    nodes: Iterable[Any] | None = getattr(client, "startup_nodes", None)
    # redis-py before 7 keeps them in one place only, to which it adds the nodes that it finds.
    return client.nodes_manager.startup_nodes.values() if nodes is None else nodes


def _of_sentinel(pool: SentinelConnectionPool, client_name: str | None) -> Servers:
    if not pool.is_master:
        raise ValueError(
            "this client reads from replicas, but locks need the master: pass the client that"
            " Sentinel.master_for returns"
        )
    plain = _MANAGED.get(pool.connection_class)
    if plain is None:
        raise ValueError("a Sentinel client with a custom connection class is not supported")
    manager = pool.sentinel_manager
    if getattr(manager, "_force_master_ip", None) is not None:
        raise ValueError("Sentinel's force_master_ip is not supported: use address_map")
    sentinels = [_of_pool(each, client_name) for each in manager.sentinels]
    if not sentinels:
        raise ValueError("the Sentinel client has no sentinels")
    addresses = _distinct(address for each in sentinels for address in _address(each))
    settings = {**pool.connection_kwargs}
    settings["host"], settings["port"] = addresses[0]
    service = pool.service_name
    return Servers(
        "sentinel",
        _connector(plain, settings, client_name, _connect_timeout(settings)),
        addresses,
        service.decode() if isinstance(service, bytes) else str(service),
        sentinels[0],
    )


def _of_pool(client: Redis, client_name: str | None) -> Connector:
    pool = client.connection_pool
    given: object = pool.connection_class
    if (
        not isinstance(given, type)
        or not issubclass(given, Connection | UnixDomainSocketConnection)
        or "connection_pool" in pool.connection_kwargs
    ):
        raise ValueError("this client's connection class is not supported")
    settings = pool.connection_kwargs
    return _connector(pool.connection_class, settings, client_name, _connect_timeout(settings))


def _connect_timeout(settings: dict[str, Any]) -> float | None:
    seconds = settings.get("socket_connect_timeout")
    if seconds is None or seconds == _REDIS_PY_CONNECT_TIMEOUT:
        return None
    return check_lease_time(seconds, "socket_connect_timeout")


def _address(connector: Connector) -> tuple[Address, ...]:
    settings = connector.settings
    if "path" in settings:
        return ()
    return ((str(settings.get("host", "localhost")), int(settings.get("port", 6379))),)


def _distinct(addresses: Iterable[Address]) -> tuple[Address, ...]:
    return tuple(dict.fromkeys(addresses))


def _connector(
    connection_class: type[AbstractConnection],
    given: dict[str, Any],
    client_name: str | None,
    connect_timeout: float | None,
) -> Connector:
    settings = {k: v for k, v in given.items() if k not in _DROPPED}
    settings["protocol"] = 3
    settings["parser_class"] = BoundedParser
    settings["retry"] = Retry(NoBackoff(), 0)
    # Our own timeouts limit an attempt as a whole.
    settings["socket_timeout"] = settings["socket_connect_timeout"] = None
    if client_name is not None:
        settings["client_name"] = client_name
    if issubclass(connection_class, SSLConnection):
        if settings.get("ssl_cert_reqs", "required") not in ("required", ssl.CERT_REQUIRED):
            log.warning("the certificate of the Redis server is not checked, as configured")
        elif not settings.setdefault("ssl_check_hostname", True):
            log.warning(
                "the name in the certificate of the Redis server is not checked:"
                " ssl_check_hostname is False, which is the default of redis-py before 6.0"
            )
        if settings.get("ssl_min_version") is None and _takes(connection_class, "ssl_min_version"):
            settings["ssl_min_version"] = ssl.TLSVersion.TLSv1_2
    connection = _made(connection_class, settings)
    if connection is None:
        newer = [n for n in settings if n.startswith("ssl_") and not _takes(connection_class, n)]
        if newer:
            raise ValueError(
                f"redis-py {redis.__version__} does not support {', '.join(sorted(newer))};"
                " a newer release may"
            )
        raise ValueError(
            "redis-py does not take a setting of this client's pool: the client itself fails, too"
        )
    if hasattr(connection, "driver_info"):
        # redis-py reads a file to find its own version: done once here, not for each connection.
        settings["driver_info"] = connection.driver_info
    return Connector(connection_class, settings, connect_timeout)


def _takes(connection_class: type[AbstractConnection], setting: str) -> bool:
    """Return whether this release of redis-py has the setting."""
    return any(setting in signature(each).parameters for each in connection_class.__mro__)


def _made(
    connection_class: type[AbstractConnection], settings: dict[str, Any]
) -> AbstractConnection | None:
    """Return a connection that is not open, or None if redis-py does not take these settings.

    Its error is not passed on: the name of a setting may come from a URL.
    """
    try:
        return connection_class(**settings)
    except (TypeError, ValueError, redis.exceptions.RedisError):
        return None
