"""A MultiLock over several servers, of which one dies or loses replies."""

from __future__ import annotations

import asyncio
import math

import pytest
from redis.asyncio import Redis

from redisson_py import ConnectionLostError
from redisson_py._commands.lock import SET_LEASE
from redisson_py.composite.multi_lock import MultiLock
from redisson_py.testing import FaultProxy
from tests.fixtures.client import ClientFactory
from tests.fixtures.fleet import Fleet
from tests.fixtures.redis_server import ProxyFactory
from tests.support.streams import answered
from tests.support.waiting import until_async

NAMES = ("a", "b", "c")


async def test_members_on_three_servers(fleet: Fleet) -> None:
    locks = [
        MultiLock(
            *(client.get_lock(name) for client, name in zip(fleet.clients(3), NAMES, strict=True))
        )
        for _ in range(2)
    ]
    lock, rival = locks
    async with lock:
        assert [
            await redis.exists(name) for redis, name in zip(fleet.redis, NAMES, strict=False)
        ] == [1] * 3
        for _ in range(2):
            assert await rival.try_acquire() is None
    async with rival:
        pass


async def test_release_reaches_the_others_when_one_server_is_gone(fleet: Fleet) -> None:
    clients = fleet.clients(3, command_timeout=1)
    lock = MultiLock(*(client.get_lock("k") for client in clients))
    lease = await lock.acquire(timeout=20)
    await fleet.servers[0].kill()
    releasing = asyncio.create_task(lease.release())
    await until_async(fleet.everything_free)
    with pytest.raises(ConnectionLostError):
        await releasing


async def test_lost_reply_of_the_third_leaves_nothing(
    clients: ClientFactory, proxy: ProxyFactory, redis: Redis
) -> None:
    link: FaultProxy = await proxy()
    near, far = clients(), clients(link.url, lease_time=0.9)
    lock = MultiLock(near.get_lock("a"), near.get_lock("b"), far.get_lock("c"))
    await answered(far)
    link.swallow_reply(b"EVALSHA", 100)
    with pytest.raises(ConnectionLostError):
        await lock.acquire(timeout=0.3)
    link.pass_through()
    await until_async(lambda: nothing_held(redis))
    await answered(far)
    assert await nothing_held(redis)


async def test_timeout_is_also_that_of_the_leases_set_at_the_end(
    clients: ClientFactory, proxy: ProxyFactory, redis: Redis
) -> None:
    link: FaultProxy = await proxy()
    near, far = clients(), clients(link.url)
    lock = MultiLock(near.get_lock("a"), far.get_lock("b"))
    # As after a refusal: one by one, and all leases in the end.
    lock._ownership.one_by_one_until = math.inf
    await answered(far)
    shas = [wording.sha.encode() for wording in SET_LEASE.wordings]
    link.swallow_reply(lambda command: any(sha in command for sha in shas))
    with pytest.raises(ConnectionLostError):
        await lock.acquire(timeout=0.2, lease_time=5)
    await until_async(lambda: nothing_held(redis))
    link.cut()
    await answered(far)


async def nothing_held(redis: Redis) -> bool:
    return not await redis.exists(*NAMES)
