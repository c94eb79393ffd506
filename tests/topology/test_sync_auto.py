"""`sync_replicas="auto"`: one replica confirms where the master has any; here, in a cluster."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from redisson_py import ReplicationError
from redisson_py.testing import EmbeddedCluster, EmbeddedServer
from tests.fixtures.client import ClientFactory
from tests.support.waiting import until_async


async def waits(url: str) -> int:
    """Return how often a server has been asked to wait for its replicas."""
    async with Redis.from_url(url) as redis:
        stats = await redis.info("commandstats")
    return int(stats.get("cmdstat_wait", {"calls": 0})["calls"])


async def test_one_replica_confirms_if_there_is_any(
    own_cluster: EmbeddedCluster, clients: ClientFactory
) -> None:
    master = await own_cluster.master_of("k")
    (replica,) = await own_cluster.replicas_of(master)
    client = clients(own_cluster.url, sync_timeout=3)

    async def confirmed() -> bool:
        """The replica has said its first word: that may be a second after it is online."""
        async with client.get_lock("k"):
            return await waits(master.url) > 0

    await until_async(confirmed)
    before = await waits(master.url)
    await own_cluster.freeze(replica)
    with pytest.raises(ReplicationError) as caught:
        await client.get_lock("k").acquire()
    assert (caught.value.asked, caught.value.got) == (1, 0)
    assert await waits(master.url) > before

    await own_cluster.kill(replica)

    async def acquires() -> bool:
        """The master has noticed that it has no replica any more."""
        try:
            async with client.get_lock("k"):
                return True
        except ReplicationError:
            return False

    await until_async(acquires, 30)
    before = await waits(master.url)
    async with client.get_lock("k"):
        pass
    assert await waits(master.url) == before

    await own_cluster.revive(replica)

    async def waits_again() -> bool:
        """It has got its replica back, and the client has found that out."""
        try:
            async with client.get_lock("k"):
                await asyncio.sleep(0.1)
        except ReplicationError:
            return False
        return await waits(master.url) > before

    await until_async(waits_again, 30)


async def blocked(server: EmbeddedServer) -> bool:
    """Return whether somebody waits for the replicas of a master."""
    return "blocked_clients:0" not in str(await server.execute("INFO", "clients"))


async def test_a_grant_is_confirmed_by_replicas_of_the_node_that_gave_it(
    own_cluster: EmbeddedCluster, clients: ClientFactory
) -> None:
    """Of two calls that leave together one is sent on: it has a WAIT of its own there."""
    client = clients(own_cluster.url, sync_replicas=1, sync_timeout=30, command_timeout=30)
    names = [f"k{number}" for number in range(60)]
    for name in names:
        async with client.get_lock(name):
            pass
    moves, home = names[0], await own_cluster.master_of(names[0])
    stays, *_ = [name for name in names[1:] if await own_cluster.master_of(name) is home]
    await own_cluster.migrate(moves)
    target = await own_cluster.master_of(moves)
    assert home is await own_cluster.master_of(stays) is not target
    (near,), (far,) = [await own_cluster.replicas_of(master) for master in (home, target)]
    await own_cluster.freeze(near)
    await own_cluster.freeze(far)
    moving, staying = (
        asyncio.create_task(client.get_lock(name).acquire()) for name in (moves, stays)
    )
    await until_async(lambda: blocked(home))
    await until_async(lambda: blocked(target))
    await own_cluster.thaw(near)
    lease = await staying
    await client.ping()
    assert not moving.done()
    await own_cluster.thaw(far)
    await (await moving).release()
    await lease.release()
