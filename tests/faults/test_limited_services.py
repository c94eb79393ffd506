"""Servers that lack commands, or that move a slot differently."""

from __future__ import annotations

import asyncio
import re
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Literal

import pytest

from redisson_py import Redisson, UnsupportedServerError
from redisson_py.testing import EmbeddedCluster, EmbeddedServer
from tests.fixtures.client import ClientFactory
from tests.fixtures.topologies import ClusterFactory
from tests.support.leases import renewed_at_once
from tests.support.node_info import info
from tests.support.waiting import set_safety_poll, until, until_async, until_waiting

#: What serverless Redis has not, as far as a cluster of our own does without it.
MISSING = ("CONFIG", "DEBUG", "LATENCY", "MONITOR", "SAVE", "SHUTDOWN", "SLOWLOG", "WAIT")


async def test_service_without_wait_says_so_and_serves_without_it(
    cluster_factory: ClusterFactory, clients: ClientFactory
) -> None:
    """What needs WAIT is refused by name and leaves nothing; all else works without it."""
    renamed = "\nrename-command ".join(f'{command} ""' for command in MISSING)
    cluster = await cluster_factory(config={"rename-command": renamed})
    # A master that has lost its replica for a moment needs no WAIT with "auto".
    await until_async(partial(is_refused, clients, cluster.url, "auto"), 60)
    assert await is_refused(clients, cluster.url, 1)
    ours, theirs = (clients(cluster.url, sync_replicas=0) for _ in range(2))
    await each_is_passed_on(ours, theirs)
    latch = ours.get_latch("x")
    assert await latch.try_set_count(1)
    opened = asyncio.create_task(theirs.get_latch("x").wait())
    await until_waiting(theirs, 1)
    await latch.count_down()
    await opened
    both = (client.get_barrier("{x}barrier", 2).wait() for client in (ours, theirs))
    assert sorted(await asyncio.gather(*both)) == [0, 1]


async def is_refused(clients: ClientFactory, url: str, replicas: Literal["auto"] | int) -> bool:
    """Return whether a grant needs WAIT, which the service does not know."""
    client = clients(url, sync_replicas=replicas)
    try:
        async with client.get_lock("{x}lock"):
            return False
    except UnsupportedServerError as error:
        return re.search(r"sync_replicas needs WAIT.*unknown", str(error)) is not None
    finally:
        await client.aclose()


async def each_is_passed_on(ours: Redisson, theirs: Redisson) -> None:
    """Hold one of each kind, renew it, and have another client wait for it."""
    for number in range(len(blocks(ours))):
        async with blocks(ours)[number] as _:
            entering = asyncio.create_task(enter(blocks(theirs)[number]))
            await until_waiting(theirs, 1)
            await renewed_at_once(ours)
            assert not entering.done()
        await asyncio.wait_for(entering, 30)
    assert ours.statistics().losses == theirs.statistics().losses == 0


def blocks(client: Redisson) -> list[AbstractAsyncContextManager[object]]:
    """Return a block of each kind for one at a time."""
    return [
        client.get_lock("{x}lock").hold(),
        client.get_fenced_lock("{x}fenced").hold(),
        client.get_fair_lock("{x}fair").hold(),
        client.get_read_write_lock("{x}write").write_lock().hold(),
        client.get_semaphore("{x}semaphore", 1).hold(),
        client.get_permit_expirable_semaphore("{x}expirable", 1).hold(),
    ]


async def enter(block: AbstractAsyncContextManager[object]) -> None:
    """Acquire and release."""
    async with block:
        pass


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
    await cluster._order(node, "CLUSTER", "SETSLOT", slot, *state)
