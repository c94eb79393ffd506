"""No error shows any part of a password or another secret, and TLS is never below 1.2."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from redis.asyncio import ConnectionPool, Redis

from redisson_py import ConnectionLostError, Redisson
from redisson_py._redis.redis_py import servers_from_url
from redisson_py.errors import BackendError, UnsupportedServerError
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ServerFactory
from tests.support.certificates import make_certificates
from tests.support.fake_peer import Command, FakePeer, error
from tests.support.passwords import parts_shown, passwords, shown

PASSWORDS = passwords(100, seed=14)

#: URLs with something wrong in them, whatever the password is.
WRONG = (
    "redis://me:{}@localhost:6379/0?nonsense=1",
    "redis://me:{}@localhost:6379/0?socket_timeout=soon",
    "redis://me:{}@localhost:6379/first",
    "redis://me:{}@localhost:port/0",
    "redis://me:{}@localhost:99999/0",
    "redis://me:{}@local,,host/0",
    "redis://me:{}@[::1/0",
    "redis://me:{}@localhost/0#first",
    "redis://me:{}@localhost/0?db=1",
    "redis://me:{}@localhost/0?db",
    "redis://localhost/0?password={}&nonsense=1",
    "redis://localhost/{}",
    "redis://localhost/0?{}",
    "redis://localhost/0?{}=1",
    "redis://localhost/0?socket_timeout={}",
    "redis://localhost/0#{}",
    "rediss://me:{}@localhost/0?ssl_cert_reqs=none",
    "rediss://me:{}@localhost/0?ssl_check_hostname=false",
    "rediss://me:{}@localhost/0?ssl_ciphers=none",
    "unix://me:{}@localhost/tmp/redis.sock",
    "unix://me:{}@",
    "redis+sentinel://me:{}@localhost/0",
    "redis+sentinel://me:{}@localhost/service/first",
    "redis+sentinel://localhost/service?sentinel_password={}&nonsense=1",
    "redis+sentinel://localhost/{}/0/1",
    "redis+cluster://me:{}@localhost,other:port",
    "http://me:{}@localhost/0",
    "me:{}@localhost:6379/0",
    "redis:me:{}@localhost",
    "redis:/me:{}@localhost",
    "{}",
)

#: URLs that are right if the password is escaped.
RIGHT = (
    "redis://me:{}@127.0.0.1:1/0",
    "redis://:{}@127.0.0.1:1",
    "redis://{}@127.0.0.1:1/0",
    "valkey://{}:me@127.0.0.1:1/0",
    "rediss://me:{}@127.0.0.1:1/0",
    "unix://me:{}@/nowhere/redis.sock?db=1",
)


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """All log output; it must not contain a password when the test has ended."""
    with caplog.at_level(logging.DEBUG):
        yield caplog
    logged = "\n".join([caplog.text, *(repr(vars(record)) for record in caplog.records)])
    assert [password for password in PASSWORDS if parts_shown(password, logged)] == []


@pytest.mark.parametrize("url", WRONG)
def test_a_url_that_is_refused(url: str) -> None:
    for password in PASSWORDS:
        for form in (password, quote(password), quote(password, safe="")):
            with pytest.raises(ValueError, match=r"URL|supported") as caught:
                Redisson.from_url(url.format(form))
            assert not parts_shown(password, shown(caught.value)), password


@pytest.mark.parametrize("url", RIGHT)
async def test_a_url_that_leads_nowhere(url: str) -> None:
    for password in PASSWORDS:
        connector = servers_from_url(url.format(quote(password, safe="")), None).connector
        with pytest.raises(BackendError) as caught:
            await connector.open(5)
        assert not parts_shown(password, shown(caught.value), repr(connector)), password


@pytest.mark.parametrize("url", RIGHT)
async def test_a_url_in_which_nothing_is_escaped(url: str) -> None:
    """It is refused or parsed as intended: no part of the password becomes part of the host."""
    refused = []
    for password in PASSWORDS:
        try:
            connector = servers_from_url(url.format(password), None).connector
        except ValueError as problem:
            refused.append(parts_shown(password, shown(problem)))
            continue
        assert not set("/#?") & set(password)
        with pytest.raises(BackendError) as caught:
            await connector.open(5)
        assert not parts_shown(password, shown(caught.value), repr(connector)), password
    assert not any(refused)
    assert 0 < len(refused) < len(PASSWORDS)


async def test_a_server_that_refuses_the_password(
    server_factory: ServerFactory, clients: ClientFactory
) -> None:
    server = await server_factory(password="another")
    for password in PASSWORDS:
        for scheme in ("redis", "valkey"):
            client = clients(f"{scheme}://:{quote(password, safe='')}@{server.host}:{server.port}")
            lock = client.get_lock("k")
            with pytest.raises(BackendError, match="credentials") as caught:
                await lock.acquire()
            assert not parts_shown(password, shown(caught.value), repr(client), repr(lock))


async def test_a_server_that_repeats_what_it_was_sent(clients: ClientFactory) -> None:
    """Redis 5 does, up to a number of letters that may end within the password."""

    def unknown(command: Command) -> bytes:
        words = " ".join(f"`{word.decode()}`," for word in command[1:])
        return error(f"ERR unknown command `HELLO`, with args beginning with: {words[:32]}")

    def what(command: Command) -> bytes:
        return error(f"ERR what is {command[-1].decode()}?")

    async with FakePeer() as peer:
        for password in PASSWORDS:
            url = peer.url.replace("//", f"//me:{quote(password, safe='')}@")
            peer.greeting = unknown
            with pytest.raises(UnsupportedServerError, match=r"6\.2 or newer") as old:
                await clients(url).ping()
            peer.greeting = what
            with pytest.raises(BackendError, match="its answer is hidden") as odd:
                await clients(url).ping()
            assert not parts_shown(password, shown(old.value), shown(odd.value)), password


async def test_a_password_that_cannot_be_encoded() -> None:
    """The arguments of the error that Python raises contain the whole text."""
    for password in PASSWORDS:
        with pytest.raises(ValueError, match="UTF-8") as refused:
            Redisson.from_url(f"redis://me:\udcff{quote(password, safe='')}@127.0.0.1:1")
        assert not parts_shown(password, shown(refused.value))


async def test_a_password_of_a_client_that_cannot_be_encoded(clients: ClientFactory) -> None:
    async with FakePeer() as peer:
        for password in PASSWORDS:
            pool = ConnectionPool.from_url(peer.url, password=password + "\udcff", encoding="utf-8")
            client = Redisson(Redis(connection_pool=pool))
            with pytest.raises(BackendError, match="cannot encode") as caught:
                await client.ping()
            await client.aclose()
            assert not parts_shown(password, shown(caught.value)), password


@pytest.mark.more
async def test_tls_that_fails(
    server_factory: ServerFactory, clients: ClientFactory, tmp_path: Path
) -> None:
    good = make_certificates(tmp_path / "good", "IP:127.0.0.1")
    server = await server_factory("redis7", tls=good.files, config={"tls-auth-clients": "no"})
    for password in PASSWORDS:
        for scheme in ("rediss", "redis"):
            url = f"{scheme}://me:{quote(password, safe='')}@{server.host}:{server.port}"
            client = clients(url)
            with pytest.raises(BackendError, match="TLS") as caught:
                await client.ping()
            assert not parts_shown(password, shown(caught.value), repr(client)), password


SECRET = "hush-hush-5"


def test_an_error_about_a_port_tells_nothing_secret() -> None:
    """Without a host, the password is where the port would be."""
    with pytest.raises(ValueError, match="URL") as caught:
        Redisson.from_url(f"redis://me:{SECRET}")
    assert SECRET not in shown(caught.value)


def test_an_error_about_a_client_of_redis_py_tells_nothing_secret() -> None:
    """The name of a setting may be a part of a password that was not escaped, too."""
    pool = ConnectionPool.from_url(f"redis://me:1?{SECRET}=2@localhost")
    with pytest.raises(ValueError, match="setting") as caught:
        Redisson(Redis(connection_pool=pool))
    assert SECRET not in shown(caught.value)


@pytest.mark.parametrize("way", ["url", "client"])
async def test_tls_below_1_2_is_not_spoken_whatever_the_system_allows(
    way: str, clients: ClientFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system may lower its own minimum for the sake of others."""
    contexts: list[ssl.SSLContext] = []
    create = ssl.create_default_context

    def lenient(*args: Any, **kwargs: Any) -> ssl.SSLContext:
        context = create(*args, **kwargs)
        context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        return context

    async def refuse(*_: object, **settings: Any) -> Any:
        contexts.append(settings["ssl"])
        raise ConnectionRefusedError

    monkeypatch.setattr(ssl, "create_default_context", lenient)
    monkeypatch.setattr(asyncio, "open_connection", refuse)
    if way == "url":
        client = clients("rediss://127.0.0.1:1")
    else:
        pool = ConnectionPool.from_url("rediss://127.0.0.1:1")
        client = Redisson(Redis(connection_pool=pool))
    with pytest.raises(ConnectionLostError):
        await client.get_lock("k").try_acquire(timeout=0.2)
    await client.aclose()
    assert contexts
    assert all(each.minimum_version >= ssl.TLSVersion.TLSv1_2 for each in contexts)
