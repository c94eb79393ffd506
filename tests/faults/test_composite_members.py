"""Locks made of locks, on one server and on several."""

from __future__ import annotations

import asyncio
import math

import pytest
from redis.asyncio import Redis

from redisson_py import AcquireTimeoutError, ConnectionLostError, QuorumError, Redisson
from redisson_py._redis.commands.lock import SET_LEASE
from redisson_py.composite.multi_lock import MultiLock
from redisson_py.composite.red_lock import RedLock
from redisson_py.testing import FaultProxy
from tests.fixtures.client import ClientFactory
from tests.fixtures.fleet import Fleet, until_executed
from tests.fixtures.redis_server import ProxyFactory
from tests.support.streams import answered, stream_of_member
from tests.support.waiting import until, until_async

SHORT_LEASE = 6.0


def renewals(lock: RedLock) -> list[int]:
    """Return how many renewals the client of each member has sent."""
    return [member.context.watchdog.renewals for member in lock._ownership.owners]


async def test_server_that_forgets_a_red_lock_lets_nobody_else_in(
    fleet: Fleet,
) -> None:
    lock, rival = fleet.red_lock(3, lease_time=SHORT_LEASE), fleet.red_lock(3)
    async with lock as lease:
        await until_executed(lock)
        await fleet.servers[0].restart(keep_data=False)
        with pytest.raises(QuorumError):
            await rival.acquire(timeout=1)
        before = renewals(lock)
        await until(lambda: sorted(renewals(lock))[1] >= max(before) + 1)
        assert not lease.lost
        with pytest.raises(QuorumError):
            await rival.acquire(timeout=1)
    async with rival.hold(timeout=10):
        assert await lock.try_acquire() is None


async def test_multi_lock_whose_third_member_does_not_answer_holds_none(
    client: Redisson, clients: ClientFactory, proxy: ProxyFactory, redis: Redis
) -> None:
    link = await proxy()
    far = clients(link.url)
    await answered(far)
    await answered(client)
    lock = client.get_multi_lock(client.get_lock("k1"), client.get_lock("k2"), far.get_lock("k3"))
    link.refuse()
    link.cut_after_execution(b"EVALSHA")
    with pytest.raises((ConnectionLostError, AcquireTimeoutError)):
        await lock.acquire(timeout=1)
    await answered(client)
    assert await redis.exists("k1", "k2") == 0
    assert await redis.exists("k3"), "granted, and nobody was told"
    link.pass_through()
    await answered(far)
    assert await redis.exists("k3") == 0


async def test_multi_lock_with_a_busy_member_gives_up_in_time_and_asks_little(
    client: Redisson, redis: Redis
) -> None:
    lock = client.get_multi_lock(*map(client.get_lock, ("k1", "k2", "k3")))
    await redis.hset("k2", "somebody", "1")  # held for ever
    await answered(client)
    sent = client.statistics().commands_sent
    with pytest.raises(AcquireTimeoutError):
        await lock.acquire(timeout=0.5)
    # Three scripts are loaded and a description is set; all at once and back: five; then at most
    # twice one after the other and back, without a loop: nine each, of which the busy member needs
    # seven, to listen, ask, listen to all releases, ask, hear no more, and leave the queue.
    assert client.statistics().commands_sent - sent <= 4 + 5 + 2 * 9
    await answered(client)
    assert await redis.exists("k1", "k3") == 0
    await redis.delete("k2")


async def test_red_lock_without_a_quorum_gives_up_in_time_and_sends_few_commands(
    fleet: Fleet,
) -> None:
    lock = fleet.red_lock(3)
    for server in fleet.servers[:2]:
        await server.kill()
    with pytest.raises(QuorumError):
        await lock.try_acquire()
    traffic = stream_of_member(lock._ownership.owners[2]).traffic
    sent = traffic.commands
    with pytest.raises(QuorumError) as caught:
        await lock.acquire(timeout=0.5)
    *down, up = caught.value.answers.values()
    assert up == "granted, then released"
    assert len(down) == 2
    assert all("no " in text for text in down)
    assert traffic.commands - sent < 40
    await until_async(fleet.everything_free)
    for server in fleet.servers[:2]:
        await server.start()
    async with lock.hold(timeout=20):
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
    await until_async(lambda: nothing_held(redis, "a", "b"))
    link.cut()
    await answered(far)


async def nothing_held(redis: Redis, *names: str) -> bool:
    return not await redis.exists(*names)
