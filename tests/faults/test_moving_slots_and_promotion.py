"""A slot that moves, key by key or handed over; a promoted replica with another clock."""

from __future__ import annotations

import asyncio

import pytest

from redisson_py.testing import EmbeddedCluster, EmbeddedServer
from tests.fixtures.client import ClientFactory
from tests.support.leases import renew_now, renewed_at_once
from tests.support.node_info import calls, info
from tests.support.waiting import set_safety_poll, until, until_async, until_waiting

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


async def test_slot_that_is_handed_over_while_calls_are_held_back(
    own_cluster: EmbeddedCluster, clients: ClientFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis 8.4's way: no ASK; the old master answers nothing until the new one has the slot.

    Then it answers MOVED to all that it held back, and ends the subscriptions of the slot.
    """
    set_safety_poll(monkeypatch, 600)  # nobody is woken by it
    ours, theirs = (clients(own_cluster.url, sync_replicas=0) for _ in range(2))
    kept = await ours.get_fenced_lock("{x}kept").acquire()
    taken = await ours.get_lock("{x}taken").acquire()
    waiting = asyncio.create_task(theirs.get_lock("{x}taken").acquire())
    releasing = await ours.get_lock("{x}released").acquire()
    await until_waiting(theirs, 1)
    source = await own_cluster.master_of("{x}")
    await source.execute("CLIENT", "PAUSE", 60_000, "WRITE")
    acquiring = [
        asyncio.create_task(ours.get_lock(name).acquire()) for name in ("{x}new", "{x}newer")
    ]
    released = asyncio.create_task(releasing.release())
    await until(lambda: ours.statistics().commands_sent > 5)
    target = await hand_over(own_cluster, source)
    assert not any(task.done() for task in (*acquiring, released, waiting))
    await source.execute("CLIENT", "UNPAUSE")
    await asyncio.wait_for(released, 30)
    for granted in await asyncio.wait_for(asyncio.gather(*acquiring), 30):
        await granted.release()
    await renewed_at_once(ours)
    kept.check()
    await taken.release()
    # Nothing but the message can wake it, and that comes from the new master.
    await (await asyncio.wait_for(waiting, 30)).release()
    errors = await info(source, "errorstats")
    assert "errorstat_MOVED" in errors
    assert "errorstat_ASK" not in errors
    assert int(await target.execute("HGET", "{x}kept", kept.owner)) == 1
    await kept.release()
    async with theirs.get_fenced_lock("{x}kept") as later:
        assert later.token > kept.token
    for client in (ours, theirs):
        assert client.statistics().losses == client.statistics().reconnects == 0


async def hand_over(cluster: EmbeddedCluster, source: EmbeddedServer) -> EmbeddedServer:
    """Give the slot of `{x}` with all its keys to another master; the source learns of it."""
    target = next(node for node in await cluster.masters() if node is not source)
    slot = int(await source.execute("CLUSTER", "KEYSLOT", "{x}"))
    await order(cluster, target, slot, "IMPORTING", cluster.node_id(source))
    for key in await source.execute("CLUSTER", "GETKEYSINSLOT", slot, 1000):
        left = max(0, int(await source.execute("PTTL", key)))
        dump = str(await source.execute("DUMP", key)).encode(errors="surrogateescape")
        await target._execute(("ASKING",), ("RESTORE", key, left, dump))
    # With a new epoch, which the others learn from it.
    await order(cluster, target, slot, "NODE", cluster.node_id(target))
    await cluster.wait_master(slot, other_than=source)
    return target


async def order(cluster: EmbeddedCluster, node: EmbeddedServer, slot: int, *state: str) -> None:
    """Say whose slot it is."""
    await cluster._nodes.order(node, "CLUSTER", "SETSLOT", slot, *state)
