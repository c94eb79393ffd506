"""A hostile server costs time and an error: no grant, no foreign exception, no end of memory."""

from __future__ import annotations

import asyncio

import pytest

from redisson_py import ConnectionLostError, Redisson
from redisson_py._redis.limits import MOST_UNENDED_BYTES
from tests.fuzz.hostile_server import play
from tests.support.fake_peer import Command, FakePeer, bulk, echo, push
from tests.support.waiting import until


@pytest.mark.parametrize("scheme", ["redis", "redis+cluster", "redis+sentinel"])
@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_granted_by_accident_and_no_call_hangs(scheme: str, seed: int) -> None:
    # A loop of its own: what goes wrong unseen ends in its exception handler.
    assert asyncio.run(play(seed, scheme)) >= 0


def scripted(reply: bytes) -> object:
    """Return what answers each script with `reply`, and all else as a friendly server."""

    def answer(command: Command) -> bytes:
        return reply if command[0] == b"EVALSHA" else echo(command)

    return answer


@pytest.mark.parametrize(
    "reply",
    [
        bulk(b"OK"), b"+OK\r\n", b"#t\r\n", b",0\r\n", b"*0\r\n", b"%0\r\n", b"*1\r\n_\r\n",
        b":-7\r\n", b">-1\r\n", b">0\r\n", b">1\r\n_\r\n", push(b"lock.acquire", b"granted"),
    ],
)  # fmt: skip
async def test_what_is_no_reply_of_the_script_grants_nothing(reply: bytes) -> None:
    async with FakePeer() as peer:
        peer.otherwise = scripted(reply)  # type: ignore[assignment]
        async with Redisson.from_url(peer.url, command_timeout=0.3) as client:
            with pytest.raises(ConnectionLostError):
                await client.get_lock("k").acquire()
            assert client.statistics().held_leases == 0


async def test_the_error_quotes_the_reply() -> None:
    async with FakePeer() as peer:
        peer.otherwise = scripted(bulk(b"granted, honestly"))  # type: ignore[assignment]
        async with Redisson.from_url(peer.url, command_timeout=1) as client:
            with pytest.raises(
                ConnectionLostError, match=r"unexpected answer to .* b'granted, honestly'"
            ):
                await client.get_lock("k").acquire()


@pytest.mark.parametrize("kind", [b"+", b"-", b"$"])
async def test_a_row_without_an_end_ends_the_connection_and_is_quoted(
    kind: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    row = kind + b"granted, perhaps" + b"\n" * MOST_UNENDED_BYTES
    async with FakePeer() as peer:
        peer.otherwise = scripted(row)  # type: ignore[assignment]
        async with Redisson.from_url(peer.url, command_timeout=1) as client:
            with pytest.raises(ConnectionLostError):
                await client.get_lock("k").acquire()
            assert len(peer.links) > 1
    said = f"unreadable answer: a line of more than {MOST_UNENDED_BYTES} bytes that begins with b"
    assert f"{said}'{kind.decode()}granted, perhaps" in caplog.text


async def test_a_reply_to_nobody_ends_the_connection_before_it_answers_another_call() -> None:
    async with FakePeer() as peer:
        async with Redisson.from_url(peer.url) as client:
            await client.ping()
            links = len(peer.links)
            peer.say(b"_\r\n")
            await until(lambda: not peer.open or len(peer.links) > links)
            await client.ping()
            assert len(peer.links) > links


async def test_an_endless_stream_of_pushes_starts_no_task_and_keeps_nothing() -> None:
    async with FakePeer() as peer:
        async with Redisson.from_url(peer.url) as client:
            await client.ping()
            tasks = len(asyncio.all_tasks())
            for _ in range(200):
                peer.say(push(b"message", b"nobody listens", b"0") * 100 + push(b"new", b"x", 1))
                await asyncio.sleep(0)
            await client.ping()
            assert len(asyncio.all_tasks()) == tasks
            assert len(peer.links) == 1
            assert client.statistics().waiters == 0
