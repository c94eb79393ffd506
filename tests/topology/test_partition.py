"""A client that is cut off together with its master, while others go on with the next one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
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
from tests.support import until

INSIDE, OUTSIDE = "127.0.0.30", "127.0.0.31"
LEASE = 4.0
#: With these a master that Sentinels have replaced refuses writes when it has no replica left.
STOPS = {"min-replicas-to-write": "1", "min-replicas-max-lag": "2"}


@pytest.mark.own_network
@pytest.mark.parametrize("replicas", [0, 1])
async def test_in_a_cluster_both_believe_for_a_lease_at_most(
    split_cluster: EmbeddedCluster, measured: Measured, replicas: int
) -> None:
    old = await split_cluster.master_of("k")

    async def replaced() -> object:
        return await split_cluster.wait_master("k", other_than=old)

    await cut_off(split_cluster, old, replaced, replicas, measured)


@pytest.mark.own_network
@pytest.mark.parametrize("replicas", [0, 1])
async def test_with_sentinel_both_believe_for_a_lease_at_most(
    server_choice: str, measured: Measured, replicas: int
) -> None:
    """The old master stops by itself only with the settings of docs/topologies.md."""
    config = {} if replicas else STOPS
    async with running_sentinel(server_choice, own_addresses=True, config=config) as servers:
        old = await servers.master()

        async def replaced() -> object:
            return await servers.wait_master(other_than=old)

        await cut_off(servers, old, replaced, replicas, measured)


async def cut_off(
    servers: EmbeddedCluster | EmbeddedSentinel,
    old: EmbeddedServer,
    replaced: Callable[[], Awaitable[object]],
    replicas: int,
    measured: Measured,
) -> None:
    """Cut a client off that holds and takes locks; have another one take them from the next."""
    granted: list[Lease] = []
    async with (
        client_at(INSIDE, servers.url, sync_replicas=replicas) as inside,
        client_at(OUTSIDE, servers.url, sync_replicas=0) as outside,
    ):
        held = await inside.get_lock("k").acquire()

        async def ask_the_minority() -> None:
            number = 0
            while True:
                number += 1
                try:
                    granted.append(await inside.get_lock(f"{{k}}{number}").acquire(timeout=1))
                except RedissonError:
                    await asyncio.sleep(0.01)

        await servers.partition([old, INSIDE])
        asking = asyncio.create_task(ask_the_minority())
        await replaced()
        over = [await believed_after_it_was_taken(outside, each) for each in granted[-3:]]
        over.append(await believed_after_it_was_taken(outside, held))
        # Each is told, although no other server can be asked, and nothing is renewed any more.
        await until(lambda: held.lost and all(lease.lost for lease in granted), 2 * LEASE)
        asking.cancel()
        measured(f"grants to the minority, sync_replicas={replicas}", str(len(granted)))
        measured(f"seconds of two holders, lease {LEASE}", f"{max(over):.2f}")
        assert max(over) <= LEASE
        if replicas:
            assert not granted, "a grant was confirmed by no replica"
        else:
            assert granted, "the old master did not go on"
        await servers.heal()


@asynccontextmanager
async def client_at(address: str, url: str, **options: Any) -> AsyncIterator[Redisson]:
    """Connect a client from an address, where it stays."""
    with connecting_from(address):
        async with Redisson.from_url(url, lease_time=LEASE, **options) as client:
            async with client.get_lock("{k}first"):
                pass
            yield client


async def believed_after_it_was_taken(outside: Redisson, lease: Lease) -> float:
    """Take what a client that is cut off holds; return for how long it goes on to believe so."""
    async with outside.get_lock(lease.name).hold(timeout=30):
        return max(0.0, lease._ends_at - now())
