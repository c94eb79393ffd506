"""Crowds of clients while slots move and masters are replaced: nobody sleeps on, nobody is left."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Literal

import pytest

from redisson_py import FencedLease, LeaseLostError, Redisson
from redisson_py._options import Options
from redisson_py.testing import EmbeddedCluster, EmbeddedSentinel
from tests.crowd.kinds import Kind, of_kind
from tests.fixtures.client import ClientFactory
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(300)

CLIENTS = 8
#: Seconds in which everybody must have come who needs no safety poll.
SOON = 120


class Crowd:
    """Clients that take one lock in turn, one section at a time."""

    def __init__(self, clients: list[Redisson], kind: str = "fenced") -> None:
        self.granted: Counter[int] = Counter()
        self._clients = clients
        self._kind = kind
        self._ends = False
        self._inside = 0
        self._tasks = [asyncio.create_task(self._work(each)) for each in range(len(clients))]

    async def _work(self, number: int) -> None:
        client, highest = self._clients[number], 0
        if self._kind == "both sides":
            lock: Kind = of_kind(client, "read" if number % 2 else "write")
        else:
            lock = of_kind(client, self._kind)
        while not self._ends:
            # A hold is lost with the master that had not told its replica of it.
            with suppress(LeaseLostError):
                async with lock as lease:
                    if isinstance(lease, FencedLease):
                        assert lease.token > highest
                        highest = lease.token
                    self.granted[number] += 1
                    await asyncio.sleep(0.002)
            # Readers that always overlap keep writers out.
            await asyncio.sleep(0.02 if self._kind == "both sides" else 0)

    async def all_served(self) -> None:
        """Return when each client was served again."""
        some = self.granted.copy()
        numbers = range(len(self._clients))
        await until(
            lambda: (
                any(each.done() for each in self._tasks)
                or all(self.granted[each] > some[each] for each in numbers)
            ),
            SOON,
        )
        assert not any(each.done() for each in self._tasks), self._tasks

    async def end(self) -> None:
        """Let all finish."""
        self._ends = True
        async with asyncio.timeout(SOON):
            await asyncio.gather(*self._tasks)


each_kind = pytest.mark.parametrize(
    "kind", ["fenced", "write", "both sides", "semaphore", "permits"]
)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have clients give a server as long to answer as a busy machine takes."""

    def as_elsewhere(options: Options, fails_over: bool) -> float:
        return options.reply_timeout

    monkeypatch.setattr(Options, "reply_timeout_where", as_elsewhere)


@each_kind
@pytest.mark.parametrize("sync", [0, 1])
async def test_a_crowd_follows_its_slot(
    cluster: EmbeddedCluster, clients: ClientFactory, sync: int, kind: str
) -> None:
    options = {"command_timeout": 25, "sync_replicas": sync, "url": cluster.url}
    crowd = Crowd([clients(**options) for _ in range(CLIENTS)], kind)
    for _ in range(4):
        await crowd.all_served()
        migration = await cluster.begin_migration("k")
        await asyncio.sleep(0.02)
        await migration.finish()
    await crowd.all_served()
    await crowd.end()


@each_kind
@pytest.mark.parametrize("how", ["kill", "graceful"])
async def test_a_crowd_follows_a_new_master_of_a_cluster(
    own_cluster: EmbeddedCluster,
    clients: ClientFactory,
    how: Literal["kill", "graceful"],
    kind: str,
) -> None:
    url = own_cluster.url
    made = [clients(url=url, command_timeout=25, sync_replicas=0) for _ in range(CLIENTS)]
    crowd = Crowd(made, kind)
    await crowd.all_served()
    victim = await own_cluster.master_of("k")
    if how == "kill":
        await own_cluster.kill(victim)
        await own_cluster.wait_master("k", other_than=victim)
    else:
        await own_cluster.failover("k")
    await crowd.all_served()
    await crowd.end()


@pytest.mark.parametrize("sync", [0, 1])
@pytest.mark.parametrize("how", ["kill", "by hand"])
@pytest.mark.parametrize("kind", ["fenced", "semaphore"])
async def test_a_crowd_follows_a_new_master_of_sentinels(
    own_sentinel: EmbeddedSentinel, clients: ClientFactory, how: str, sync: int, kind: str
) -> None:
    options = {"command_timeout": 25, "sync_replicas": sync, "lease_time": 5}
    made = [clients(url=own_sentinel.url, **options) for _ in range(CLIENTS)]
    crowd = Crowd(made, kind)
    await crowd.all_served()
    if how == "kill":
        await own_sentinel.kill(await own_sentinel.master())
    else:
        await own_sentinel.failover()
    await crowd.all_served()
    await crowd.end()
