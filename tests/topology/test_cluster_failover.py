"""A master of a cluster is killed, frozen, or replaced in good order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from redisson_py import FencedLock
from redisson_py.testing import EmbeddedCluster, EmbeddedServer
from tests.fixtures.client import ClientFactory
from tests.fixtures.measured import Measured
from tests.support.node_info import calls, info
from tests.support.waiting import set_safety_poll, until, until_async, until_waiting
from tests.topology.cluster_nodes import keys, names_at, stream_to

HELD = 100
WAITING = 5
LATE = 120


@pytest.fixture(autouse=True)
def no_safety_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is to be woken by anything but a message, or what stands for one that was lost."""
    set_safety_poll(monkeypatch, 600)


async def replicated(cluster: EmbeddedCluster) -> None:
    """Return when the replicas have what their masters have."""
    for master in await cluster.masters():
        wanted = int((await info(master, "replication"))["master_repl_offset"])
        for replica in await cluster.replicas_of(master):

            async def has_all(replica: EmbeddedServer = replica, wanted: int = wanted) -> bool:
                return int((await info(replica, "replication"))["slave_repl_offset"]) >= wanted

            await until_async(has_all)


@asynccontextmanager
async def no_replication(master: EmbeddedServer) -> AsyncIterator[None]:
    """What a master does meanwhile reaches no replica."""
    facts = await info(master, "replication")
    assert int(facts["connected_slaves"])
    await master.execute("ACL", "SETUSER", "default", "-psync", "-sync")
    await master.execute("CLIENT", "KILL", "TYPE", "replica")
    yield
    assert (await info(master, "replication"))["connected_slaves"] == "0"


async def fail(cluster: EmbeddedCluster, how: str, target: str) -> EmbeddedServer:
    """Have the master of a name replaced; return the one that was."""
    victim = await cluster.master_of(target)
    if how == "graceful":
        await cluster.failover(target)
        return victim
    await (cluster.kill(victim) if how == "kill" else cluster.freeze(victim))
    await cluster.wait_master(target, other_than=victim)
    return victim


@pytest.mark.parametrize(
    ("how", "replicas"),
    [
        pytest.param("kill", 0, marks=pytest.mark.heart),
        ("kill", "auto"),
        ("freeze", "auto"),
        ("graceful", "auto"),
    ],
)
async def test_leases_waiters_and_work_survive(
    cluster: EmbeddedCluster, clients: ClientFactory, measured: Measured, how: str, replicas: object
) -> None:
    client, other = (clients(cluster.url, sync_replicas=replicas) for _ in range(2))
    held = [await client.get_lock(f"held{number}").acquire() for number in range(HELD)]
    victim = await cluster.master_of("probe")
    names = await names_at(cluster, victim, WAITING, "waited")
    in_the_way = [await other.get_lock(name).acquire() for name in names]
    events: list[str] = []

    async def wait_for(name: str) -> None:
        async with client.get_lock(name):
            events.append(name)

    waiters = [asyncio.create_task(wait_for(name)) for name in names]
    await until_waiting(client, WAITING)
    pairs, stop = 0, False

    async def probe() -> None:
        nonlocal pairs
        while not stop:
            async with client.get_lock("probe").hold(timeout=30):
                pairs += 1

    probes = asyncio.create_task(probe())
    await until(lambda: pairs > 10)
    await replicated(cluster)
    assert await fail(cluster, how, "probe") is victim
    before = pairs
    await until(lambda: pairs > before + 10 or probes.done(), 30)
    assert not events
    # Before they are released: all that is held has been asked after, and is there.
    await until(lambda: not client._watchdog._at_once and not client._watchdog._unanswered, 30)
    for lease in in_the_way:
        await lease.release()
    await asyncio.wait_for(asyncio.gather(*waiters), 60)
    assert sorted(events) == sorted(names)
    if how == "freeze":
        await cluster.thaw(victim)
        await cluster.wait_healthy()
    before = pairs
    await until(lambda: pairs > before + 10 or probes.done())
    stop = True
    await probes
    for lease in held:
        lease.check()
        await lease.release()
    for each in (client, other):
        assert each.statistics().losses == each.statistics().timeouts == 0
    measured(f"pairs through a failover ({how}, sync_replicas={replicas})", pairs)


async def test_grants_that_were_not_replicated_are_reported_and_tokens_grow(
    own_cluster: EmbeddedCluster, clients: ClientFactory
) -> None:
    cluster = own_cluster
    # A third of this lease is more than this test takes.
    client, other = (clients(cluster.url, lease_time=600, sync_replicas=0) for _ in range(2))
    victim = await cluster.master_of("{x}0")
    locks = [client.get_fenced_lock(f"{{x}}{number}") for number in range(20)]
    kept = [await lock.acquire() for lock in locks[:10]]
    await replicated(cluster)
    async with no_replication(victim):
        lost = [await lock.acquire() for lock in locks[10:]]
        # A token that only the old master knows.
        for lease in kept[:5]:
            await lease.release()
        kept[:5] = [await lock.acquire() for lock in locks[:5]]
    await fail(cluster, "kill", "{x}0")
    await until(lambda: all(lease.lost for lease in (*lost, *kept[:5])), 30)
    statistics = client.statistics()
    assert statistics.losses_by_reason["taken"] == statistics.losses == 15
    assert not any(lease.lost for lease in kept[5:])
    tokens = {lease.name: lease.token for lease in (*lost, *kept)}
    for lease in kept[5:]:
        await lease.release()
    # The first five are held at the new master, by an owner whose release it never heard of.
    for lock in locks:
        again: FencedLock = other.get_fenced_lock(lock.name)
        await again.force_release()
        async with again as lease:
            token = tokens[lock.name]
            assert lease.token is not None
            assert token is not None
            assert lease.token > token


async def test_what_a_frozen_master_grants_when_it_wakes_is_not_believed(
    own_cluster: EmbeddedCluster, clients: ClientFactory, measured: Measured
) -> None:
    cluster = own_cluster
    client, other = (clients(cluster.url, sync_replicas=0) for _ in range(2))
    names = [f"{{x}}{number}" for number in range(LATE)]
    victim = await cluster.master_of("{x}")
    in_the_way = [await other.get_lock(name).acquire(lease_time=600) for name in names]
    async with client.get_lock("{x}warm"):
        pass
    await replicated(cluster)
    async with no_replication(victim):
        # Only the old master knows that they are free.
        for lease in in_the_way:
            await lease.release()
    stream, done = stream_to(client, victim), await calls(victim, "evalsha")
    await cluster.freeze(victim)
    acquiring = [asyncio.create_task(client.get_lock(name).acquire()) for name in names]
    await until(lambda: stream._wire is not None and len(stream._wire.in_flight) >= LATE)
    await cluster.wait_master("{x}", other_than=victim)
    await cluster.thaw(victim)
    await cluster.wait_healthy()
    # Whether it hears first that it was replaced is up to the server.
    measured("late scripts that a woken master executed", await calls(victim, "evalsha") - done)
    await until(lambda: client.statistics().waiters == LATE)
    statistics = client.statistics()
    assert statistics.acquires == 1
    assert statistics.held_leases == 0
    assert not any(task.done() for task in acquiring)
    # They ask the new master, and it is its word that counts.
    for name in names:
        await other.get_lock(name).force_release()
    leases = await asyncio.wait_for(asyncio.gather(*acquiring), 60)
    for lease in leases:
        lease.check()
        await lease.release()
    assert not {key for key in await keys(cluster) if key.startswith("{x}")}


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
