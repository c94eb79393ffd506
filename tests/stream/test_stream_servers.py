"""The stream on real servers: every way to name one, and what operators do to them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.asyncio.connection import Connection
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff

from redisson_py import Redisson
from redisson_py._redis.redis_py import servers_from_url, take_over
from redisson_py.errors import (
    ConnectionLostError,
    UnsupportedServerError,
)
from redisson_py.testing import EmbeddedServer
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ServerFactory
from tests.support.fake_peer import FakePeer
from tests.support.waiting import until

CANARY = "canary-8d1f"


async def ask(redis: Redis, *args: str | bytes | int) -> Any:
    untyped: Any = redis
    return await untyped.execute_command(*args)


async def use(client: Redisson, name: str = "k") -> None:
    """Acquire, be waited for, release, wake: every script path and the pushes."""
    lock, order = client.get_lock(name), []

    async def second() -> None:
        async with lock:
            order.append(2)

    async with asyncio.TaskGroup() as group:
        async with lock as lease:
            assert lease.token is None
            waiter = group.create_task(second())
            while not client.statistics().waiters:
                await asyncio.sleep(0)
            order.append(1)
    assert waiter.done()
    assert order == [1, 2]
    assert not await lock.locked()


async def compete(one: Redisson, two: Redisson) -> None:
    """Have the second client wait for the first: its wake-up is a message of the server."""
    async with asyncio.TaskGroup() as group:
        async with one.get_lock("k"):
            waiting = group.create_task(two.get_lock("k").acquire())
            while not two.statistics().waiters:
                await asyncio.sleep(0)
    await waiting.result().release()


class TestUrls:
    async def test_the_database_of_the_url_is_used(
        self, own_server: EmbeddedServer, clients: ClientFactory
    ) -> None:
        client = clients(url=own_server.url + "/3")
        async with client.get_lock("k"), Redis.from_url(own_server.url + "/3") as third:
            assert await third.exists("k") == 1
            async with Redis.from_url(own_server.url) as zero:
                assert await zero.exists("k") == 0

    async def test_a_unix_socket(
        self, server_factory: ServerFactory, clients: ClientFactory
    ) -> None:
        server = await server_factory(unix_socket=True)
        client = clients(url=f"unix://{server.unix_socket}")
        await use(client)
        assert str(server.unix_socket) in repr(client)


class TestGivenClients:
    @pytest.mark.parametrize(
        "settings",
        [
            {"decode_responses": True},
            {"protocol": 2},
            {"protocol": 2, "decode_responses": True, "encoding": "latin-1"},
            {"max_connections": 1},
            {"retry": Retry(ExponentialBackoff(), 10), "health_check_interval": 1},
            {"socket_timeout": 5, "retry_on_timeout": True},
            {"single_connection_client": True},
        ],
        ids=lambda settings: "+".join(settings),
    )
    async def test_its_settings_change_nothing_and_it_stays_open(
        self, server_url: str, settings: dict[str, Any]
    ) -> None:
        given = Redis.from_url(server_url, **settings)
        try:
            connection = await ask(given, "CLIENT ID")
            async with Redisson(given) as one, Redisson(given) as two:
                await use(one)
                await compete(one, two)
            assert await ask(given, "CLIENT ID") == connection
        finally:
            await given.aclose()


class TestOperators:
    async def test_scripts_flushed_between_calls(
        self, clients: ClientFactory, redis: Redis
    ) -> None:
        client = clients()
        for _ in range(5):
            async with client.get_lock("k"):
                await ask(redis, "SCRIPT FLUSH")
            await ask(redis, "SCRIPT FLUSH")
            await use(client)

    async def test_a_waiter_survives_the_end_of_its_connection(
        self, clients: ClientFactory, redis: Redis
    ) -> None:
        holder, waiter = clients(), clients(client_name="victim")
        async with asyncio.TaskGroup() as group:
            async with holder.get_lock("k"):
                waiting = group.create_task(waiter.get_lock("k").acquire())
                while not await redis.pubsub_channels():
                    await asyncio.sleep(0)
                for row in await redis.client_list():
                    if row["name"] == "victim":
                        await ask(redis, "CLIENT KILL", "ID", row["id"])
                while waiter.statistics().connections < 2:
                    await asyncio.sleep(0)
                await waiter.ping()
                # It listens again, or it would wait for the safety poll.
                assert await redis.pubsub_channels()
        await waiting.result().release()


class TestTakeOver:
    async def test_redis_py_still_keeps_its_transport_where_we_look(self, server_url: str) -> None:
        connection = await servers_from_url(server_url, None).connector.open(5)
        try:
            assert take_over(connection, asyncio.Protocol(), "h:1").get_extra_info("peername")
        finally:
            await connection.disconnect(nowait=True)

    async def test_one_that_broke_meanwhile_says_which_it_was(self) -> None:
        async with FakePeer() as peer:
            connection = await servers_from_url(peer.url, None).connector.open(5)
            try:
                peer.cut()
                reader: Any = connection._reader
                await until(reader.at_eof)
                with pytest.raises(ConnectionLostError, match="Redis at h:1 broke while"):
                    take_over(connection, asyncio.Protocol(), "h:1")
            finally:
                await connection.disconnect(nowait=True)

    async def test_a_redis_py_that_hides_it_is_a_clear_error(
        self, clients: ClientFactory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with pytest.raises(UnsupportedServerError, match="redis-py does not expose the transport"):
            take_over(Connection(), asyncio.Protocol(), "h:1")
        monkeypatch.setattr("redisson_py._redis.connector.getattr", lambda *_: None, raising=False)
        client = clients()
        with pytest.raises(UnsupportedServerError, match="redis-py does not expose the transport"):
            await client.ping()
        monkeypatch.undo()
        await client.ping()
