"""A lease that has ended holds nothing: no view shows it, and its permits count as free.

Leases are ended by their moments in Redis, as if a holder or waiter had died long ago.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import LeaseLostError, Redisson
from tests.cli.holding import documents, inspected
from tests.cli.terminals import run
from tests.fixtures.client import ClientFactory
from tests.support.waiting import until_async, until_waiting

#: Seconds: of what is still held or waits, however slow the machine is.
LASTING = 3600
PLAIN, IDS = "{semaphore}:redisson_py:permits", "{semaphore}:timeout"
QUEUE = "redisson_lock_queue:{k}"
WAITERS, TIMEOUTS = "{k}:redisson_py:waiters", "redisson_lock_timeout:{k}"


async def end(redis: Redis, key: str, *members: Any) -> None:
    """Let leases be over since long ago."""
    ended: Any = dict.fromkeys(members, 1000)
    assert await redis.zadd(key, ended, xx=True, ch=True) == len(members)


async def members(redis: Redis, key: str) -> list[bytes]:
    found: Any = await redis.zrange(key, 0, -1)
    return list(found)


async def listed(url: str) -> list[dict[str, Any]]:
    """Return what `locks` and `top` show, which must be the same."""
    locks = await documents("locks", "--url", url)
    rows = (await documents("top", "--once", "--url", url))["rows"]
    found: list[dict[str, Any]] = locks["found"]
    shown = [(each["name"], each["holders_total"], each["available"]) for each in found]
    assert shown == [(each["name"], each["holders_total"], each["available"]) for each in rows]
    return found


@pytest.mark.parametrize("ids", [False, True])
async def test_permits_whose_leases_have_ended_are_free(
    ids: bool, client: Redisson, clients: ClientFactory, redis: Redis, server_url: str
) -> None:
    def semaphore(of: Redisson) -> Any:
        if ids:
            return of.get_permit_expirable_semaphore("semaphore", 9)
        return of.get_semaphore("semaphore", 9)

    # More than `locks` and `top` list, and two units more for the plain one.
    taker, leases = semaphore(clients(lease_time=LASTING)), IDS if ids else PLAIN
    permits = [await (taker.acquire() if ids else taker.acquire(1 + n % 2)) for n in range(5)]
    *first, _ = await members(redis, leases)
    await end(redis, leases, *first)
    snapshot = await semaphore(client).inspect()
    (found,) = await inspected(server_url, "semaphore")
    (shown,) = await listed(server_url)
    text = (await run("inspect", "semaphore", "--url", server_url)).stdout
    assert (len(snapshot.holders), snapshot.more, snapshot.available) == (1, 0, 8)
    assert snapshot.holders[0].remaining > 0
    for each in (found, shown):
        assert (len(each["holders"]), each["holders_total"], each["available"]) == (1, 1, 8)
        assert each["holders"][0]["seconds_left"] > 0
    assert "8 free, 1 holder\n" in text
    # The view changes nothing, and what counts permits agrees with it.
    assert len(await members(redis, leases)) == 5
    assert await semaphore(client).available() == 8
    releases = await asyncio.gather(*(each.release() for each in permits), return_exceptions=True)
    assert sum(isinstance(each, LeaseLostError) for each in releases) == 4


async def test_the_dead_do_not_wait_in_a_fair_queue(
    clients: ClientFactory, redis: Redis, server_url: str
) -> None:
    """Five that died in front of one that waits: more than `locks` and `top` list."""
    holder, waiter = clients(lease_time=LASTING), clients(lease_time=LASTING)
    async with holder.get_fair_lock("k"):
        task = asyncio.create_task(waiter.get_fair_lock("k").acquire())
        await until_waiting(waiter, 1)
        await until_async(lambda: redis.llen(QUEUE))
        queue: Any = await redis.lrange(QUEUE, 0, -1)
        (alive,) = [owner.decode() for owner in queue]
        ours = [f"{waiter.id}:{number}" for number in range(100, 103)]
        java = [f"{holder.id}:{number}" for number in range(200, 202)]
        await redis.lpush(QUEUE, *ours, *java)
        await redis.zadd(WAITERS, dict.fromkeys(ours, 1000))
        await redis.zadd(TIMEOUTS, dict.fromkeys([*ours, *java], 1000))
        (found,) = await inspected(server_url, "k")
        (shown,) = await listed(server_url)
        assert (await holder.get_fair_lock("k").inspect()).waiters == (alive,)
        for each in (found, shown):
            assert [waiter["owner"] for waiter in each["waiters"]] == [alive]
            assert each["waiters_total"] == 1
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await until_async(lambda: _gone(redis))


async def _gone(redis: Redis) -> bool:
    return not await redis.exists(QUEUE, WAITERS, TIMEOUTS)


async def test_a_dead_party_does_not_wait_at_a_barrier(
    clients: ClientFactory, redis: Redis, server_url: str
) -> None:
    """It has broken it, and is not shown; of those behind it none is missing."""
    client = clients(lease_time=LASTING)
    arrivals = "{semaphore}:redisson_py:arrivals"
    parties = [
        asyncio.create_task(clients(lease_time=LASTING).get_barrier("semaphore", 9).wait())
        for _ in range(5)
    ]
    await until_async(lambda: _arrived(redis, arrivals, 5))
    for four in (await members(redis, arrivals))[:4]:
        await end(redis, arrivals, four)
    (found,) = await inspected(server_url, "semaphore")
    (shown,) = await listed(server_url)
    for each in (found, shown):
        assert (each["broken"], each["holders_total"], len(each["holders"])) == (True, 1, 1)
        assert each["holders"][0]["seconds_left"] > 0
    snapshot = await client.get_barrier("semaphore", 9).inspect()
    assert (snapshot.broken, snapshot.waiting) == (True, ())
    await client.get_barrier("semaphore", 9).abort()
    await asyncio.gather(*parties, return_exceptions=True)
    await client.get_barrier("semaphore", 9).reset()


async def _arrived(redis: Redis, arrivals: str, count: int) -> bool:
    return int(await redis.zcard(arrivals)) == count
