"""Several servers of which one is master: looking for it, and following it while roles change."""

from __future__ import annotations

import asyncio

import pytest

from redisson_py import ConnectionLostError
from redisson_py._redis.topology import replicated as replicated_module
from redisson_py._redis.topology.finder import FinderRouter
from redisson_py._redis.topology.replicated import ReplicatedFinder
from redisson_py.errors import BackendError
from redisson_py.testing import EmbeddedReplicas
from tests.fixtures.client import ClientFactory
from tests.support.cancellation_sweep import Probe, sweep
from tests.support.fake_peer import CUT, SILENCE, error
from tests.support.waiting import until, until_async, until_listening
from tests.topology.fakes import Scene, address_of, connector
from tests.topology.sentinels import has

pytestmark = pytest.mark.also("floor")


async def test_a_server_that_hands_over_is_followed(
    own_replicas: EmbeddedReplicas, clients: ClientFactory
) -> None:
    # The master is named last.
    addresses = ",".join(node.address for node in reversed(own_replicas.nodes))
    client, waiter = [clients(f"redis://{addresses}", lease_time=60) for _ in range(2)]
    lease = await client.get_lock("held").acquire()
    assert isinstance(client._router, FinderRouter)
    assert isinstance(client._router._finder, ReplicatedFinder)
    assert client._router._finder.where == own_replicas.nodes[0].address
    waiting = asyncio.create_task(waiter.get_lock("held").acquire())
    await until_listening(waiter)
    for _ in range(3):
        new = await own_replicas.failover()
        async with client.get_lock("fresh"):
            assert await has(new, "fresh", "held")
        await own_replicas.wait_healthy()
    await lease.release()
    async with await waiting:
        assert await has(await own_replicas.master(), "held")
    assert client.statistics().losses == 0


async def test_a_promoted_replica_is_found_when_the_master_died(
    own_replicas: EmbeddedReplicas, clients: ClientFactory
) -> None:
    client = clients(own_replicas.url, lease_time=60)
    old, new, other = own_replicas.nodes
    lease = await client.get_lock("held").acquire()
    await until_async(lambda: has(new, "held"))
    await own_replicas.kill(old)
    with pytest.raises(ConnectionLostError) as caught:
        await client.get_lock("fresh").acquire(timeout=2)
    for node in (new, other):
        assert f"Redis at {node.address} is a replica" in str(caught.value)
    assert f"no connection to Redis at {old.address}" in str(caught.value)
    asking = asyncio.create_task(client.get_lock("fresh").acquire(timeout=60))
    await own_replicas.promote(new)
    async with await asking:
        assert await has(new, "fresh")
    await lease.release()


async def test_the_master_is_found_wherever_it_stands(scene: Scene) -> None:
    replica, master, other = [await scene.server(role) for role in ("slave", "master", "slave")]
    seeker = await scene.seek_among(replica, master, other)
    assert "the master of 127.0.0.1:" in seeker.finder.where
    await seeker.ask("SET", "a", "1")
    assert seeker.finder.master == address_of(master)
    assert master.commands == [(b"SET", b"a", b"1")]
    assert not replica.commands
    assert not other.commands
    # Nothing is kept where there is nothing to do.
    await until(lambda: (replica.open, master.open, other.open) == (0, 1, 0))


async def test_two_masters_are_waited_out(scene: Scene) -> None:
    first, second = [await scene.server() for _ in range(2)]
    seeker = await scene.seek_among(first, second)
    with pytest.raises(ConnectionLostError) as caught:
        await seeker.ask("SET", "a", "1", seconds=1.5)
    for each in (first, second):
        assert "{}:{}".format(*address_of(each)) in str(caught.value)
    assert "claim to be master" in str(caught.value)
    call = seeker.call("SET", "a", "2")
    first.role = "slave"
    await call.future
    assert second.commands == [(b"SET", b"a", b"2")]
    assert not first.commands
    await until(lambda: (first.open, second.open) == (0, 1))


async def test_a_frozen_replica_does_not_keep_us(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could be a second master, so it is given a moment, not the whole attempt."""
    monkeypatch.setattr(replicated_module, "ASK_SECONDS", 0.1)
    frozen, master = [await scene.server(role) for role in ("slave", "master")]
    frozen.greeting = SILENCE
    seeker = await scene.seek_among(frozen, master)
    async with asyncio.timeout(30):
        await seeker.ask("SET", "a", "1")
    await until(lambda: (frozen.open, master.open) == (0, 1))


async def test_a_server_that_breaks_while_it_is_asked_is_no_master(scene: Scene) -> None:
    broken, master = [await scene.server() for _ in range(2)]
    broken.welcome.extend([CUT] * 1000)
    seeker = await scene.seek_among(broken, master)
    await seeker.ask("SET", "a", "1")
    assert seeker.finder.master == address_of(master)


async def test_refused_credentials_are_final(scene: Scene) -> None:
    servers = [await scene.server() for _ in range(2)]
    for each in servers:
        each.greeting = error("WRONGPASS invalid username-password pair or user is disabled.")
    seeker = await scene.seek_among(*servers, password="d3adb33f-secret")
    with pytest.raises(BackendError) as caught:
        await seeker.ask("SET", "a", "1")
    assert not isinstance(caught.value, ConnectionLostError)
    for each in servers:
        assert "Redis at {}:{} refused".format(*address_of(each)) in str(caught.value)
    assert "d3adb33f" not in str(caught.value)


async def test_an_attempt_that_is_cancelled_at_any_point_leaves_no_connection(scene: Scene) -> None:
    servers = [await scene.server(role) for role in ("slave", "master", "slave")]
    finder = ReplicatedFinder(connector(), map(address_of, servers), on_elsewhere=lambda _: None)

    async def trial(probe: Probe) -> None:
        connection = await probe(finder.open(10))
        if connection is not None:
            await connection.disconnect()
        # Not by the garbage collector, which would say so.
        await until(lambda: not any(each.open for each in servers))

    assert (await sweep(trial)).cancellations
