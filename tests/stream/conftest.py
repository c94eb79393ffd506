"""A fake peer, and streams to talk to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest_asyncio

from redisson_py._redis.stream.call import Call
from redisson_py._redis.stream.settings import Topology
from tests.support.fake_peer import FakePeer
from tests.support.stream_talk import PATIENT, Talk


def later() -> float:
    """Return a deadline that no test reaches."""
    return asyncio.get_running_loop().time() + PATIENT


async def fill(talk: Talk, peer: FakePeer) -> list[Call]:
    """Send more than the peer takes."""
    peer.links[0].stop_reading()
    calls: list[Call] = []
    while not talk.stream.full:
        calls.append(talk.call("SET", "k", b"x" * 2**18, must=True))
        await asyncio.sleep(0)
    return calls


TalkFactory = Callable[..., Awaitable[Talk]]


@pytest_asyncio.fixture
async def peer() -> AsyncIterator[FakePeer]:
    """One fake peer."""
    async with FakePeer() as peer:
        yield peer


@pytest_asyncio.fixture
async def talks(peer: FakePeer) -> AsyncIterator[TalkFactory]:
    """Open streams to the fake peer, `await talks(reply_timeout=0.1)`."""
    async with AsyncExitStack() as stack:

        async def start(
            reply_timeout: float = PATIENT,
            *,
            needed: bool = False,
            path: str = "",
            sharded: bool = False,
            topology: Topology | None = None,
        ) -> Talk:
            talk = Talk(
                peer.url + path,
                reply_timeout,
                needed=needed,
                sharded=sharded,
                topology=topology,
            )
            return await stack.enter_async_context(talk)

        yield start


@pytest_asyncio.fixture
async def talk(peer: FakePeer) -> AsyncIterator[Talk]:
    """One stream to the fake peer, open already."""
    async with Talk(peer.url) as talk:
        await talk.ask("PING")
        peer.links[0].commands.clear()
        peer.links[0].writes.clear()
        yield talk
