"""`idle_lifetime`: what nobody uses does not stay in Redis for ever, and what is held stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import Redisson
from tests.fixtures.client import ClientFactory
from tests.support.leases import renewed_at_once

IDLE = 3600
MS = 1000 * IDLE
LATE = 10_000
TOKEN = "redisson_lock_token:{k}"

KINDS: dict[str, tuple[Callable[[Redisson], Any], str]] = {
    "fenced lock": (lambda client: client.get_fenced_lock("k"), TOKEN),
    "semaphore": (lambda client: client.get_semaphore("k", 2), "k"),
    "with ids": (lambda client: client.get_permit_expirable_semaphore("k", 2), "k"),
}
every_kind = pytest.mark.parametrize(("get", "key"), KINDS.values(), ids=KINDS)

Get = Callable[[Redisson], Any]


async def left(redis: Redis, key: str) -> int:
    return int(await redis.pttl(key))


@every_kind
async def test_it_ends_so_long_after_the_last_use(
    get: Get, key: str, clients: ClientFactory, redis: Redis
) -> None:
    client = clients(idle_lifetime=IDLE)
    for _ in range(2):
        async with get(client):
            pass
        assert MS - LATE < await left(redis, key) <= MS + 30_000
        await redis.pexpire(key, LATE)


@every_kind
async def test_it_does_not_end_while_it_is_held(
    get: Get, key: str, clients: ClientFactory, redis: Redis
) -> None:
    client = clients(idle_lifetime=IDLE)
    lease = await get(client).acquire()
    for _ in range(2):
        await redis.pexpire(key, LATE)
        await renewed_at_once(client)
        assert await left(redis, key) > MS - LATE
    await lease.extend(2 * IDLE)
    assert await left(redis, key) > 3 * MS - LATE
    await lease.release()


async def test_a_lifetime_is_refused_beside_it(clients: ClientFactory) -> None:
    client = clients(idle_lifetime=IDLE)
    with pytest.raises(ValueError, match="not both"):
        await client.get_semaphore("k").try_set_permits(1, lifetime=60)
    assert client.statistics().commands_sent == 0
