"""A server that answers late, in drips or not at all: right outcomes in time, and no storm.

Whatever a caller is told, what it asked for happens once or is undone; and one client has one
connection at a time, opened again with growing pauses.
"""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from redisson_py import ConnectionLostError
from redisson_py.testing import FaultProxy
from tests.fixtures.client import ClientFactory
from tests.fixtures.measured import Measured
from tests.support.streams import answered, stream_of
from tests.support.waiting import until, until_async, until_waiting


async def free(redis: Redis, name: str) -> bool:
    return not await redis.exists(name)


async def test_slow_server_within_bounds_keeps_every_lease(
    clients: ClientFactory, link: FaultProxy, redis: Redis
) -> None:
    # A connection counts as dead after a sixth of it.
    client = clients(link.url, lease_time=12)
    await answered(client)
    link.delay(0.05)
    async with asyncio.TaskGroup() as group:

        async def work(name: str) -> None:
            async with client.get_lock(name) as lease:
                renewals = client.statistics().renewals
                await until(lambda: client.statistics().renewals > renewals)
                assert not lease.lost
                assert len(await redis.hvals(name)) == 1

        for number in range(10):
            group.create_task(work(f"k{number}"))
    assert client.statistics().losses == 0
    assert link.accepted == 1


async def test_answers_in_drips_are_no_dead_connection(
    clients: ClientFactory, link: FaultProxy, redis: Redis
) -> None:
    # A connection counts as dead after a second without an answer.
    client = clients(link.url, lease_time=6)
    await answered(client)
    # The answer takes much longer, but something of it comes all the time.
    link.dribble(1, 0.1)
    asking = asyncio.create_task(client.get_lock("k").acquire(timeout=2.5, lease_time=60))
    await until_async(lambda: redis.exists("k"))
    with pytest.raises(ConnectionLostError, match="no answer"):
        await asking
    await until_async(lambda: free(redis, "k"))
    link.pass_through()
    async with client.get_lock("k").hold(timeout=10):
        pass
    assert link.accepted == 1


async def test_thousand_waiters_of_a_server_that_is_away_make_no_storm(
    clients: ClientFactory, link: FaultProxy, redis: Redis, measured: Measured
) -> None:
    client = clients(link.url)
    names = [f"k{number}" for number in range(1000)]
    pipeline = redis.pipeline(transaction=False)
    for name in names:
        pipeline.hset(name, "somebody", 1)
        pipeline.pexpire(name, 60_000)
    await pipeline.execute()
    waiting = [asyncio.create_task(client.get_lock(name).acquire(timeout=60)) for name in names]
    await until_waiting(client, 1000)
    # Each is the first of its queue, and its holder calls nobody: it hears all releases too.
    await until(lambda: client._context.bus.table.seats == 2000 and not stream_of(client).waiting)
    link.refuse()
    link.cut()
    clock = asyncio.get_running_loop().time
    begun = clock()
    await asyncio.sleep(0.6)
    await link.wait_until(lambda link: link.refused >= 1)
    measured("connections tried in 0.6 s", link.refused)
    # Some at once; later the pauses are longer than half a second.
    assert link.refused <= 12 + 2 * (clock() - begun)
    await redis.delete(*names)
    commands = client.statistics().commands_sent
    link.pass_through()
    for lease in await asyncio.gather(*waiting):
        await lease.release()
    measured("commands to subscribe, ask and release", client.statistics().commands_sent - commands)
    assert client.statistics().connections == 2
