"""What a URL says, and what it is told if it says nothing that makes sense."""

from __future__ import annotations

import inspect
import ssl
from typing import Any

import pytest
from redis.asyncio import Connection, Redis, SSLConnection
from redis.asyncio.connection import AbstractConnection, UnixDomainSocketConnection

from redisson_py import Redisson
from redisson_py._redis.redis_py import (
    servers_from_client,
    servers_from_url,
)
from redisson_py._redis.url import read_url

pytestmark = pytest.mark.also("floor")


@pytest.mark.parametrize(
    ("url", "kind", "settings"),
    [
        ("redis://", "tcp", {}),
        ("redis://localhost", "tcp", {"host": "localhost"}),
        ("valkey://localhost:6380/3", "tcp", {"host": "localhost", "port": 6380, "db": 3}),
        ("REDIS://LocalHost/", "tcp", {"host": "localhost"}),
        ("  redis://localhost\n", "tcp", {"host": "localhost"}),
        ("redis://localhost:/0", "tcp", {"host": "localhost", "db": 0}),
        ("redis://[::1]:7/0", "tcp", {"host": "::1", "port": 7, "db": 0}),
        ("redis://[fe80::1%25eth0]", "tcp", {"host": "fe80::1%eth0"}),
        ("redis://redis_1.b-c.example.", "tcp", {"host": "redis_1.b-c.example."}),
        ("redis://bücher.example", "tcp", {"host": "bücher.example"}),
        ("redis://me@h", "tcp", {"host": "h", "username": "me"}),
        ("redis://:a:b@c@h", "tcp", {"host": "h", "password": "a:b@c"}),
        ("redis://:%2F%23%3F%40%25@h", "tcp", {"host": "h", "password": "/#?@%"}),
        (
            "redis://h?username=me&password=%26",
            "tcp",
            {"host": "h", "username": "me", "password": "&"},
        ),
        ("redis://h/2?db=2", "tcp", {"host": "h", "db": 2}),
        ("redis://h?client_name=a%40b", "tcp", {"host": "h", "client_name": "a@b"}),
        ("redis://h?socket_keepalive=no", "tcp", {"host": "h", "socket_keepalive": False}),
        ("redis://h?socket_read_size=9", "tcp", {"host": "h", "socket_read_size": 9}),
        ("rediss://h?ssl_ca_certs=/a/b.pem", "tls", {"host": "h", "ssl_ca_certs": "/a/b.pem"}),
        ("valkeys://h?ssl_cert_reqs=Required", "tls", {"host": "h", "ssl_cert_reqs": "required"}),
        ("rediss://h?ssl_check_hostname=True", "tls", {"host": "h", "ssl_check_hostname": True}),
        ("rediss://h?ssl_min_version=772", "tls", {"host": "h", "ssl_min_version": 772}),
        (
            "rediss://h?ssl_ciphers=ECDHE%2BAESGCM",
            "tls",
            {"host": "h", "ssl_ciphers": "ECDHE+AESGCM"},
        ),
        (
            "rediss://h?ssl_include_verify_flags=[VERIFY_X509_STRICT,VERIFY_CRL_CHECK_LEAF]",
            "tls",
            {
                "host": "h",
                "ssl_include_verify_flags": [
                    ssl.VerifyFlags.VERIFY_X509_STRICT,
                    ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF,
                ],
            },
        ),
        ("unix:///run/a%40b.sock?db=1", "unix", {"path": "/run/a@b.sock", "db": 1}),
        ("unix://me:pw@/r.sock", "unix", {"path": "/r.sock", "username": "me", "password": "pw"}),
    ],
)
def test_what_is_taken(url: str, kind: str, settings: dict[str, Any]) -> None:
    target = read_url(url)
    assert (target.topology, target.kind, target.settings) == ("single", kind, settings)
    assert (target.connect_timeout, target.command_timeout) == (None, None)
    classes: dict[str, type[AbstractConnection]] = {
        "tcp": Connection,
        "tls": SSLConnection,
        "unix": UnixDomainSocketConnection,
    }
    # What came with a later release of redis-py than this one.
    newer = {"ssl_min_version", "ssl_ciphers", "ssl_include_verify_flags"} & settings.keys()
    newer -= inspect.signature(SSLConnection.__init__).parameters.keys()
    if newer:
        with pytest.raises(ValueError, match=f"redis-py .* does not support {min(newer)}; a newer"):
            servers_from_url(url, None)
    else:
        assert servers_from_url(url, None).connector.connection_class is classes[kind]


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("", "the URL is empty: it must start with redis://"),
        ("localhost", "the URL has no scheme"),
        ("localhost:6379", "the URL has no scheme"),
        ("127.0.0.1:6379/0", "the URL has no scheme"),
        ("redis:localhost", "lacks the two slashes of redis://"),
        ("redis:/localhost", "lacks the two slashes of redis://"),
        ("valkeys:/localhost", "lacks the two slashes of valkeys://"),
        ("redis", "lacks the two slashes of redis://"),
        ("'redis://localhost'", "must start with redis://, rediss://, valkey://, valkeys://, unix"),
        ("http://localhost", "must start with redis://"),
        ("redis://h\t:1", "control character"),
        ("redis://me:\udcff@h", "UTF-8"),
        ("redis://me:℀@h", "cannot parse the URL"),
        ("redis://[::1", "cannot parse the URL"),
        ("redis://user:pa/ss@host/0", "has an @"),
        ("redis://:pa#ss@host", "has an @"),
        ("redis://:1?a=b@host", "has an @"),
        ("redis://host/0#", "contains a #"),
        ("redis://host:0", "port"),
        ("redis://host:65536", "port"),
        ("redis://host:+1", "port"),
        ("redis://::1", "port"),
        ("redis://a..b", "invalid host"),
        ("redis://%3Asecret%40host", "invalid host"),
        ("redis://host/zero", "database"),
        ("redis://host/-1", "database"),
        ("redis://host/٣", "database"),
        ("redis://host/1?db=2", "two databases"),
        ("redis://host?db=first", "db in the URL must be a number"),
        ("redis://host?db=1&db=1", "the URL contains db twice"),
        ("redis://host?db", "name=value"),
        ("redis://host?client_name=", "client_name in the URL must be a non-empty text"),
        ("redis://host?socket_keepalive=perhaps", "must be true or false"),
        ("redis://host?host=other", "unknown argument; known are client_name, db"),
        ("redis://host?retry_on_error=x", "unknown argument"),
        ("redis://host?ssl_ca_certs=x", "ssl_ca_certs in the URL needs rediss:// or valkeys://"),
        ("unix://tmp/r.sock", "three slashes"),
        ("unix:///", "three slashes"),
        ("unix:///a%00b", "three slashes"),
    ],
)
def test_what_is_refused(url: str, text: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # compared below, as it is
        read_url(url)
    assert text in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        ("ssl_cert_reqs=none", "turn off the certificate check"),
        ("ssl_cert_reqs=Optional", "turn off the certificate check"),
        ("ssl_check_hostname=false", "turn off the check of the name in the certificate"),
        ("ssl_check_hostname=0", "turn off the check of the name in the certificate"),
        ("ssl_check_hostname=off", "turn off the check of the name in the certificate"),
        ("ssl_exclude_verify_flags=VERIFY_X509_STRICT", "turn off a certificate check"),
        ("ssl_include_verify_flags=VERIFY_ALLOW_PROXY_CERTS", "accept proxy certificates"),
        ("ssl_min_version=770", "allow TLS below 1.2"),
        ("ssl_min_version=-2", "allow TLS below 1.2"),
        ("ssl_ciphers=aNULL", "without a certificate or without encryption"),
        ("ssl_ciphers=ALL:eNULL:%40SECLEVEL=0", "without a certificate or without encryption"),
    ],
)
def test_checks_of_tls_are_not_switched_off_in_passing(argument: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"{text}; if you want that, create a redis.asyncio"):
        read_url(f"rediss://host?{argument}")


@pytest.mark.parametrize(
    "argument",
    [
        *("ssl_cert_reqs=all", "ssl_check_hostname=perhaps", "ssl_check_hostname="),
        *("ssl_min_version=1.2", "ssl_min_version=7", "ssl_ciphers=none"),
        "ssl_include_verify_flags=VERIFY_X509_STRICT,STRICTER",
    ],
)
def test_what_makes_no_sense_about_tls_is_reported_at_once(argument: str) -> None:
    with pytest.raises(ValueError, match=f"{argument.partition('=')[0]} in the URL must be"):
        read_url(f"rediss://host?{argument}")


@pytest.mark.parametrize("name", ["socket_timeout", "socket_connect_timeout"])
@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "soon", "", "None", "0.0001", "1e99"])
def test_a_timeout_that_is_none_is_refused(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"{name} in the URL must be a number of seconds"):
        Redisson.from_url(f"redis://host?{name}={value}")


def test_timeouts_of_the_url_are_taken() -> None:
    url = "redis://host?socket_timeout=2.5&socket_connect_timeout=0.25"
    servers = servers_from_url(url, None)
    assert (servers.connector.connect_timeout, servers.command_timeout) == (0.25, 2.5)
    assert Redisson.from_url(url)._context.options.command_timeout == 2.5
    assert Redisson.from_url(url)._executor.command_timeout == 2.5
    assert Redisson.from_url(url, command_timeout=7)._executor.command_timeout == 7
    assert Redisson.from_url("redis://host")._executor.command_timeout == 5
    with pytest.raises(ValueError, match="socket_timeout in the URL must be at most 30 seconds"):
        Redisson.from_url("redis://host?socket_timeout=60")


@pytest.mark.parametrize(("given", "taken"), [({}, None), ({"socket_connect_timeout": 0.5}, 0.5)])
def test_timeouts_of_a_client_are_taken_if_they_are_a_wish(
    given: dict[str, Any], taken: float | None
) -> None:
    """redis-py gives every client a `socket_timeout`; nobody has asked for it."""
    theirs = Redis(socket_timeout=17, **given)
    servers = servers_from_client(theirs, None)
    assert (servers.connector.connect_timeout, servers.command_timeout) == (taken, None)
    assert Redisson(theirs)._executor.command_timeout == 5
