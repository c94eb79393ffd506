"""On a new connection every hold is renewed at once, not when its renewal is due.

Leases are so long that nothing is due while these tests run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import Redisson
from tests.fixtures.client import ClientFactory
from tests.lifecycle.test_watchdog_edges import TAKES, Take
from tests.support.counting import Counted
from tests.support.streams import answered, is_single, stream_of
from tests.support.waiting import until, until_async

pytestmark = pytest.mark.also("cluster")

LONG = 1200.0

#: The same for a lease of its own.
OWN_LEASES: dict[str, Take] = {
    kind: partial(take, lease_time=LONG) for kind, take in TAKES.items() if kind != "semaphore"
}

KINDS = [
    pytest.param(take, id=f"{kind}-{keeping}")
    for keeping, takes in (("renewed", TAKES), ("own_lease", OWN_LEASES))
    for kind, take in takes.items()
]


async def lose_connection(client: Redisson, redis: Redis, name: str) -> None:
    """Have the server close the client's connection, and wait until there is another."""
    connections = client.statistics().connections
    for row in [row for row in await redis.client_list() if row["name"] == name]:
        await redis.client_kill_filter(_id=row["id"])
    await until(lambda: client.statistics().connections > connections)


async def is_asked(redis: Redis) -> bool:
    """Return whether a script has run since the counters were set to 0."""
    stats: dict[str, Any] = await redis.info("commandstats")
    return "cmdstat_evalsha" in stats


@pytest.mark.parametrize("take", KINDS)
async def test_what_was_taken_meanwhile_is_told_at_the_reconnection(
    take: Take, clients: ClientFactory, redis: Redis
) -> None:
    client = clients(lease_time=LONG, client_name="app")
    gone, kept = await take(client, "k-gone"), await take(client, "k-kept")
    await redis.delete(*await redis.keys("*k-gone*"))
    assert not gone.lost, "nobody has said so"
    await lose_connection(client, redis, "app")
    await until(lambda: gone.lost)
    assert not kept.lost
    await kept.release()


@pytest.mark.parametrize("take", KINDS)
async def test_what_is_there_stays_held(take: Take, clients: ClientFactory, redis: Redis) -> None:
    client = clients(lease_time=LONG, client_name="app")
    lease = await take(client, "k")
    for _ in range(3):
        await redis.config_resetstat()
        await lose_connection(client, redis, "app")
        await until_async(lambda: is_asked(redis))
        await answered(client)
    assert not lease.lost
    await lease.release()


@pytest.mark.parametrize("take", OWN_LEASES.values(), ids=OWN_LEASES)
async def test_a_lease_of_its_own_is_not_lengthened(
    take: Take, clients: ClientFactory, redis: Redis
) -> None:
    client = clients(client_name="app")
    lease = await take(client, "k")
    before = {key: await redis.pttl(key) for key in await redis.keys("*k[a-g]*")}
    assert before
    # Long enough ago for a renewal to be seen.
    await asyncio.sleep(0.05)
    await redis.config_resetstat()
    await lose_connection(client, redis, "app")
    await until_async(lambda: is_asked(redis))
    for key, milliseconds in before.items():
        assert await redis.pttl(key) <= max(-1, milliseconds - 50)
    await lease.release()


async def test_ten_thousand_holds_are_checked_in_100_commands_and_10_writes(
    clients: ClientFactory, redis: Redis
) -> None:
    client = clients(lease_time=LONG, client_name="app", command_timeout=30)
    leases = await asyncio.gather(*[client.get_lock(f"{{k}}{i}").acquire() for i in range(10_000)])
    traffic, renewals = stream_of(client).traffic, client.statistics().renewals
    commands, writes = traffic.commands, traffic.writes
    async with Counted(redis) as counted:
        await lose_connection(client, redis, "app")
        await until(lambda: client.statistics().renewals == renewals + 100)
    assert counted.calls["evalsha"] == 100
    # HELLO, and SCRIPT LOAD before the first of them; in a cluster, also a question for its map.
    beside = traffic.commands - commands - 102
    assert 0 <= beside <= (0 if is_single(client) else 3)
    # Two turns of an event loop that is late leave in one write.
    assert 1 < traffic.writes - writes <= 11 + beside
    assert not any(lease.lost for lease in leases)
    await asyncio.gather(*[lease.release() for lease in leases])


@pytest.mark.more
async def test_a_renewal_that_was_under_way_is_not_asked_twice(
    clients: ClientFactory, redis: Redis, proxy: Callable[..., Awaitable[Any]]
) -> None:
    """It goes out again on the new connection, and its answer is the one that counts."""
    link = await proxy()
    client = clients(link.url, lease_time=6.0, client_name="app")
    lease = await client.get_lock("k").acquire()
    renewals = client.statistics().renewals
    link.cut_after_execution(lambda command: b"EVALSHA" in command)
    async with Counted(redis) as counted:
        await until(lambda: client.statistics().renewals > renewals)
    assert counted.calls["evalsha"] == 2, "the one that was cut, and its repetition"
    assert not lease.lost
    await lease.release()
