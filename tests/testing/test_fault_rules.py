"""The fault proxy's rules: one command, one reply."""

from __future__ import annotations

import asyncio
import time

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from redisson_py.testing import EmbeddedServer, FaultProxy
from tests.fixtures.redis_server import ProxyFactory
from tests.testing.conftest import connected, raw

SOON = 30.0


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
