"""What Redisson's own tests show of clusters, on ours, and what is weak there of its messages."""

from __future__ import annotations

import asyncio

import pytest

from redisson_py.testing import EmbeddedCluster
from tests.fixtures.client import ClientFactory
from tests.support.waiting import until_waiting


async def test_a_lock_is_taken_and_given_back_again_and_again(
    cluster: EmbeddedCluster, clients: ClientFactory
) -> None:
    """RedissonLockTest.testInCluster."""
    lock = clients(cluster.url).get_lock("a")
    for _ in range(3):
        lease = await lock.acquire()
        assert await lock.locked()
        await lease.release()
        assert not await lock.locked()


async def test_a_lock_is_taken_and_given_back_while_masters_change(
    cluster: EmbeddedCluster, clients: ClientFactory
) -> None:
    """RedissonLockTest.testLockFailoverInCluster, where the failover is only in its name."""
    lock = clients(cluster.url, lease_time=60).get_lock("a")
    failing = asyncio.create_task(cluster.failover("a"))
    rounds = 0
    while rounds < 30 or not failing.done():
        lease = await lock.try_acquire()
        assert lease is not None
        assert await lock.locked()
        await lease.release()
        rounds += 1
    new = await failing
    assert await cluster.master_of("a") is new
    await cluster.kill(new)
    for _ in range(30):
        # Without a timeout it asks once, and is told that the master is away.
        lease = await lock.try_acquire(timeout=30)
        assert lease is not None
        await lease.release()
    assert not await lock.locked()


async def test_asking_once_finds_the_master_behind_a_demoted_one(
    cluster: EmbeddedCluster, clients: ClientFactory
) -> None:
    """A replica that answers is no Redis that is away: the cluster knows the master."""
    client = clients(cluster.url)
    lock = client.get_lock("a")
    for _ in range(10):
        async with lock:
            pass
        await cluster.failover("a")
        # Its next connection is to the one that was demoted.
        client._router.stream_for(b"a").abort("the test says so")
        lease = await lock.try_acquire()
        assert lease is not None
        await lease.release()


async def test_a_writer_reads(cluster: EmbeddedCluster, clients: ClientFactory) -> None:
    """RedissonReadWriteLockTest.testInCluster."""
    both = clients(cluster.url).get_read_write_lock("a")
    writing = await both.write_lock().acquire()
    reading = await both.read_lock().acquire()
    await reading.release()
    assert await both.write_lock().locked()
    await writing.release()
    assert not await both.write_lock().locked()
    assert not await both.read_lock().locked()


async def test_a_mapped_name_keeps_all_keys_in_one_slot(
    cluster: EmbeddedCluster, clients: ClientFactory
) -> None:
    """RedissonPermitExpirableSemaphoreTest.testGetInClusterNameMapper."""
    client = clients(cluster.url, name_mapper=lambda name: f"semaphore:{name}")
    semaphore = client.get_permit_expirable_semaphore("some")
    assert await semaphore.try_set_permits(1)
    permit = await semaphore.acquire()
    master = await cluster.master_of("semaphore:some")
    keys = {"semaphore:some", "{semaphore:some}:timeout"}
    assert await master.execute("EXISTS", *keys) == 2
    await semaphore.release(permit)
    assert await semaphore.available() == 1


async def test_messages_stay_in_the_shard(cluster: EmbeddedCluster, clients: ClientFactory) -> None:
    """PUBLISH goes to all nodes of a cluster, and SPUBLISH to those of the slot's shard."""
    if cluster.version < (7,):
        pytest.skip("has no sharded pub/sub")
    for mode in ("on", "off"):
        holder, waiter = [clients(cluster.url, sharded_pubsub=mode) for _ in range(2)]
        before = await sent_to_all(cluster)
        lease = await holder.get_lock("a").acquire()
        waiting = asyncio.create_task(waiter.get_lock("a").acquire())
        await until_waiting(waiter, 1)
        await lease.release()
        await (await waiting).release()
        flooded = await sent_to_all(cluster) - before
        assert bool(flooded) == (mode == "off")


async def sent_to_all(cluster: EmbeddedCluster) -> int:
    """Return how many messages of PUBLISH the nodes have passed on."""
    count = 0
    for node in cluster.nodes:
        for line in str(await node.execute("CLUSTER", "INFO")).splitlines():
            name, _, value = line.partition(":")
            if name == "cluster_stats_messages_publish_sent":
                count += int(value)
    return count
