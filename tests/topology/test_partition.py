"""A client that is cut off together with its master, while others go on with the next one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from redisson_py import Lease, Redisson, RedissonError
from redisson_py._time import now
from redisson_py.testing import (
    EmbeddedCluster,
    EmbeddedSentinel,
    EmbeddedServer,
    connecting_from,
    running_sentinel,
)
from tests.fixtures.measured import Measured
from tests.support.waiting import until

INSIDE, OUTSIDE = "127.0.0.30", "127.0.0.31"
LEASE = 4.0
#: With these a master that Sentinels have replaced refuses writes when it has no replica left.
STOPS = {"min-replicas-to-write": "1", "min-replicas-max-lag": "2"}


@pytest.mark.own_network
async def test_in_a_cluster_both_believe_for_a_lease_at_most(
    split_cluster: EmbeddedCluster, measured: Measured
) -> None:
    old = await split_cluster.master_of("k")

    async def replaced() -> object:
        return await split_cluster.wait_master("k", other_than=old)

    await cut_off(split_cluster, old, replaced, measured)


@pytest.mark.own_network
async def test_with_sentinel_both_believe_for_a_lease_at_most(
    server_choice: str, measured: Measured
) -> None:
    """The old master stops by itself only with the settings of docs/topologies.md."""
    async with running_sentinel(server_choice, own_addresses=True, config=STOPS) as servers:
        old = await servers.master()

        async def replaced() -> object:
            return await servers.wait_master(other_than=old)

        await cut_off(servers, old, replaced, measured)


class Minority:
    """A client that is cut off with its master: it holds a lock, and takes others.

    Attributes:
        held: What it has held since before.
        granted: What it was granted since it is cut off.
    """

    def __init__(self, client: Redisson, prefix: str, held: Lease) -> None:
        self.held = held
        self.granted: list[Lease] = []
        self._client = client
        self._prefix = prefix

    async def take(self) -> None:
        """Take one lock after the other, whatever the master says."""
        number = 0
        while True:
            number += 1
            lock = self._client.get_lock(f"{self._prefix}{number}")
            try:
                self.granted.append(await lock.acquire(timeout=1))
            except RedissonError:
                await asyncio.sleep(0.01)

    def knows(self) -> bool:
        """Return whether it was told that everything is lost."""
        return self.held.lost and all(lease.lost for lease in self.granted)


async def cut_off(
    servers: EmbeddedCluster | EmbeddedSentinel,
    old: EmbeddedServer,
    replaced: Callable[[], Awaitable[object]],
    measured: Measured,
) -> None:
    """Cut clients off that hold and take locks; have another one take them from the next master."""
    async with (
        client_at(INSIDE, servers.url, sync_replicas=0) as believing,
        client_at(INSIDE, servers.url, sync_replicas=1) as asking,
        client_at(OUTSIDE, servers.url, sync_replicas=0) as outside,
    ):
        alone = Minority(believing, "{k}alone", await believing.get_lock("k").acquire())
        synced = Minority(asking, "{k}synced", await asking.get_lock("{k}held").acquire())
        await servers.partition([old, INSIDE])
        taking = [asyncio.create_task(each.take()) for each in (alone, synced)]
        await replaced()
        both = [*alone.granted[-3:], alone.held, synced.held]
        believed = [await believed_after_it_was_taken(outside, each) for each in both]
        # They are told, although no other server can be asked, and nothing is renewed any more.
        await until(lambda: alone.knows() and synced.knows(), 15 * LEASE)
        for task in taking:
            task.cancel()
        measured("grants to the minority", f"{len(alone.granted)}, synced {len(synced.granted)}")
        measured(f"seconds of two holders, lease {LEASE}", f"{max(believed):.2f}")
        assert max(believed) <= LEASE
        assert alone.granted, "the old master did not go on"
        assert not synced.granted, "a grant was confirmed by no replica"
        await servers.heal()


@asynccontextmanager
async def client_at(address: str, url: str, **options: Any) -> AsyncGenerator[Redisson]:
    """Connect a client from an address, where it stays."""
    with connecting_from(address):
        async with Redisson.from_url(
            url, lease_time=LEASE, sync_timeout=LEASE, **options
        ) as client:
            async with client.get_lock("{k}first"):
                pass
            yield client


async def believed_after_it_was_taken(outside: Redisson, lease: Lease) -> float:
    """Take what a client that is cut off holds; return for how long it goes on to believe so."""
    async with outside.get_lock(lease.name).hold(timeout=30):
        return max(0.0, lease._ends_at - now())
