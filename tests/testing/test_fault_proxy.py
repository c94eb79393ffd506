"""The proxy misbehaves exactly as told, with a real server behind it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Literal
from uuid import uuid4

import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from redisson_py.testing import EmbeddedServer, FaultProxy
from tests.fixtures.redis_server import ProxyFactory

SOON = 5.0


@asynccontextmanager
async def connected(
    url: str, protocol: int = 3, socket_timeout: float = SOON
) -> AsyncGenerator[Redis, None]:
    """Give a client with one open connection, which does not try again."""
    client = Redis.from_url(
        url,
        protocol=protocol,
        socket_timeout=socket_timeout,
        retry=Retry(NoBackoff(), 0),
        single_connection_client=True,
    )
    async with client:
        await client.ping()
        yield client


@asynccontextmanager
async def raw(
    link: FaultProxy,
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter], None]:
    """Give a bare connection, to see exactly what arrives."""
    reader, writer = await asyncio.open_connection(link.host, link.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)


def has_received(commands: int, link: FaultProxy) -> bool:
    return link.up.frames == commands


@pytest.fixture
async def direct(server_url: str) -> AsyncIterator[Redis]:
    """A client that goes around the proxy."""
    async with connected(server_url) as client:
        yield client


@pytest.fixture
async def key(direct: Redis) -> AsyncIterator[str]:
    name = f"proxy-test:{uuid4()}"
    yield name
    await direct.delete(name)


async def test_passes_everything_at_first(proxy: ProxyFactory, key: str) -> None:
    link = await proxy()
    big = os.urandom(3_000_000)
    async with connected(link.url) as client:
        await client.set(key, big)
        assert await client.get(key) == big
    assert link.triggered == 0


async def test_counts_connections_and_traffic(proxy: ProxyFactory) -> None:
    link = await proxy()
    async with raw(link) as (reader, writer):
        writer.write(b"PING\r\n*1\r\n$4\r\nPING\r\n")
        await reader.readexactly(14)
        assert (link.connections, link.accepted) == (1, 1)
        assert (link.up.bytes_in, link.up.chunks, link.up.frames) == (20, 1, 2)
        assert (link.up.bytes_out, link.up.writes) == (20, 1)
        assert (link.down.bytes_in, link.down.frames, link.down.bytes_out) == (14, 2, 14)
    await link.wait_until(lambda link: link.connections == 0)
    assert link.accepted == 1


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
    assert number not in {int(each["id"]) for each in await direct.client_list()}


async def test_a_server_that_closes_ends_the_clients_side(
    proxy: ProxyFactory, direct: Redis
) -> None:
    link = await proxy()
    async with raw(link) as (reader, writer):
        writer.write(b"CLIENT ID\r\n")
        number = (await reader.readline())[1:].strip().decode()
        await direct.client_kill_filter(_id=number)
        assert await asyncio.wait_for(reader.read(), SOON) == b""


async def test_without_a_server_the_connection_breaks(own_server: EmbeddedServer) -> None:
    async with FaultProxy(own_server.host, own_server.port) as link:
        await own_server.stop()
        async with raw(link) as (reader, _):
            with pytest.raises(ConnectionResetError):
                await reader.read()


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
        begun = time.monotonic()
        before = link.up.frames
        for sent in range(1, 21):
            writer.write(b"PING\r\n")
            await link.wait_until(partial(has_received, before + sent))
        await reader.readexactly(7 * 20)
        # One after the other they would take two seconds or four.
        assert time.monotonic() - begun < 1.5
        link.delay(0)


@pytest.mark.parametrize("direction", ["up", "down"])
async def test_a_black_hole_swallows_one_direction(
    proxy: ProxyFactory, direct: Redis, key: str, direction: Literal["up", "down"]
) -> None:
    link = await proxy()
    async with connected(link.url, socket_timeout=0.2) as client:
        link.black_hole(direction)
        with pytest.raises(RedisTimeoutError):
            await client.incr(key)
    executed = 1 if direction == "down" else None
    assert await direct.get(key) == (str(executed).encode() if executed else None)


async def test_a_black_hole_accepts_new_connections(proxy: ProxyFactory) -> None:
    link = await proxy()
    link.black_hole()
    async with raw(link) as (_, writer):
        writer.write(b"PING\r\n")
        await link.wait_until(lambda link: link.up.frames == 1)
        assert (link.accepted, link.connections, link.up.bytes_out) == (1, 1, 0)


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
        assert number in {int(each["id"]) for each in await direct.client_list()}
    link.pass_through()
    await link.wait_until(lambda link: link.connections == 0)
    assert number not in {int(each["id"]) for each in await direct.client_list()}


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


async def test_cut_after_execution_executes_and_hides_it(
    proxy: ProxyFactory, direct: Redis, key: str
) -> None:
    link = await proxy()
    async with connected(link.url) as client:
        link.cut_after_execution(key.encode())
        with pytest.raises(RedisConnectionError):
            await client.incr(key)
        assert (link.triggered, link.connections) == (1, 0)
        assert await direct.get(key) == b"1"
        assert await client.incr(key) == 2  # the rule is spent
        assert link.triggered == 1


async def test_cut_after_execution_delivers_the_replies_before(
    proxy: ProxyFactory, direct: Redis, key: str
) -> None:
    link = await proxy()
    link.cut_after_execution(b"INCR")
    async with raw(link) as (reader, writer):
        writer.write(f"ECHO one\r\nECHO two\r\nINCR {key}\r\nECHO three\r\n".encode())
        assert await reader.readexactly(18) == b"$3\r\none\r\n$3\r\ntwo\r\n"
        with pytest.raises(ConnectionResetError):
            await reader.read()
    assert await direct.get(key) == b"1"


async def test_swallow_reply_takes_one_reply_out_of_a_pipeline(
    proxy: ProxyFactory, direct: Redis, key: str
) -> None:
    link = await proxy()
    link.swallow_reply(lambda command: command.startswith(b"INCR"), times=2)
    async with raw(link) as (reader, writer):
        commands = [b"ECHO a", b"INCR " + key.encode(), b"\r\nECHO b", b"INCR " + key.encode()]
        writer.write(b"\r\n".join([*commands, b"ECHO c", b"INCR " + key.encode(), b""]))
        assert await reader.readexactly(25) == b"$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n:3\r\n"
        assert (link.triggered, link.connections) == (2, 1)
    assert await direct.get(key) == b"3"


async def test_the_first_rule_that_matches_takes_a_command(proxy: ProxyFactory) -> None:
    link = await proxy()
    link.swallow_reply(b"ECHO a")
    link.swallow_reply(b"ECHO")
    async with raw(link) as (reader, writer):
        writer.write(b"ECHO a\r\nECHO a\r\nECHO c\r\n")
        assert await reader.readexactly(7) == b"$1\r\nc\r\n"
    assert link.triggered == 2


async def test_pass_through_drops_rules(proxy: ProxyFactory) -> None:
    link = await proxy()
    async with connected(link.url) as client:
        link.cut_after_execution(b"PING")
        link.pass_through()
        assert await client.ping()
    assert link.triggered == 0


@pytest.mark.parametrize("protocol", [2, 3])
async def test_messages_are_not_taken_for_replies(
    proxy: ProxyFactory, direct: Redis, key: str, protocol: int
) -> None:
    link = await proxy()
    async with raw(link) as (reader, writer):
        writer.write(f"HELLO {protocol}\r\nSUBSCRIBE {key} {key}:2\r\n".encode())
        await link.wait_until(lambda link: link.down.frames >= 3)
        assert await direct.publish(key, "m1") == 1
        await link.wait_until(lambda link: link.down.frames == 4)
        link.swallow_reply(b"PING")
        # The message is under way before the reply that goes missing, and one after it.
        writer.write(b"PING\r\n")
        await link.wait_until(lambda link: link.triggered == 1)
        assert await direct.publish(key, "m2") == 1
        writer.write(b"PING again\r\n")
        seen = await asyncio.wait_for(reader.readuntil(b"again\r\n"), SOON)
        marker = b">" if protocol == 3 else b"*"
        assert seen.count(marker + b"3\r\n$7\r\nmessage\r\n") == 2
        assert b"PONG" not in seen
        assert b"$4\r\npong\r\n$0\r\n" not in seen


@pytest.mark.parametrize("protocol", [2, 3])
async def test_a_subscription_is_answered_by_its_confirmations(
    proxy: ProxyFactory, key: str, protocol: int
) -> None:
    link = await proxy()
    link.swallow_reply(b"UNSUBSCRIBE")
    async with raw(link) as (reader, writer):
        writer.write(f"HELLO {protocol}\r\n".encode())
        writer.write(f"SUBSCRIBE {key}:1 {key}:2\r\nUNSUBSCRIBE {key}:1 {key}:2\r\n".encode())
        writer.write(b"PING end\r\n")
        seen = await asyncio.wait_for(reader.readuntil(b"end\r\n"), SOON)
    assert seen.count(b"$9\r\nsubscribe") == 2
    assert b"unsubscribe" not in seen
    assert link.triggered == 1


async def test_a_refused_subscription_is_one_reply(own_server: EmbeddedServer, key: str) -> None:
    async with FaultProxy(own_server.host, own_server.port) as link:
        async with raw(link) as (reader, writer):
            writer.write(b"ACL SETUSER default resetchannels\r\n")
            assert await reader.readline() == b"+OK\r\n"
        link.swallow_reply(b"ECHO")
        async with raw(link) as (reader, writer):
            writer.write(b"HELLO 3\r\nSUBSCRIBE a b\r\nECHO gone\r\nPING end\r\n")
            seen = await asyncio.wait_for(reader.readuntil(b"end\r\n"), SOON)
        assert b"-NOPERM" in seen
        assert b"gone" not in seen


async def test_dribble_delivers_in_pieces(proxy: ProxyFactory) -> None:
    link = await proxy()
    async with connected(link.url) as client:
        link.dribble(3, 0.01)
        writes, begun = link.down.writes, time.monotonic()
        assert await client.echo("x" * 23) == b"x" * 23  # 30 bytes on the wire
        assert link.down.writes - writes == 10
        assert time.monotonic() - begun >= 0.09 - 0.001
        link.dribble(0, 0)
        writes = link.down.writes
        await client.echo("x" * 23)
        assert link.down.writes - writes == 1


async def test_hold_keeps_commands_until_release(
    proxy: ProxyFactory, direct: Redis, key: str
) -> None:
    link = await proxy()
    async with connected(link.url) as client:
        link.hold()
        answer = asyncio.ensure_future(client.incr(key))
        await link.wait_until(lambda link: link.held == 1)
        assert await direct.get(key) is None
        link.release_held()
        assert await answer == 1
        assert link.held == 0
        assert await client.incr(key) == 2


async def test_a_held_command_outlives_its_client(
    proxy: ProxyFactory, direct: Redis, key: str
) -> None:
    link = await proxy()
    async with raw(link) as (_, writer):
        link.hold()
        writer.write(f"INCR {key}\r\n".encode())
        await link.wait_until(lambda link: link.held == 1)
    assert link.connections == 1
    assert await direct.get(key) is None
    link.release_held()
    await link.wait_until(lambda link: link.connections == 0)
    assert await direct.get(key) == b"1"


async def test_a_held_command_meets_the_rules_of_its_release(
    proxy: ProxyFactory, direct: Redis, key: str
) -> None:
    link = await proxy()
    async with connected(link.url) as client:
        link.hold()
        answer = asyncio.ensure_future(client.incr(key))
        await link.wait_until(lambda link: link.held == 1)
        link.cut_after_execution(b"INCR")
        link.release_held()
        with pytest.raises(RedisConnectionError):
            await answer
    assert await direct.get(key) == b"1"


async def test_what_is_not_resp_passes_as_it_is() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    async with server, FaultProxy(host, port) as link, raw(link) as (reader, writer):
        link.cut_after_execution(b"hello")
        for data in (b"\x16\x03hello", b"\x17\x03hello"):
            writer.write(data)
            assert await reader.readexactly(7) == data
        writer.write_eof()
        assert await reader.read() == b""


async def test_nothing_is_left_after_closing(server_url: str) -> None:
    before = asyncio.all_tasks()
    link = FaultProxy.in_front_of(server_url)
    async with link, raw(link) as (reader, writer):
        writer.write(b"BLPOP no-such-list 0\r\n")
        await link.wait_until(lambda link: link.up.frames == 1)
        link.delay(60)
        writer.write(b"PING\r\n")
        await link.wait_until(lambda link: link.up.frames == 2)
        await link.aclose()
        with pytest.raises(ConnectionResetError):
            await reader.read()
        assert link.connections == 0
        assert asyncio.all_tasks() == before
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(link.host, link.port)


async def test_a_rule_that_raises_is_reported(server_url: str) -> None:
    def broken(command: bytes) -> bool:
        raise ZeroDivisionError

    link = await FaultProxy.in_front_of(server_url).__aenter__()
    link.swallow_reply(broken)
    async with raw(link) as (reader, writer):
        writer.write(b"PING\r\n")
        assert await reader.read() == b""
    with pytest.raises(ExceptionGroup) as caught:
        await link.aclose()
    assert caught.group_contains(ZeroDivisionError)
