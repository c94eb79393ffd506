"""Connections that break while they are opened are opened again, at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis.asyncio import Connection, Redis

from redisson_py._options import Options
from redisson_py._redis.redis_py import AbstractConnection, Connector
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.support.logs import assert_all_retrieved
from tests.support.waiting import until

pytestmark = pytest.mark.also("floor")


async def test_connection_that_breaks_right_after_its_handshake_is_opened_again(
    clients: ClientFactory, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Connector.open
    times = 0

    async def open_and_lose(self: Connector, limit: float) -> AbstractConnection:
        nonlocal times
        times += 1
        connection = await opened(self, limit)
        if times == 1:
            victim = next(c for c in await redis.client_list() if c["name"] == "victim")
            await redis.client_kill_filter(_id=victim["id"])
            await until(lambda: connection._reader.at_eof())  # type: ignore[union-attr]
        return connection

    monkeypatch.setattr(Connector, "open", open_and_lose)
    # An unanswered HELLO would be waited for for longer.
    monkeypatch.setattr(Options, "reply_timeout", 50.0)
    async with asyncio.timeout(20):
        await clients(client_name="victim", command_timeout=30).ping()
    assert times == 2


async def test_connection_that_breaks_in_the_handshake_fails_nobody(
    clients: ClientFactory, proxy: ProxyFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = await proxy()
    # Its name since redis-py 6.
    name = "on_connect_check_health"
    name = name if hasattr(Connection, name) else "on_connect"
    shake_hands = getattr(Connection, name)
    times = 0

    async def break_and_shake_hands(self: Any, *args: Any, **options: Any) -> None:
        nonlocal times
        times += 1
        if times == 1:
            await until(lambda: link.connections == 1)
            link.cut()
            await until(
                lambda: (
                    self._writer.transport.is_closing()
                    or self._reader.at_eof()
                    or self._reader.exception()
                )
            )
        await shake_hands(self, *args, **options)

    monkeypatch.setattr(Connection, name, break_and_shake_hands)
    await clients(link.url).ping()
    assert times == 2


async def test_unanswered_greeting_is_not_left_as_an_exception_nobody_retrieved(
    clients: ClientFactory, proxy: ProxyFactory, caplog: pytest.LogCaptureFixture
) -> None:
    link = await proxy()
    link.swallow_reply(b"*1\r\n$5\r\nHELLO\r\n")
    await clients(link.url, lease_time=0.6).ping()
    await link.wait_until(lambda link: link.triggered == 1)
    assert_all_retrieved(caplog)
