"""URLs of several servers: clusters, masters that sentinels name, lists with one master."""

from __future__ import annotations

from typing import Any

import pytest
from redis.asyncio import Connection, SSLConnection

from redisson_py import Redisson
from redisson_py._addresses import Address, Topology, write_address
from redisson_py._redis.redis_py import Servers, servers_from_url
from redisson_py._redis.url import read_url

pytestmark = pytest.mark.also("floor")

SCHEMES = ("redis", "rediss", "valkey", "valkeys")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    ("form", "topology", "addresses"),
    [
        ("{}+cluster://a", "cluster", [("a", 6379)]),
        ("{}+cluster://", "cluster", [("localhost", 6379)]),
        ("{}+cluster://:7000", "cluster", [("localhost", 7000)]),
        ("{}+cluster://a:1,b,[::1]:2,[::2]", "cluster", [("a", 1), ("b", 6379), ("::1", 2)]),
        ("{}+cluster://a:1,b:2,A:1/0", "cluster", [("a", 1), ("b", 2)]),
        ("{}+sentinel://a/s", "sentinel", [("a", 26379)]),
        ("{}+sentinel:///s", "sentinel", [("localhost", 26379)]),
        ("{}+sentinel://[::1],a:1/s/0", "sentinel", [("::1", 26379), ("a", 1)]),
        ("{}://a,b:1", "replicated", [("a", 6379), ("b", 1)]),
        ("{}://[::1]:1,[::2]:2/3", "replicated", [("::1", 1), ("::2", 2)]),
        ("{}://me:a,b@h,i", "replicated", [("h", 6379), ("i", 6379)]),
        ("{}://a:1,a:1", "replicated", [("a", 1)]),
        ("{}://a:1", "single", [("a", 1)]),
        ("{}://", "single", [("localhost", 6379)]),
    ],
)
def test_addresses_are_read(
    scheme: str, form: str, topology: Topology, addresses: list[Address]
) -> None:
    servers = servers_from_url(form.format(scheme.upper()), None)
    assert servers.topology == topology
    assert [*servers.addresses][:3] == addresses
    expected = SSLConnection if scheme in ("rediss", "valkeys") else Connection
    assert servers.connector.connection_class is expected
    assert servers.connector.where == write_address(*addresses[0])
    assert (servers.sentinel is not None) == (topology == "sentinel")
    if servers.sentinel is not None:
        assert servers.sentinel.connection_class is expected
        assert servers.sentinel.where == servers.connector.where


def sentinel_and_servers(url: str) -> tuple[dict[str, Any], dict[str, Any]]:
    target = read_url(url)
    assert target.sentinel is not None
    address = {"host": "h", "port": 26379}
    assert address.items() <= target.sentinel.items() & target.settings.items()
    return (
        {name: value for name, value in target.sentinel.items() if name not in address},
        {name: value for name, value in target.settings.items() if name not in address},
    )


@pytest.mark.parametrize(
    ("url", "sentinel", "settings"),
    [
        ("redis+sentinel://h/s", {}, {}),
        ("redis+sentinel://h/s/2", {}, {"db": 2}),
        ("redis+sentinel://h/s?db=2", {}, {"db": 2}),
        ("redis+sentinel://h/s/2/?db=2", {}, {"db": 2}),
        ("redis+sentinel://me:pw@h/s", {}, {"username": "me", "password": "pw"}),
        (
            "redis+sentinel://me:pw@h/s?sentinel_username=you&sentinel_password=%26",
            {"username": "you", "password": "&"},
            {"username": "me", "password": "pw"},
        ),
        ("redis+sentinel://h/s?sentinel_password=pw", {"password": "pw"}, {}),
        (
            "redis+sentinel://h/s?client_name=c&socket_keepalive=no",
            {"client_name": "c", "socket_keepalive": False},
            {"client_name": "c", "socket_keepalive": False},
        ),
        ("rediss+sentinel://h/s?ssl_ca_certs=c", {"ssl_ca_certs": "c"}, {"ssl_ca_certs": "c"}),
        ("rediss+sentinel://h/s?ssl_ca_certs=c&sentinel_ssl=no", {}, {"ssl_ca_certs": "c"}),
        ("redis+sentinel://h/s?ssl_ca_certs=c&sentinel_ssl=1", {"ssl_ca_certs": "c"}, {}),
    ],
)
def test_sentinels_have_users_of_their_own(
    url: str, sentinel: dict[str, Any], settings: dict[str, Any]
) -> None:
    assert sentinel_and_servers(url) == (sentinel, settings)


@pytest.mark.parametrize(
    ("url", "of_servers", "of_sentinels"),
    [
        ("rediss+sentinel://h/s", SSLConnection, SSLConnection),
        ("rediss+sentinel://h/s?sentinel_ssl=false", SSLConnection, Connection),
        ("redis+sentinel://h/s?sentinel_ssl=true", Connection, SSLConnection),
        ("valkey+sentinel://h/s?sentinel_ssl=no", Connection, Connection),
    ],
)
def test_sentinels_may_speak_tls_alone(url: str, of_servers: type, of_sentinels: type) -> None:
    servers = servers_from_url(url, None)
    assert servers.sentinel is not None
    assert servers.connector.connection_class is of_servers
    assert servers.sentinel.connection_class is of_sentinels


@pytest.mark.parametrize("scheme", ["redis+cluster", "valkeys", "redis"])
def test_settings_are_for_all_servers(scheme: str) -> None:
    url = f"{scheme}://me:pw@a,b/3?client_name=c&socket_timeout=2&socket_connect_timeout=1"
    target = read_url(url)
    assert target.settings == {
        "username": "me",
        "password": "pw",
        "db": 3,
        "client_name": "c",
        "host": "a",
        "port": 6379,
    }
    assert (target.connect_timeout, target.command_timeout) == (1, 2)
    servers = servers_from_url(url, None)
    assert (servers.connector.connect_timeout, servers.command_timeout) == (1, 2)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("redis+cluster:a", "lacks the two slashes of redis+cluster://"),
        ("valkeys+sentinel:/a", "lacks the two slashes of valkeys+sentinel://"),
        ("redis+clusters://a", "must start with redis://"),
        ("redis+://a", "must start with redis://"),
        ("unix+cluster:///a", "must start with redis://"),
        ("cluster+redis://a", "must start with redis://"),
        ("redis://a,", "the URL lacks a host next to a comma"),
        ("redis+cluster://,a", "the URL lacks a host next to a comma"),
        ("redis+cluster://a,,b", "the URL lacks a host next to a comma"),
        ("redis+sentinel://a,:1/s", "the URL lacks a host next to a comma"),
        ("redis://u:p@a,u:p@b", "has an @ and a comma in its user name or password"),
        ("redis+cluster://a:1,b:0", "the port in the URL"),
        ("redis+cluster://a,::1", "the port in the URL"),
        ("redis+cluster://a,[::1", "cannot parse the URL"),
        ("redis+cluster://a,b..c", "invalid host"),
        ("redis+cluster://a, b", "invalid host"),
        ("redis+cluster://a;b", "invalid host"),
        ("redis+cluster://a/zero", "database in the URL"),
        ("redis+cluster://a/1?db=2", "two databases"),
        ("redis+sentinel://h", "lacks the service name"),
        ("redis+sentinel://h//", "lacks the service name"),
        ("redis+sentinel://h/0", "a number in place of the service name"),
        ("redis+sentinel://h/s/zero", "database in the URL"),
        ("redis+sentinel://h/s/0/1", "database in the URL"),
        ("redis+sentinel://h/s/1?db=2", "two databases"),
        ("redis+sentinel://h/s?sentinel_ssl=perhaps", "sentinel_ssl in the URL must be true or"),
        ("redis+sentinel://h/s?sentinel_username=", "sentinel_username in the URL must be"),
        ("redis+sentinel://h/s?ssl_ca_certs=c", "ssl_ca_certs in the URL needs rediss://"),
        ("redis+sentinel://h/s?ssl_ca_certs=c&sentinel_ssl=no", "ssl_ca_certs in the URL needs"),
        ("redis+cluster://h?sentinel_ssl=no", "sentinel_ssl in the URL needs redis+sentinel://"),
        ("redis://h?sentinel_username=a", "sentinel_username in the URL needs redis+sentinel://"),
        ("unix:///h?sentinel_password=a", "sentinel_password in the URL needs redis+sentinel://"),
        ("rediss+cluster://h?ssl_cert_reqs=none", "turn off the certificate check"),
    ],
)
def test_what_is_refused(url: str, text: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # compared below, as it is
        read_url(url)
    assert text in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_what_is_said_of_servers_has_no_password() -> None:
    url = "redis+sentinel://me:canary@a,[::1]:2/s?sentinel_password=canary"
    servers = servers_from_url(url, None)
    assert isinstance(servers, Servers)
    assert servers.where == "a:26379,[::1]:2"
    shown = [repr(servers), repr(servers.connector), repr(servers.sentinel), repr(read_url(url))]
    assert not any("canary" in each for each in shown)


@pytest.mark.parametrize(
    ("url", "option", "text"),
    [
        ("redis://h", {"sharded_pubsub": "on"}, "needs a cluster, and this is one server"),
        ("redis://h,i", {"sharded_pubsub": "on"}, "needs a cluster, and this is a list of servers"),
        (
            "redis+sentinel://h/s",
            {"sharded_pubsub": "on"},
            "needs a cluster, and this is a master that sentinels name",
        ),
        ("redis://h", {"address_map": {}}, "address_map is .* and this is one server"),
        ("redis://h,i", {"address_map": {}}, "address_map is .* and this is a list of servers"),
    ],
)
def test_what_servers_cannot_do_is_refused(url: str, option: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Redisson.from_url(url, **option)
