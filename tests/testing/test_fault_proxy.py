"""The proxy misbehaves exactly as told, with a real server behind it."""

from __future__ import annotations

import asyncio
import os
import time
from functools import partial
from typing import Literal

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from redisson_py.testing import FaultProxy
from tests.fixtures.redis_server import ProxyFactory
from tests.support.waiting import until_async
from tests.testing.conftest import connected, has_received, raw

SOON = 30.0


async def test_passes_everything_at_first(proxy: ProxyFactory, key: str) -> None:
    link = await proxy()
    big = os.urandom(3_000_000)
    async with connected(link.url) as client:
        await client.set(key, big)
        assert await client.get(key) == big
    assert link.triggered == 0


def test_the_url_keeps_credentials_and_database() -> None:
    link = FaultProxy.in_front_of("redis://me:p%40ss@example.invalid:7000/3?protocol=3")
    assert link.url == f"redis://me:p%40ss@127.0.0.1:{link.port}/3?protocol=3"


async def test_a_client_that_closes_ends_the_servers_side(
    proxy: ProxyFactory, direct: Redis
) -> None:
    link = await proxy()
    async with connected(link.url) as client:
        number = await client.client_id()
    await link.wait_until(lambda link: link.connections == 0)
    await until_async(lambda: is_gone(direct, number))


async def is_gone(direct: Redis, number: int) -> bool:
    """Return whether the server has dropped a connection."""
    return number not in {int(each["id"]) for each in await direct.client_list()}


@pytest.mark.parametrize("direction", ["up", "down", "both"])
async def test_delay_is_latency_not_throughput(
    proxy: ProxyFactory, direction: Literal["up", "down", "both"]
) -> None:
    link = await proxy()
    async with connected(link.url) as client:
        link.delay(0.1, direction=direction)
        begun = time.monotonic()
        await client.ping()
        one = time.monotonic() - begun
        assert one >= (0.2 if direction == "both" else 0.1) - 0.001
    async with raw(link) as (reader, writer):
        before = link.up.frames
        # One after the other, a thousand would take 100 seconds or 200.
        async with asyncio.timeout(60):
            for sent in range(1, 1001):
                writer.write(b"PING\r\n")
                await link.wait_until(partial(has_received, before + sent))
            await reader.readexactly(7 * 1000)
        link.delay(0)


@pytest.mark.parametrize("direction", ["up", "down"])
async def test_a_black_hole_swallows_one_direction(
    proxy: ProxyFactory, direct: Redis, key: str, direction: Literal["up", "down"]
) -> None:
    link = await proxy()
    async with connected(link.url, socket_timeout=0.2) as client:
        link.black_hole(direction)
        before = link.up.frames
        with pytest.raises(RedisTimeoutError):
            await client.incr(key)
        # Our time may be up before the proxy has had its turn.
        await link.wait_until(lambda link: link.up.frames > before)
    if direction == "down":
        await until_async(lambda: direct.exists(key))
    assert await direct.get(key) == (b"1" if direction == "down" else None)


async def test_a_connection_works_again_after_a_black_hole(proxy: ProxyFactory) -> None:
    link = await proxy()
    async with raw(link) as (reader, writer):
        writer.write(b"PING\r\n*2\r\n$4\r\nEC")
        await reader.readexactly(7)
        link.black_hole()
        # The end of a command begun before, and a whole one: both are lost, nothing is torn.
        writer.write(b"HO\r\n$4\r\nlost\r\nPING\r\n")
        await link.wait_until(lambda link: link.up.frames == 3)
        link.pass_through()
        writer.write(b"ECHO here\r\n")
        assert await reader.readexactly(10) == b"$4\r\nhere\r\n"


async def test_a_black_hole_hides_that_a_client_is_gone(proxy: ProxyFactory, direct: Redis) -> None:
    link = await proxy()
    async with connected(link.url) as client:
        number = await client.client_id()
        link.black_hole()
    async with raw(link):  # accepted after the other's end was received
        await link.wait_until(lambda link: link.accepted == 2)
        assert not await is_gone(direct, number)
    link.pass_through()
    await link.wait_until(lambda link: link.connections == 0)
    await until_async(lambda: is_gone(direct, number))


async def test_cut_breaks_open_connections_only(proxy: ProxyFactory) -> None:
    link = await proxy()
    async with raw(link) as (reader, _), raw(link) as (other, _):
        await link.wait_until(lambda link: link.connections == 2)
        assert link.cut() == 2
        assert link.connections == 0
        for each in (reader, other):
            with pytest.raises(ConnectionResetError):
                await each.read()
    async with connected(link.url) as client:
        assert await client.ping()


async def test_refuse_breaks_new_connections_only(proxy: ProxyFactory) -> None:
    link = await proxy()
    async with connected(link.url) as client:
        link.refuse()
        with pytest.raises(RedisConnectionError):
            async with connected(link.url):
                pytest.fail("it connected")
        assert await client.ping()
        assert (link.accepted, link.refused) == (1, 1)
        link.pass_through()
        async with connected(link.url) as late:
            assert await late.ping()


@pytest.mark.parametrize("sent", [b"*3\r\n$3\r\nSET", b"PRI * HTTP/2.0", b"\x00\x00\x00\x07half"])
async def test_a_raw_proxy_knows_no_frames(sent: bytes) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(100):
            writer.write(chunk)
        writer.close()

    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        proxy = FaultProxy.in_front_of(f"mysql://me:secret@127.0.0.1:{port}/db?x=1", raw=True)
        async with proxy, raw(proxy) as (reader, writer), asyncio.timeout(SOON):
            assert proxy.url == f"mysql://me:secret@127.0.0.1:{proxy.port}/db?x=1"
            writer.write(sent)
            assert await reader.readexactly(len(sent)) == sent
            proxy.black_hole("down")
            writer.write(sent)
            await proxy.wait_until(lambda proxy: proxy.down.bytes_in == 2 * len(sent))
            assert proxy.cut() == 1
            with pytest.raises(ConnectionResetError):
                await reader.read()
