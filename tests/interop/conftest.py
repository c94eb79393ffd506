"""Locks of every kind that both sides have, and tasks that hold them as Java threads do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from tests.fixtures.client import ClientFactory
from tests.fixtures.java import RedissonFactory
from tests.interop.java import Java
from tests.interop.keyspace import Keyspace
from tests.interop.kinds import KINDS, Scene
from tests.interop.same_steps import Keyspaces
from tests.interop.support import only_messages_wake
from tests.interop.tasks import Tasks
from tests.lua.fair_scripts import FairScripts
from tests.primitives.fair_locks import nothing_left, server_side
from tests.support import until_async


@pytest_asyncio.fixture
async def tasks() -> AsyncIterator[Tasks]:
    """Tasks of this test; they end with it."""
    async with Tasks() as tasks:
        yield tasks


@pytest.fixture
def _scene(
    request: pytest.FixtureRequest,
    java: Java,
    clients: ClientFactory,
    redissons: RedissonFactory,
    redis: Redis,
    server_url: str,
) -> Callable[[str, str], Scene]:
    def make(kind: str, name: str) -> Scene:
        fleet = request.getfixturevalue("fleet") if KINDS[kind].servers > 1 else None
        return Scene(KINDS[kind], name, java, clients, redissons, redis, server_url, fleet)

    return make


@pytest.fixture(params=KINDS)
def scene(request: pytest.FixtureRequest, java: Java, _scene: Callable[[str, str], Scene]) -> Scene:
    """A lock of each kind in turn, and services of both sides that want it."""
    if not (KINDS[request.param].reentrant or java.since(4, 4)):
        pytest.skip(f"Redisson {java.release} has no non-reentrant locks")
    return _scene(request.param, "k")


@pytest.fixture
def scenes(java: Java, _scene: Callable[[str, str], Scene]) -> list[Scene]:
    """A lock of every kind."""
    return [
        _scene(kind, f"a {kind}") for kind in KINDS if KINDS[kind].reentrant or java.since(4, 4)
    ]


@pytest.fixture
def many_servers(java: Java) -> None:
    """For clusters and the like, releases are tested that can be told about sharded pub/sub."""
    if not java.since(3, 29):
        pytest.skip(f"Redisson {java.release} has no shardedSubscriptionMode")


@pytest.fixture
def only_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody of ours asks again unasked: a message wakes, or the end of a lease."""
    only_messages_wake(monkeypatch)


@pytest_asyncio.fixture
async def keyspaces(redis: Redis) -> AsyncIterator[Keyspaces]:
    """Of the names that Redisson uses and that we use, to compare them."""
    async with AsyncExitStack() as stack:
        java, ours = Keyspace(redis, "of-java"), Keyspace(redis, "of-us")
        for each in (java, ours):
            await stack.enter_async_context(each)
        yield java, ours


@pytest_asyncio.fixture
async def fair(redis: Redis) -> AsyncIterator[FairScripts]:
    """The fair lock `k` as Redis has it; in the end nothing of it is left."""
    fair = await server_side(redis)
    yield fair
    await until_async(lambda: nothing_left(fair))
