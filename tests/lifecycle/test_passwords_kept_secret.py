"""A hundred passwords on every way to an error: no error shows any part of one."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from redis.asyncio import ConnectionPool, Redis

from redisson_py import Redisson
from redisson_py._redis import servers_from_url
from redisson_py.errors import BackendError, RedissonError, UnsupportedServerError
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ServerFactory
from tests.support.certificates import make_certificates
from tests.support.fake_peer import Command, FakePeer, error
from tests.support.passwords import parts_told, passwords, told

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
    assert [password for password in PASSWORDS if parts_told(password, logged)] == []


@pytest.mark.parametrize("url", WRONG)
def test_a_url_that_is_refused(url: str) -> None:
    for password in PASSWORDS:
        for form in (password, quote(password), quote(password, safe="")):
            with pytest.raises(ValueError, match=r"URL|supported") as caught:
                Redisson.from_url(url.format(form))
            assert not parts_told(password, told(caught.value)), password


@pytest.mark.parametrize("url", RIGHT)
async def test_a_url_that_leads_nowhere(url: str) -> None:
    for password in PASSWORDS:
        connector = servers_from_url(url.format(quote(password, safe="")), None).connector
        with pytest.raises(BackendError) as caught:
            await connector.open(5)
        assert not parts_told(password, told(caught.value), repr(connector)), password


@pytest.mark.parametrize("url", RIGHT)
async def test_a_url_in_which_nothing_is_escaped(url: str) -> None:
    """It is refused or parsed as intended: no part of the password becomes part of the host."""
    refused = []
    for password in PASSWORDS:
        try:
            connector = servers_from_url(url.format(password), None).connector
        except ValueError as problem:
            refused.append(parts_told(password, told(problem)))
            continue
        assert not set("/#?") & set(password)
        with pytest.raises(BackendError) as caught:
            await connector.open(5)
        assert not parts_told(password, told(caught.value), repr(connector)), password
    assert not any(refused)
    assert 0 < len(refused) < len(PASSWORDS)


@pytest.mark.parametrize("letter", "/#?")
def test_what_must_be_escaped_is_named(letter: str) -> None:
    for url in ("redis://me:p{}w@localhost/0", "redis://:12{}w@localhost", "rediss://p{}w@h"):
        with pytest.raises(ValueError, match=r"percent-encode a /, # or \? in "):
            Redisson.from_url(url.format(letter))
        Redisson.from_url(url.format(quote(letter, safe="")))


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
            assert not parts_told(password, told(caught.value), repr(client), repr(lock))


async def test_a_server_that_wants_a_password(
    server_factory: ServerFactory, clients: ClientFactory
) -> None:
    for password in PASSWORDS[:3]:
        server = await server_factory(password=password)
        client = clients(f"redis://{server.host}:{server.port}")
        with pytest.raises(BackendError, match="credentials: HELLO") as caught:
            await client.ping()
        assert not parts_told(password, told(caught.value))
        await clients(f"redis://:{quote(password, safe='')}@{server.host}:{server.port}").ping()


async def test_a_server_that_repeats_what_it_was_told(clients: ClientFactory) -> None:
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
            assert not parts_told(password, told(old.value), told(odd.value)), password


async def test_a_password_that_cannot_be_encoded() -> None:
    """The arguments of the error that Python raises contain the whole text."""
    for password in PASSWORDS:
        with pytest.raises(ValueError, match="UTF-8") as refused:
            Redisson.from_url(f"redis://me:\udcff{quote(password, safe='')}@127.0.0.1:1")
        assert not parts_told(password, told(refused.value))


async def test_a_password_of_a_client_that_cannot_be_encoded(clients: ClientFactory) -> None:
    async with FakePeer() as peer:
        for password in PASSWORDS:
            pool = ConnectionPool.from_url(peer.url, password=password + "\udcff", encoding="utf-8")
            client = Redisson(Redis(connection_pool=pool))
            with pytest.raises(BackendError, match="cannot encode") as caught:
                await client.ping()
            await client.aclose()
            assert not parts_told(password, told(caught.value)), password


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
            assert not parts_told(password, told(caught.value), repr(client)), password


@pytest.mark.more
async def test_a_server_that_goes_away(
    server_factory: ServerFactory, clients: ClientFactory
) -> None:
    for password in PASSWORDS[:3]:
        server = await server_factory(password=password)
        client = clients(server.url, command_timeout=0.3)
        lease = await client.get_lock("k").acquire(timeout=20)
        await server.kill()
        errors: list[RedissonError] = []
        for call in (client.ping(), client.get_lock("j").acquire(timeout=0.2), lease.release()):
            with pytest.raises(RedissonError) as caught:
                await call
            errors.append(caught.value)
        told_of = [*(told(each) for each in errors), repr(lease), repr(client)]
        assert not parts_told(password, *told_of), password
