"""Connection settings: errors never show secrets, and TLS is never below 1.2."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

import pytest
from redis.asyncio import ConnectionPool, Redis

from redisson_py import ConnectionLostError, Redisson
from redisson_py.testing import EmbeddedServer
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ServerFactory
from tests.support.passwords import told

SECRET = "hush-hush-5"

#: URLs that are refused, by what is wrong with them.
WRONG_URLS = {
    "unknown name of a setting": f"redis://localhost:6379/0?{SECRET}=1",
    "unknown setting": f"redis://me:{SECRET}@localhost:6379/0?nonsense=1",
    "setting of the wrong type": f"redis://me:{SECRET}@localhost:6379/0?socket_timeout=soon",
    "certificate not checked": f"rediss://me:{SECRET}@localhost:6379/0?ssl_cert_reqs=none",
    "no number of a database": f"redis://me:{SECRET}@localhost:6379/first",
    "password in the query": f"redis://localhost:6379/0?password={SECRET}&nonsense=1",
    "unknown scheme": f"http://me:{SECRET}@localhost:6379/0",
    "no scheme": f"me:{SECRET}@localhost:6379/0",
    "port that is no number": f"redis://me:{SECRET}@localhost:port/0",
    "broken address": f"redis://me:{SECRET}@[::1/0",
    "slash in the password": f"redis://me:x/{SECRET}@localhost:6379/0",
    "password where the port is": f"redis://me:{SECRET}",
    "password where the database is": f"redis://localhost:6379/{SECRET}",
}


@pytest.mark.parametrize("url", WRONG_URLS.values(), ids=WRONG_URLS)
def test_an_error_about_a_url_tells_nothing_secret(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    make: Callable[..., Any] = Redisson.from_url
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # which one does not matter here
        make(url)
    assert SECRET not in told(caught.value)
    assert SECRET not in caplog.text


def test_an_error_about_a_client_of_redis_py_tells_nothing_secret() -> None:
    """The name of a setting may be a part of a password that was not escaped, too."""
    pool = ConnectionPool.from_url(f"redis://me:1?{SECRET}=2@localhost")
    with pytest.raises(ValueError, match="setting") as caught:
        Redisson(Redis(connection_pool=pool))
    assert SECRET not in told(caught.value)


async def test_a_server_that_refuses_us_is_told_without_secrets(
    server_factory: ServerFactory, clients: ClientFactory, caplog: pytest.LogCaptureFixture
) -> None:
    server: EmbeddedServer = await server_factory(password="another")
    client = clients(f"redis://me:{SECRET}@{server.host}:{server.port}")
    with pytest.raises(Exception, match="credentials") as caught:
        await client.ping()
    assert SECRET not in told(caught.value)
    assert SECRET not in caplog.text
    assert SECRET not in repr(client)


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
