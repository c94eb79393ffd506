"""`extend`, also under bad timing: cancelled, overtaken, lost or without a connection."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from redisson_py import LeaseLostError, Redisson, ScriptError
from redisson_py._time import now
from redisson_py.locks.lock_like import LockLike
from tests.contract.conftest import (
    Every,
    central_locks_of_redis,
    single,
    single_reentrant,
    timed,
)
from tests.contract.servers import Servers
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import Permit, ProxyFactory
from tests.support.kinds import MakeLock
from tests.support.leases import assert_left, renewed_at_once
from tests.support.waiting import until, until_waiting

pytestmark = pytest.mark.also("cluster")


async def cancelled_at_once(work: object) -> None:
    task = asyncio.ensure_future(work)  # type: ignore[call-overload]
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@timed
async def test_extend_sets_a_lease_from_now(lock: LockLike, servers: Servers) -> None:
    async with lock.hold(lease_time=20) as lease:
        for seconds in (10, 60):
            began = now()
            await lease.extend(seconds)
            assert lease.remaining < seconds
            servers.assert_left(lease.remaining, seconds, began)


@pytest.mark.more
async def test_an_extension_may_be_longer_than_the_lease_before(
    every: Every, client: Redisson
) -> None:
    kinds = every(lambda kind: kind.timed)
    leases = [await each.lock.acquire(lease_time=3) for each in kinds]
    granted = now()
    await asyncio.gather(*[lease.extend(60) for lease in leases])
    await until(lambda: now() > granted + 3.1)
    for each, lease in zip(kinds, leases, strict=True):
        lease.check()
        assert await each.rival(client).try_acquire() is None, each.name
        await lease.release()
        assert not await each.lock.locked(), each.name


async def test_extend_ends_renewal(make_lock: MakeLock, clients: ClientFactory) -> None:
    client = clients(lease_time=0.3)
    with pytest.raises(LeaseLostError):
        async with make_lock(client) as lease:
            await lease.extend(0.5)
            await asyncio.sleep(30)


async def test_extend_of_a_lost_lease_says_so(lock: LockLike, servers: Servers) -> None:
    lease = await lock.acquire()
    await servers.forget("k")
    with pytest.raises(LeaseLostError):
        await lease.extend(5)
    assert lease.lost


async def test_a_cancelled_extend_is_carried_out(
    lock: LockLike, client: Redisson, servers: Servers
) -> None:
    # Where the client ends the lease, it counts on no more than one renewal.
    seconds = 300 if servers.kind.ends_leases else 20
    began = now()
    lease = await lock.acquire()
    await cancelled_at_once(lease.extend(seconds))
    await servers.answered(client)
    assert lease.remaining < seconds
    assert_left(lease.remaining, seconds * 0.99, began)
    await lease.release()
    assert not await lock.locked()


@timed
async def test_until_the_answer_the_shorter_lease_counts(
    lock: LockLike, client: Redisson, servers: Servers
) -> None:
    lease = await lock.acquire(lease_time=60)
    await cancelled_at_once(lease.extend(300))
    assert lease.remaining < 60
    await cancelled_at_once(lease.extend(20))
    assert lease.remaining < 20
    await servers.answered(client)
    assert 10 < lease.remaining < 20, "the answer of the first must not count after the second"
    await lease.release()


@central_locks_of_redis
async def test_a_refused_extend_leaves_the_old_lease(
    make_lock: MakeLock, clients: ClientFactory, allow: Permit
) -> None:
    client = clients(await allow(), lease_time=60)
    lock = make_lock(client)
    async with lock as lease:
        await allow("pexpire")
        with pytest.raises(ScriptError, match=r"(?i)pexpire|permission|ACL"):
            await lease.extend(300)
        assert lease.remaining <= 60
        await allow()
        await renewed_at_once(client)
        assert not lease.lost, "the watchdog renews it as before"


@single
async def test_a_loss_while_the_answer_is_on_its_way_leaves_nothing(
    lock: LockLike, client: Redisson, servers: Servers
) -> None:
    lease = await lock.acquire(lease_time=20)
    extending = asyncio.create_task(lease.extend(300))
    await asyncio.sleep(0)
    client._watchdog.lose(lease._hold, "ended")
    with pytest.raises(LeaseLostError):
        await extending
    await servers.settled(client)
    assert await servers.gone()
    with pytest.raises(LeaseLostError):
        await lease.release()


@single_reentrant
async def test_a_loss_while_a_re_entry_is_on_its_way_leaves_nothing(
    lock: LockLike, client: Redisson, servers: Servers
) -> None:
    lease = await lock.acquire(lease_time=20)
    asyncio.get_running_loop().call_soon(client._watchdog.lose, lease._hold, "ended")
    with pytest.raises(LeaseLostError):
        await lock.acquire(lease_time=300)
    await servers.settled(client)
    assert await servers.gone()
    with pytest.raises(LeaseLostError):
        await lease.release()


async def test_a_hold_whose_partial_release_was_cancelled_is_not_passed(
    clients: ClientFactory, redis: Redis, proxy: ProxyFactory
) -> None:
    """Until its answer is there, a late duplicate of it may still travel under this owner."""
    link = await proxy()
    client = clients(link.url, turn=60)
    lock = client.get_lock("k")
    outer, inner = await lock.acquire(), await lock.acquire()
    waiting = asyncio.create_task(lock.acquire())
    await until_waiting(client, 1)
    link.delay(0.2, direction="down")
    await cancelled_at_once(inner.release())
    await outer.release()
    lease = await waiting
    assert lease.owner != outer.owner
    await lease.release()
    assert await redis.exists("k") == 0
