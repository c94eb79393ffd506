"""Masters with replicas of their own, and fakes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py._options import Options
from redisson_py.testing import EmbeddedReplicas
from tests.fixtures.topologies import ReplicasFactory, found
from tests.support.waiting import until_async
from tests.topology.fakes import Scene

PairFactory = Callable[..., Awaitable["Pair"]]

#: Nothing but what a test does is to be replicated.
QUIET = {"repl-ping-replica-period": "3600", "repl-timeout": "7200"}


class Pair:
    """A master, its replicas, and a plain client of each."""

    def __init__(self, servers: EmbeddedReplicas) -> None:
        self.servers = servers
        self.master, *self.replicas = servers.nodes
        self.url = self.master.url
        self.redis = Redis.from_url(self.url)

    async def freeze(self, *replicas: int) -> None:
        """Stop replicas, by number; all if none is named."""
        for number in replicas or range(len(self.replicas)):
            await self.servers.freeze(self.replicas[number])

    async def thaw(self) -> None:
        """Let the frozen replicas go on, and wait until they have all that the master has."""
        for replica in self.replicas:
            if replica.paused:
                await self.servers.thaw(replica)
        await self.servers.wait_healthy()
        await self.settle()

    async def settle(self) -> None:
        """Return when all replicas confirm at once; the first time it takes them up to a second."""
        await self.redis.incr("settled")
        await self.redis.delete("settled")
        assert await self.redis.wait(len(self.replicas), 10_000) == len(self.replicas)

    async def begin(self) -> Pair:
        """Return it empty: all replicas confirm, nobody waits, and no command is counted yet."""
        await self.redis.flushall()
        await self.settle()
        await until_async(self.idle)
        await self.redis.config_resetstat()
        return self

    async def end(self) -> None:
        """Mend what a test broke."""
        # One that was demoted follows nobody any more.
        await self.redis.replicaof("NO", "ONE")
        await self.thaw()
        await self.redis.aclose()

    async def keys(self) -> list[set[bytes]]:
        """Return the keys that each server has, but for tombstones and descriptions."""
        found = []
        for node in (self.master, *self.replicas):
            async with Redis.from_url(node.url) as redis:
                keys = {bytes(key) async for key in redis.scan_iter()}
                found.append({key for key in keys if b"redisson_py:" not in key})
        return found

    async def calls(self, command: str) -> int:
        """Return how often the master has executed a command."""
        stats = await self.redis.info("commandstats")
        return int(stats.get(f"cmdstat_{command}", {"calls": 0})["calls"])

    async def blocked(self) -> bool:
        """Return whether somebody waits for the master's replicas."""
        return bool((await self.redis.info("clients"))["blocked_clients"])

    async def idle(self) -> bool:
        """Return whether nobody is blocked."""
        return not await self.blocked()


@pytest_asyncio.fixture
async def pairs(replicas_factory: ReplicasFactory) -> AsyncIterator[PairFactory]:
    """Start masters with replicas: `await pairs(replicas=2)`."""
    async with AsyncExitStack() as stack:

        async def start(replicas: int = 1) -> Pair:
            pair = Pair(await replicas_factory(replicas=replicas, config=QUIET))
            stack.push_async_callback(pair.redis.aclose)
            return await pair.begin()

        yield start


@pytest.fixture(scope="session")
def started_pair(server_choice: str) -> Iterator[EmbeddedReplicas]:
    """A master with one replica, for the session."""
    with found(server_choice) as choice:
        servers = EmbeddedReplicas(choice, replicas=1, config=QUIET)
    try:
        servers.start_blocking()
        yield servers
    finally:
        servers.close_blocking()


@pytest_asyncio.fixture
async def pair(started_pair: EmbeddedReplicas) -> AsyncIterator[Pair]:
    """The session's master with one replica, empty. A test may freeze and demote them."""
    pair = await Pair(started_pair).begin()
    try:
        yield pair
    finally:
        await pair.end()


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have clients of clusters give a server as long to answer as other clients do.

    One of a busy machine may stand still for a second; connecting again is not in the bill.
    """
    monkeypatch.setattr(Options, "reply_timeout_where", lambda options, _: options.reply_timeout)


@pytest_asyncio.fixture
async def scene() -> AsyncIterator[Scene]:
    """Fake servers and Sentinels."""
    async with Scene() as scene:
        yield scene
