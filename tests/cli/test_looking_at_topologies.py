"""The commands that look reach every master of a cluster, and the one that Sentinel names."""

from __future__ import annotations

import asyncio
from typing import Any

from redisson_py import Redisson
from redisson_py.testing import EmbeddedCluster, EmbeddedSentinel
from tests.cli.holding import JAVA, documents, inspected
from tests.cli.terminals import run
from tests.fixtures.topologies import ClusterFactory
from tests.support.streams import EVERYWHERE
from tests.support.waiting import until_async

#: On each of the three masters.
NAMES = list(EVERYWHERE)


async def test_all_masters_of_a_cluster_are_looked_at(cluster: EmbeddedCluster) -> None:
    async with Redisson.from_url(cluster.url, sync_replicas=0) as client:
        leases = [await client.get_lock(name).acquire() for name in NAMES]
        listed = await documents("locks", "--url", cluster.url)
        look = await documents("top", "--once", "--url", cluster.url)
        found = [await inspected(cluster.url, name) for name in NAMES]
        freed = [
            await run("release", "--force", "--yes", name, "--url", cluster.url) for name in NAMES
        ]
        assert [each["name"] for each in listed["found"]] == NAMES
        assert {row["name"] for row in look["rows"]} == {*NAMES}
        assert [each["holders"][0]["owner"] for (each,) in found] == [one.owner for one in leases]
        assert [result.exit_code for result in freed] == [0, 0, 0]


async def test_a_master_that_is_away_is_named_and_the_others_are_listed(
    cluster_factory: ClusterFactory,
) -> None:
    # The nodes take no node for dead while the test runs.
    cluster = await cluster_factory(replicas=0, node_timeout=600.0)
    masters = {name: await cluster.master_of(name) for name in NAMES}
    for name, master in masters.items():
        await master.execute("HSET", name, JAVA, 1)
    silent = masters[NAMES[0]]
    await silent.pause()
    try:
        other = await run("inspect", NAMES[1], "--url", f"{cluster.url}?socket_timeout=3")
        locks = await run("locks", "--url", f"{cluster.url}?socket_timeout=3")
    finally:
        await silent.resume()
    assert locks.exit_code == 69
    assert f"{silent.port} did not answer" in locks.stderr
    names = [row.split()[0] for row in locks.stdout.splitlines()]
    assert names == ["NAME", *NAMES[1:]]
    # What it has is known; who listens anywhere is not.
    assert other.exit_code == 0
    assert "listening unknown" in other.stdout


async def test_who_waits_in_a_cluster_is_seen(cluster: EmbeddedCluster) -> None:
    """What clients say of themselves is on other nodes than the locks for which they wait."""
    holder, waiter = (
        Redisson.from_url(cluster.url, sync_replicas=0, client_name=name)
        for name in ("checkout", "billing")
    )
    async with holder, waiter:
        for get in ("get_lock", "get_fenced_lock"):
            for name in NAMES:
                lock = getattr(holder, get)(name)
                async with lock:
                    task = asyncio.create_task(getattr(waiter, get)(name).acquire())

                    async def waits(lock: Any = lock) -> bool:
                        return bool((await lock.inspect()).waiters)

                    await until_async(waits)
                    (seen,) = (await lock.inspect()).waiting
                    (found,) = await inspected(cluster.url, name)
                    listed = await documents("locks", name, "--url", cluster.url)
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)
                assert (seen.owner, seen.client_name) == (waiter.id, "billing")
                for each in (found, *listed["found"]):
                    (shown,) = each["waiters"]
                    assert (shown["owner"], shown["client_name"]) == (waiter.id, "billing")


async def test_the_master_that_sentinels_name_is_looked_at(
    started_sentinel: EmbeddedSentinel,
) -> None:
    async with Redisson.from_url(started_sentinel.url, sync_replicas=0) as client:
        async with client.get_lock("k") as lease:
            url = started_sentinel.url
            listed = await documents("locks", "--url", url)
            look = await documents("top", "--once", "--url", url)
            (found,) = await inspected(url, "k")
    owners = [each["holders"][0]["owner"] for each in (listed["found"][0], look["rows"][0], found)]
    assert owners == [lease.owner] * 3
