"""What a cluster costs: commands, writes and connections."""

from __future__ import annotations

import asyncio

import pytest

from redisson_py import Lease, Redisson, _keys
from redisson_py._engine.watchdog import Watchdog
from redisson_py._redis.stream import health
from redisson_py.testing import EmbeddedCluster
from tests.fixtures.client import ClientFactory
from tests.support.node_info import calls
from tests.support.streams import answered
from tests.support.waiting import until, until_async
from tests.topology.cluster_nodes import connections, names_at, redirects, router_of, stream_to

PAIRS = 50


async def warm(client: Redisson, *names: str) -> None:
    """Have the scripts loaded and the client described."""
    for name in names:
        async with client.get_lock(name):
            pass


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("synced", [False, True], ids=["alone", "synced"])
async def test_a_pair_is_two_scripts_in_two_writes_at_one_node(
    cluster: EmbeddedCluster, clients: ClientFactory, synced: bool
) -> None:
    client = clients(cluster.url, sync_replicas=int(synced))
    await warm(client, "pair", "pair")
    # What a client says of itself goes to a node of its own, behind the first grant.
    await answered(client)
    node = await cluster.master_of("pair")
    router = router_of(client)
    before, sent_elsewhere = router.traffic, await redirects(cluster)
    scripts, waits = await calls(node, "evalsha"), await calls(node, "wait")
    for _ in range(PAIRS):
        async with client.get_lock("pair"):
            pass
    after = router.traffic
    # With replicas, one WAIT behind the grant, in the same write.
    assert after.commands - before.commands == (3 if synced else 2) * PAIRS
    assert after.writes - before.writes == 2 * PAIRS
    assert await calls(node, "evalsha") - scripts == 2 * PAIRS
    assert await calls(node, "wait") - waits == synced * PAIRS
    assert await redirects(cluster) == sent_elsewhere


async def test_new_clients_are_never_sent_elsewhere(
    cluster: EmbeddedCluster, clients: ClientFactory
) -> None:
    before = await redirects(cluster)
    client = clients(cluster.url)
    await asyncio.gather(*(warm(client, f"name{number}") for number in range(100)))
    assert await redirects(cluster) == before


async def test_idle_clients_say_nothing_and_close(
    cluster: EmbeddedCluster, clients: ClientFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    masters = await cluster.masters()
    [held], [other] = [await names_at(cluster, node, 1) for node in masters[:2]]
    both = [clients(cluster.url, client_name=f"idle{sync}", sync_replicas=sync) for sync in (0, 1)]
    for sync, client in enumerate(both):
        await warm(client, held, other)
        # What a client says of itself has a slot of its own, and no replica has to confirm it.
        in_use = {
            await cluster.master_of(_keys.client_description("", client.id)): 1,
            **dict.fromkeys(masters[:2], 1 + sync),
        }
        wanted = [in_use.get(node, 0) for node in cluster.nodes]

        async def has_those(name: str = f"idle{sync}", wanted: list[int] = wanted) -> bool:
            return await connections(cluster, name) == wanted

        # Those that asked for the map are closed; what is left is what is used.
        await until_async(has_those)
    before = [client.statistics().commands_sent for client in both]
    idle = [stream_to(client, masters[0])._health for client in both]
    # Three seconds, as the silence is measured.
    await until(lambda: all(each._idle >= 12 for each in idle), 30)
    assert [client.statistics().commands_sent for client in both] == before
    # Where something is held the connection stays, and the server is asked whether it is there.
    leases = [await client.get_lock(f"{{{held}}}{n}").acquire() for n, client in enumerate(both)]
    monkeypatch.setattr(health, "_IDLE_SECONDS", 1.0)

    async def closes_idle(*wanted: int) -> bool:
        found = [sorted(await connections(cluster, f"idle{sync}")) for sync in (0, 1)]
        return found == [[0, 0, 0, 0, 0, count] for count in wanted]

    await until_async(lambda: closes_idle(1, 2), 30)
    assert not any(stream_to(client, masters[1]).ready for client in both)
    for lease in leases:
        await lease.release()
    await until_async(lambda: closes_idle(0, 0), 30)
    assert not any(client.statistics().reconnects for client in both)
    await asyncio.gather(*(warm(client, name) for client in both for name in (held, other)))
    assert not any(client.statistics().reconnects for client in both)
    assert not any(client.statistics().losses for client in both)


@pytest.mark.usefixtures("patience")
async def test_ten_thousand_are_renewed_with_a_write_a_node_a_round(
    cluster: EmbeddedCluster, clients: ClientFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = clients(cluster.url, lease_time=30, sync_replicas=0, command_timeout=30)
    await answered(client)
    leases: list[Lease] = []
    # Not all at once, which may keep a busy machine from renewing the first in time.
    for first in range(0, 10_000, 1000):
        locks = [client.get_lock(f"n{n}") for n in range(first, first + 1000)]
        leases += await asyncio.gather(*(lock.acquire() for lock in locks))
    streams = [stream_to(client, node) for node in await cluster.masters()]
    rounds = 0
    tick = Watchdog._tick

    def count(watchdog: Watchdog) -> None:
        nonlocal rounds
        rounds += 1
        tick(watchdog)

    monkeypatch.setattr(Watchdog, "_tick", count)
    await until(lambda: not any(stream.waiting for stream in streams))
    before = [stream.traffic.writes for stream in streams]
    renewals, began = client.statistics().renewals, rounds
    ends = {lease: lease._ends_at for lease in leases}
    await until(lambda: all(lease._ends_at > ends[lease] for lease in leases), 60)
    taken = rounds - began
    writes = [stream.traffic.writes - b for stream, b in zip(streams, before, strict=True)]
    # One key a call: each has a slot of its own. And the health of an idle stream is no renewal.
    assert client.statistics().renewals - renewals >= 9_000
    assert 0 < max(writes) <= taken, (writes, taken)
    assert client.statistics().late_renewals == client.statistics().losses == 0
    await asyncio.gather(*(lease.release() for lease in leases))
