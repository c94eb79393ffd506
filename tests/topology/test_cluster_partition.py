"""A client that is cut off together with its master."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from redisson_py import Lease, Redisson, RedissonError
from redisson_py._time import now
from redisson_py.testing import EmbeddedCluster, connecting_from
from tests.fixtures.measured import Measured
from tests.support import until

INSIDE, OUTSIDE = "127.0.0.30", "127.0.0.31"
LEASE = 6.0


@asynccontextmanager
async def client_at(
    address: str, cluster: EmbeddedCluster, **options: Any
) -> AsyncIterator[Redisson]:
    """Connect a client from an address, where it stays."""
    with connecting_from(address):
        async with Redisson.from_url(cluster.url, lease_time=LEASE, **options) as client:
            async with client.get_lock("{k}first"):
                pass
            yield client


@pytest.mark.own_network
@pytest.mark.parametrize("replicas", [0, 1])
async def test_both_believe_for_a_lease_at_most(
    split_cluster: EmbeddedCluster, measured: Measured, replicas: int
) -> None:
    old = await split_cluster.master_of("k")
    granted: list[Lease] = []
    async with (
        client_at(INSIDE, split_cluster, sync_replicas=replicas) as inside,
        client_at(OUTSIDE, split_cluster, sync_replicas=0) as outside,
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

        await split_cluster.partition([old, INSIDE])
        asking = asyncio.create_task(ask_the_minority())
        await split_cluster.wait_master("k", other_than=old)
        over = [await believed_after_it_was_taken(outside, each) for each in granted[-3:]]
        over.append(await believed_after_it_was_taken(outside, held))
        measured(f"grants to the minority, sync_replicas={replicas}", str(len(granted)))
        measured(f"seconds of two holders, lease {LEASE}", f"{max(over):.2f}")
        assert max(over) <= LEASE
        if replicas:
            assert not granted, "a grant was confirmed by nobody"
        # Each is told, although nobody can be asked.
        await until(lambda: held.lost and all(lease.lost for lease in granted))
        asking.cancel()
        await split_cluster.heal()


async def believed_after_it_was_taken(outside: Redisson, lease: Lease) -> float:
    """Take what a client that is cut off holds; return for how long it goes on to believe so."""
    async with outside.get_lock(lease.name).hold(timeout=30):
        return max(0.0, lease._ends_at - now())
