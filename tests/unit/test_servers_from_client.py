"""Where clients of redis-py connect is taken from them, and nothing of how they find it."""

from __future__ import annotations

import socket
import warnings
from dataclasses import replace
from inspect import signature
from typing import Any

import pytest
from redis.asyncio import Connection, ConnectionPool, Redis, RedisCluster, Sentinel, SSLConnection
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.connection import UnixDomainSocketConnection
from redis.asyncio.sentinel import (
    SentinelConnectionPool,
    SentinelManagedConnection,
    SentinelManagedSSLConnection,
)

from redisson_py._redis.redis_py import Servers, servers_from_client, servers_from_url

pytestmark = pytest.mark.also("floor")


@pytest.fixture(autouse=True)
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here makes a socket or asks for the address of a name."""

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("the network was used")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket, "gethostbyname", refuse)


def taken(client: object, name: str | None = None) -> Servers:
    """Return what is taken, after the check that ours and a URL's have the same settings."""
    servers = servers_from_client(client, name)
    same = servers_from_url("redis://h,i", None).connector.settings
    for key in ("protocol", "socket_timeout"):
        assert servers.connector.settings[key] == same[key]
    assert not {"connection_class", "connection_pool", "response_callbacks"} & {
        *servers.connector.settings
    }
    return servers


async def test_a_cluster_client() -> None:
    client = RedisCluster(
        startup_nodes=[ClusterNode("a", 1), ClusterNode("::1", "2")],
        username="me",
        password="pw",
        client_name="theirs",
        socket_connect_timeout=0.5,
        socket_timeout=0.25,
        decode_responses=True,
        max_connections=3,
    )
    servers = taken(client)
    assert servers.topology == "cluster"
    assert servers.addresses == (("a", 1), ("::1", 2))
    assert servers.where == "a:1,[::1]:2"
    assert servers.sentinel is None
    assert servers.address_map is None
    connector = servers.connector
    assert (connector.connection_class, connector.where) == (Connection, "a:1")
    assert connector.connect_timeout == 0.5
    expected = {"username": "me", "password": "pw", "client_name": "theirs"}
    assert expected.items() <= connector.settings.items()
    assert connector.settings["protocol"] == 3
    assert "decode_responses" not in connector.settings
    assert taken(client, "ours").connector.settings["client_name"] == "ours"


async def test_reading_from_replicas_is_not_taken_from_a_cluster_client() -> None:
    with warnings.catch_warnings():
        # Deprecated since redis-py 5.3.
        warnings.simplefilter("ignore", DeprecationWarning)
        client = RedisCluster(host="a", port=1, read_from_replicas=True)
    assert "redis_connect_func" in client.get_connection_kwargs()
    assert "redis_connect_func" not in taken(client).connector.settings


async def test_the_map_of_a_cluster_client_is_taken() -> None:
    client = RedisCluster(
        host="a", port=1, address_remap=lambda address: ("mapped", address[1] + 1)
    )
    found = taken(client).address_map
    assert found is not None
    assert found("10.0.0.1", 7000) == ("mapped", 7001)


def sentinel(**settings: Any) -> Sentinel:
    make: Any = Sentinel
    found: Sentinel = make([("s1", 1), ("::1", 2), ("s1", 1)], **settings)
    return found


async def test_a_master_of_a_sentinel() -> None:
    given = sentinel(
        sentinel_kwargs={"username": "watcher", "password": "seen", "socket_timeout": 0.1},
        username="me",
        password="pw",
        db=3,
    )
    servers = taken(given.master_for("orders", client_name="theirs", decode_responses=True))
    assert (servers.topology, servers.service) == ("sentinel", "orders")
    assert servers.addresses == (("s1", 1), ("::1", 2))
    settings = {"username": "me", "password": "pw", "db": 3, "client_name": "theirs"}
    assert settings.items() <= servers.connector.settings.items()
    assert servers.connector.connection_class is Connection
    assert servers.sentinel is not None
    assert servers.sentinel.where == "s1:1"
    assert servers.sentinel.connection_class is Connection
    assert {"username": "watcher", "password": "seen"}.items() <= servers.sentinel.settings.items()
    # A plain one needs no pool.
    servers.connector.connection_class(**servers.connector.settings)


@pytest.mark.parametrize("encrypted", [False, True])
async def test_tls_of_servers_and_sentinels_are_two_things(encrypted: bool) -> None:
    given = sentinel(sentinel_kwargs={"ssl": not encrypted}, ssl=encrypted)
    servers = taken(given.master_for("orders"))
    assert servers.sentinel is not None
    classes = [servers.sentinel.connection_class, servers.connector.connection_class]
    assert classes == ([Connection, SSLConnection] if encrypted else [SSLConnection, Connection])


async def test_managed_classes_become_plain_ones() -> None:
    given = sentinel()
    for managed, plain in (
        (SentinelManagedConnection, Connection),
        (SentinelManagedSSLConnection, SSLConnection),
    ):
        client = given.master_for("orders", connection_class=managed)
        assert taken(client).connector.connection_class is plain


def replica_for(given: Any) -> Any:
    # Its name since redis-py 8.1.
    return getattr(given, "replica_for", given.slave_for)("orders")


class _Own(SentinelManagedConnection):
    pass


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: sentinel().slave_for("orders"), ValueError, r"replicas.*Sentinel\.master_for"),
        (lambda: replica_for(sentinel()), ValueError, r"replicas.*Sentinel\.master_for"),
        (
            lambda: sentinel().master_for("orders", connection_class=_Own),
            ValueError,
            "custom connection class",
        ),
        (
            lambda: sentinel(force_master_ip="10.0.0.1").master_for("orders"),
            ValueError,
            "force_master_ip .* use address_map"
            if "force_master_ip" in signature(Sentinel.__init__).parameters
            else "does not take a setting",
        ),
        (sentinel, TypeError, r"master_for\(service\)"),
        (
            lambda: Redis(
                connection_pool=ConnectionPool(
                    connection_class=SentinelManagedConnection, connection_pool=None
                )
            ),
            ValueError,
            "this client's connection class is not supported",
        ),
        (lambda: None, TypeError, "not NoneType"),
    ],
)
async def test_what_is_refused(make: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        servers_from_client(make(), None)


async def test_a_client_of_one_server() -> None:
    servers = taken(Redis(host="h", port=7))
    assert (servers.topology, servers.addresses, servers.where) == ("single", (("h", 7),), "h:7")
    servers = taken(Redis(unix_socket_path="/r.sock"))
    assert (servers.addresses, servers.where) == ((), "/r.sock")
    assert servers.connector.connection_class is UnixDomainSocketConnection


def test_the_version_of_redis_py_is_not_read_from_disk_for_each_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connector = servers_from_url("redis+cluster://h1,h2", None).connector.at("h3", 7000)

    def read() -> str:
        pytest.fail("read again")

    monkeypatch.setattr("redis.utils.get_lib_version", read)
    connection: Any = connector.connection_class(**connector.settings)
    # Before redis-py 7.2 the connection has it.
    assert getattr(connection, "driver_info", connection).lib_version


def test_what_was_seen_of_another_server_is_remembered_but_not_for_ever() -> None:
    connector = servers_from_url("rediss+cluster://h1,h2", None).connector
    there = connector.at("h3", 7000)
    assert connector.at("h3", 7000) is there
    assert there.where == "h3:7000"
    # Other settings are for other connections.
    other = replace(connector, settings={**connector.settings, "client_name": "other"})
    assert other.at("h3", 7000).settings["client_name"] == "other"
    for number in range(1000):
        connector.at(f"n{number}", 7000)
    assert len(connector._others) < 100


async def test_a_sentinel_without_sentinels_is_refused() -> None:
    make: Any = Sentinel
    make_pool: Any = SentinelConnectionPool
    pool = make_pool("orders", make([]))
    with pytest.raises(ValueError, match="has no sentinels"):
        servers_from_client(Redis(connection_pool=pool), None)
