"""What the tests of faults have in common: what breaks, who looks on, how replies get lost."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

import pytest_asyncio
from redis.asyncio import Redis

from redisson_py.testing import EmbeddedServer, FaultProxy
from tests.fixtures.redis_server import ProxyFactory


@pytest_asyncio.fixture
async def link(proxy: ProxyFactory) -> FaultProxy:
    """A proxy before the session's server."""
    return await proxy()


@pytest_asyncio.fixture
async def admin(own_server: EmbeddedServer) -> AsyncIterator[Redis]:
    """A plain client of the test's own server."""
    async with Redis.from_url(own_server.url) as redis:
        yield redis


Loss = Callable[[FaultProxy], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def cut(link: FaultProxy, times: int = 1) -> AsyncIterator[None]:
    """The connection breaks in place of the reply, so many times."""
    lost = link.triggered
    link.cut_after_execution(b"EVALSHA", times)
    yield
    # A busy server may answer only after the client gave the connection up.
    await link.wait_until(lambda link: link.triggered >= lost + times)
    assert link.triggered == lost + times


@asynccontextmanager
async def swallowed(link: FaultProxy) -> AsyncIterator[None]:
    """The reply and all after it disappear, until the client gives the connection up."""
    silent_on: list[int] = []

    def loses(command: bytes) -> bool:
        if b"EVALSHA" in command and not silent_on:
            silent_on.append(link.accepted)
        return silent_on == [link.accepted]

    lost = link.triggered
    link.swallow_reply(loses, sys.maxsize)
    yield
    await link.wait_until(lambda link: link.triggered > lost)


#: Whoever survives two cuts survives the first; the long runs have single ones, too.
LOSSES: dict[str, Loss] = {"cut twice": partial(cut, times=2), "swallowed": swallowed}
