"""Locks of every kind that both sides have, and tasks that hold them as Java threads do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py.testing import EmbeddedCluster
from tests.fixtures.client import ClientFactory
from tests.fixtures.java import RedissonFactory, for_many_servers
from tests.interop.java import Java
from tests.interop.keyspace import Keyspace
from tests.interop.kinds import KINDS, Scene
from tests.interop.same_steps import Keyspaces
from tests.interop.tasks import Tasks
from tests.interop.waits import only_messages_wake
from tests.support.fair_locks import nothing_left, server_side
from tests.support.monitor import Monitor
from tests.support.scripts.fair import FairScripts
from tests.support.waiting import until_async


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


@pytest.fixture
def missing(java: Java, session_cluster: EmbeddedCluster | None) -> dict[str, str]:
    """The kinds of locks that there are not here, and why."""
    found = {}
    for name, kind in KINDS.items():
        if not (kind.reentrant or java.since(4, 4)):
            found[name] = f"Redisson {java.release} has no non-reentrant locks"
        elif kind.servers > 1 and session_cluster is not None:
            found[name] = "is on servers of its own, and not on a cluster"
    return found


@pytest.fixture(params=KINDS)
def scene(
    request: pytest.FixtureRequest, missing: dict[str, str], _scene: Callable[[str, str], Scene]
) -> Scene:
    """A lock of each kind in turn, and services of both sides that want it."""
    if request.param in missing:
        pytest.skip(missing[request.param])
    return _scene(request.param, "k")


@pytest.fixture
def scenes(missing: dict[str, str], _scene: Callable[[str, str], Scene]) -> list[Scene]:
    """A lock of every kind."""
    return [_scene(kind, f"a {kind}") for kind in KINDS if kind not in missing]


@pytest.fixture
def many_servers(java: Java) -> None:
    """For clusters and the like, releases are tested that can be told about sharded pub/sub."""
    for_many_servers(java)


@pytest.fixture
def only_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody of ours asks again unasked: a message wakes, or the end of a lease."""
    only_messages_wake(monkeypatch)


@pytest_asyncio.fixture
async def keyspaces(redis: Redis) -> AsyncIterator[Keyspaces]:
    """Of the names that Redisson uses and that we use, to compare them."""
    async with Monitor(redis) as java, Monitor(redis) as ours:
        yield Keyspace(redis, java, "of-java"), Keyspace(redis, ours, "of-us")


@pytest_asyncio.fixture
async def fair(redis: Redis) -> AsyncIterator[FairScripts]:
    """The fair lock `k` as Redis has it; in the end nothing of it is left."""
    fair = await server_side(redis)
    yield fair
    await until_async(lambda: nothing_left(fair))
