"""A slot that moves, key by key; a promoted replica with another clock."""

from __future__ import annotations

import asyncio

from redisson_py.testing import EmbeddedCluster, EmbeddedServer
from tests.fixtures.client import ClientFactory
from tests.support.leases import renew_now
from tests.support.node_info import calls, info
from tests.support.waiting import until, until_async

PLAIN, READ, FREE = "{x}plain", "{x}read", "{x}free"


async def sent_away(node: EmbeddedServer) -> int:
    """Return how many calls a node has sent to where the slot moves to, or told to try again."""
    stats = await info(node, "errorstats")
    counts = [stats.get(f"errorstat_{word}", "count=0") for word in ("ASK", "TRYAGAIN")]
    return sum(int(count.removeprefix("count=")) for count in counts)


async def test_ask_and_tryagain_of_a_moving_slot(
    cluster: EmbeddedCluster, clients: ClientFactory
) -> None:
    """A lock is followed key by key; a reader whose lease is still behind waits, and is kept."""
    client = clients(cluster.url, sync_replicas=0)
    plain = await client.get_lock(PLAIN).acquire()
    reader = await client.get_read_write_lock(READ).read_lock().acquire()
    move = await cluster.begin_migration(PLAIN)
    assert len([key for key in await move.keys() if READ in key]) > 1
    await move.move_keys(PLAIN, READ)
    before, renewals = await sent_away(move.source), client.statistics().renewals
    renew_now(client)
    acquiring = asyncio.create_task(client.get_lock(FREE).acquire(timeout=60))
    # The lock's renewal follows, with ASKING; the reader's is asked again at the source.
    await until(lambda: client.statistics().renewals > renewals)
    assert await calls(move.target, "asking") > 0
    await until_async(lambda: more_than(move.source, before + 5))
    assert not acquiring.done()
    reader.check()
    plain.check()
    await move.finish()
    for lease in (await acquiring, reader, plain):
        lease.check()
        await lease.release()


async def more_than(node: EmbeddedServer, count: int) -> bool:
    """Return whether a node has sent away more than so many calls."""
    return await sent_away(node) > count


async def test_clock_of_the_promoted_replica_differs(
    cluster: EmbeddedCluster, clients: ClientFactory
) -> None:
    """All that is held is asked after at once there; what had little time left gets a lease."""
    client = clients(cluster.url, sync_replicas=0)
    async with client.get_lock(PLAIN) as early, client.get_lock(FREE) as late:
        old = await cluster.master_of(PLAIN)
        # To a server whose clock is ahead a lease is nearly over, to one behind it is long.
        await old.execute("PEXPIRE", PLAIN, 6_000)
        await old.execute("PEXPIRE", FREE, 600_000)
        new = await cluster.failover(PLAIN)
        await until_async(lambda: renewed(new, PLAIN))
        early.check()
        late.check()
    assert await new.execute("EXISTS", PLAIN, FREE) == 0


async def renewed(node: EmbeddedServer, key: str) -> bool:
    """Return whether a lock ends with a whole lease."""
    return 20_000 < int(await node.execute("PTTL", key)) <= 30_000
