"""Nothing of a cluster's client is left: after closing, other event loops, forks, cancellations."""

from __future__ import annotations

import asyncio
import functools
import gc
from collections.abc import AsyncGenerator, AsyncIterator

import pytest
from redis.asyncio import Redis

from redisson_py import ClientClosedError, ConnectionLostError, Redisson
from redisson_py.testing import EmbeddedCluster
from tests.contract import test_cancellation_sweep as of_locks
from tests.fixtures.client import SYNC_TIMEOUT, ClientFactory
from tests.fixtures.measured import Measured
from tests.support.cancellation_scene import SOON, Trial
from tests.support.cancellation_scene import Scene as LockScene
from tests.support.cancellation_sides import RedisSide
from tests.support.cancellation_sweep import Probe, Swept, sweep
from tests.support.kinds import KINDS
from tests.support.waiting import set_safety_poll, until, until_async, until_waiting
from tests.topology.cluster_nodes import channels, connections, keys, router_of

#: What asks, waits, listens and connects.
SWEPT: tuple[Trial, ...] = (
    of_locks.acquire_a_free_lock,
    of_locks.acquire_while_reconnecting,
    of_locks.acquire_after_another_client,
    of_locks.release_while_another_client_listens,
    of_locks.release_while_reconnecting,
    of_locks.block_with_options_after_another_client,
)
#: In slots of all nodes.
NAMES = tuple(f"name{number}" for number in range(9))


async def assert_nothing_left(cluster: EmbeddedCluster, name: str) -> None:
    """Fail unless the nodes have no keys, channels and connections of a client."""

    async def is_gone() -> bool:
        return not any(await connections(cluster, name))

    await until_async(is_gone)
    assert await keys(cluster) == set()
    assert await channels(cluster) == []


async def test_closing_leaves_nothing(cluster: EmbeddedCluster) -> None:
    tasks = asyncio.all_tasks()
    for sync in (0, 1):
        client = Redisson.from_url(
            cluster.url, client_name="closing", sync_replicas=sync, sync_timeout=SYNC_TIMEOUT
        )
        for _ in range(2):
            async with client:
                leases = [await client.get_lock(name).acquire() for name in NAMES]
                waiters = [
                    asyncio.create_task(client.get_fair_lock(name).acquire()) for name in NAMES
                ]
                await until_waiting(client, len(NAMES))
                assert sum(map(bool, await connections(cluster, "closing"))) == 3
            await asyncio.wait(waiters)
            assert {type(waiter.exception()) for waiter in waiters} == {ClientClosedError}
            assert all(lease.lost for lease in leases)
            await assert_nothing_left(cluster, "closing")
            await asyncio.sleep(0)
            assert asyncio.all_tasks() == tasks


async def test_closing_while_a_node_is_away(cluster: EmbeddedCluster) -> None:
    tasks = asyncio.all_tasks()
    client = Redisson.from_url(cluster.url, client_name="closing", sync_timeout=SYNC_TIMEOUT)
    for name in NAMES:
        await client.get_lock(name).acquire()
    victim = await cluster.master_of(NAMES[0])
    await cluster.freeze(victim)
    acquiring = asyncio.create_task(client.get_lock(f"{{{NAMES[0]}}}x").acquire())
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await client.aclose()
        await asyncio.wait([acquiring])
    assert isinstance(acquiring.exception(), ClientClosedError)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == tasks
    await cluster.thaw(victim)


async def test_closing_before_there_is_a_map() -> None:
    client = Redisson.from_url("redis+cluster://127.0.0.1:1,127.0.0.1:2")
    tasks = asyncio.all_tasks()
    with pytest.raises(ConnectionLostError, match=r"no connection to Redis at 127\.0\.0\.1:[12]: "):
        await client.ping(timeout=0)
    acquiring = asyncio.create_task(client.get_lock("a").acquire())
    await asyncio.sleep(0.05)
    await client.aclose()
    await asyncio.wait([acquiring])
    assert isinstance(acquiring.exception(), ClientClosedError)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == tasks


async def test_a_wait_that_is_cancelled_for_the_map() -> None:
    async with Redisson.from_url("redis+cluster://127.0.0.1:1") as client:
        acquiring = [asyncio.create_task(client.get_lock(name).acquire()) for name in NAMES]
        waiting = router_of(client)._unrouted.grants
        await until(lambda: len(waiting.waiting_keys()) == len(NAMES))
        for task in acquiring:
            task.cancel()
        await asyncio.wait(acquiring)
        assert all(task.cancelled() for task in acquiring)
        await until(lambda: client.statistics().waiters == 0)


@pytest.mark.parametrize("ends", ["shut down", "closed"])
def test_another_event_loop(cluster_url: str, ends: str, caplog: pytest.LogCaptureFixture) -> None:
    client = Redisson.from_url(cluster_url, sync_timeout=SYNC_TIMEOUT)

    async def use(leave: bool) -> None:
        leases = [await client.get_lock(name).acquire() for name in NAMES]
        if not leave:
            for lease in leases:
                await lease.release()

    for _ in range(3):
        if ends == "shut down":
            # What is held is given back at the end of each.
            asyncio.run(use(leave=True))
            continue
        loop = asyncio.new_event_loop()
        loop.run_until_complete(use(leave=False))
        loop.close()

    async def last() -> None:
        async with client:
            await use(leave=False)

    asyncio.run(last())
    gc.collect()
    assert not [record for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")]


def test_generators_that_hold_at_the_end_of_an_event_loop(cluster_url: str) -> None:
    """Their blocks end under the protection of what they hold, wherever that is."""
    client = Redisson.from_url(cluster_url, client_name="generators", sync_timeout=SYNC_TIMEOUT)
    ended: list[str] = []

    async def hold(name: str) -> AsyncGenerator[str]:
        async with client.get_lock(name) as lease:
            try:
                yield name
            finally:
                lease.check()
                ended.append(name)

    kept = [hold(name) for name in NAMES]

    async def use() -> None:
        for generator in kept:
            await anext(generator)

    asyncio.run(use())
    assert sorted(ended) == sorted(NAMES)

    async def look() -> None:
        async with Redisson.from_url(cluster_url) as other:
            for name in NAMES:
                assert not await other.get_lock(name).locked()
        # The client that was left goes on here.
        async with client:
            for name in NAMES:
                async with client.get_lock(name):
                    pass

    asyncio.run(look())


@pytest.fixture
def cluster_url(started_cluster: EmbeddedCluster) -> str:
    """The session's cluster, for tests that run event loops of their own."""
    return started_cluster.url


@pytest.fixture
async def redis(cluster: EmbeddedCluster) -> AsyncIterator[Redis]:
    """A plain client of the master of `k`."""
    async with Redis.from_url((await cluster.master_of("k")).url) as redis:
        yield redis


@pytest.mark.parametrize("kind", ["lock", "fair_lock"])
async def test_cancelled_at_any_await(
    kind: str,
    cluster: EmbeddedCluster,
    clients: ClientFactory,
    redis: Redis,
    measured: Measured,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_safety_poll(monkeypatch, 6 * SOON)
    make = functools.partial(clients, cluster.url, sync_replicas=0)
    scene, swept = LockScene(KINDS[kind].one, make, RedisSide(redis)), Swept()
    for trial in SWEPT:

        async def run(cut: Probe, trial: Trial = trial) -> None:
            await trial(scene, cut)
            await scene.check(scene.client)

        swept.add(await sweep(run))
    measured(f"points swept on a cluster, {kind}", swept)
