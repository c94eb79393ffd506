"""Connection settings: errors never show secrets, and TLS is never below 1.2."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import pytest
from redis.asyncio import ConnectionPool, Redis

from redisson_py import ConnectionLostError, Redisson
from tests.fixtures.client import ClientFactory
from tests.support.passwords import told

SECRET = "hush-hush-5"


def test_an_error_about_a_port_tells_nothing_secret() -> None:
    """Without a host, the password is where the port would be."""
    with pytest.raises(ValueError, match="URL") as caught:
        Redisson.from_url(f"redis://me:{SECRET}")
    assert SECRET not in told(caught.value)


def test_an_error_about_a_client_of_redis_py_tells_nothing_secret() -> None:
    """The name of a setting may be a part of a password that was not escaped, too."""
    pool = ConnectionPool.from_url(f"redis://me:1?{SECRET}=2@localhost")
    with pytest.raises(ValueError, match="setting") as caught:
        Redisson(Redis(connection_pool=pool))
    assert SECRET not in told(caught.value)


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
