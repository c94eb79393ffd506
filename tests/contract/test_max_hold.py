"""`max_hold`: renewed like any hold, but for no longer than that."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import LeaseLostError, Redisson
from redisson_py._time import now
from redisson_py.locks.lock_like import LockLike
from tests.contract.conftest import (
    Each,
    Every,
    central_locks_of_redis,
    for_kinds,
    is_lock,
    is_reentrant,
    is_single,
    locks,
    passing,
    single,
)
from tests.contract.servers import Servers
from tests.fixtures.client import ClientFactory
from tests.support.kinds import KINDS, Kind, MakeLock
from tests.support.waiting import until, until_async, until_waiting


async def until_lost(lock: LockLike, **options: Any) -> LeaseLostError:
    """Return how an endless block with these options ends."""
    with pytest.raises(LeaseLostError) as caught:
        async with lock.hold(**options) as lease:
            try:
                await asyncio.sleep(60)
            finally:
                assert lease.lost
                assert lease.remaining == 0.0
    return caught.value


@locks
async def test_the_body_is_notified_and_the_lock_is_free(lock: LockLike, servers: Servers) -> None:
    began = now()
    loss = await until_lost(lock, max_hold=0.5)
    assert loss.reason == "ended"
    assert "ended" in str(loss)
    assert now() - began > 0.49
    # Released, not left to a lease of 30 seconds.
    await servers.until_gone()
    async with lock:
        pass


@pytest.mark.more
async def test_it_is_renewed_until_then(every: Every) -> None:
    async def one(each: Each) -> None:
        # The limit counts from here; a busy machine may be granted it later.
        began = now()
        loss = await until_lost(each.lock, max_hold=7)
        assert loss.reason == "ended"
        assert now() - began > 6.9, each.name
        assert loss.held_for > 6, "longer than one lease"
        assert each.client.statistics().renewals >= 2, each.name

    await asyncio.gather(*[one(each) for each in every(is_lock, lease_time=6)])


async def test_the_next_task_gets_it_then(every: Every, client: Redisson) -> None:
    both = [lock for each in every(is_lock) for lock in (each.lock, each.rival(client))]
    async with asyncio.timeout(30):
        losses = await asyncio.gather(*[until_lost(lock, max_hold=0.5) for lock in both])
    assert {loss.reason for loss in losses} == {"ended"}


@locks
async def test_released_in_time_nothing_is_lost(
    lock: LockLike, client: Redisson, servers: Servers
) -> None:
    async with lock.hold(max_hold=60) as lease:
        assert 20 < lease.remaining <= 60
    assert not await lock.locked()
    lease = await lock.acquire(max_hold=timedelta(minutes=5))
    await lease.release()
    found = await lock.try_acquire(max_hold=5)
    assert found is not None
    assert 0 < found.remaining <= 5
    await found.release()
    assert client.statistics().losses == 0
    assert not client._watchdog.holds


@central_locks_of_redis
async def test_redis_does_not_keep_a_short_one_longer(
    kind: Kind, lock: LockLike, redis: Redis
) -> None:
    """Should the process stop here, the lock is free in time all the same."""
    async with lock.hold(max_hold=10):

        async def is_short() -> bool:
            return bool(0 < await redis.pttl(kind.key()) <= 10_000)

        await until_async(is_short)


@central_locks_of_redis
async def test_a_crash_frees_it_within_one_lease(
    kind: Kind, make_lock: MakeLock, clients: ClientFactory, redis: Redis
) -> None:
    lease = await make_lock(clients(lease_time=20)).acquire(max_hold=3600)
    assert 0 < await redis.pttl(kind.key()) <= 20_000
    await lease.release()


@for_kinds(lambda kind: kind.composite or kind is KINDS["lock"])
async def test_as_a_decorator(make_lock: MakeLock, client: Redisson, servers: Servers) -> None:
    @make_lock(client).hold(max_hold=0.5)
    async def work() -> None:
        await asyncio.sleep(60)

    with pytest.raises(LeaseLostError) as caught:
        await work()
    assert caught.value.reason == "ended"
    await servers.until_gone()


async def _is_free(lock: LockLike) -> bool:
    return not await lock.locked()


# Arguments.


@locks
async def test_out_of_range_is_refused_before_anything_is_sent(
    lock: LockLike, client: Redisson
) -> None:
    for wrong in (0, -1, float("nan"), float("inf"), 0.0001, 1e12):
        for call in (lock.acquire, lock.try_acquire):
            with pytest.raises(ValueError, match="max_hold must be between"):
                await call(max_hold=wrong)
        with pytest.raises(ValueError, match="max_hold must be between"):
            lock.hold(max_hold=wrong)
    assert client.statistics().commands_sent == 0


@locks
async def test_not_together_with_a_lease_time(lock: LockLike, client: Redisson) -> None:
    for call in (lock.acquire, lock.try_acquire):
        with pytest.raises(ValueError, match="not both"):
            await call(lease_time=1, max_hold=1)
    with pytest.raises(ValueError, match="not both"):
        lock.hold(lease_time=1, max_hold=1)
    with pytest.raises(TypeError, match="max_hold must be seconds"):
        await lock.acquire(max_hold="1")  # type: ignore[arg-type]
    assert client.statistics().commands_sent == 0


# Together with other leases of the same task.


async def test_an_inner_one_ends_without_the_outer(every: Every) -> None:
    locks = [each.lock for each in every(is_reentrant)]
    outers = [await lock.acquire() for lock in locks]
    inners = [await lock.acquire(max_hold=0.5) for lock in locks]
    for lock, outer, inner in zip(locks, outers, inners, strict=True):
        await inner.wait_lost()
        assert inner._loss().reason == "ended"
        outer.check()
        # The loss is told before its release has reached every member.
        await until_async(partial(_is_count, lock, 1))
        assert outer.remaining > 10
        with pytest.raises(LeaseLostError):
            await inner.release()
        await outer.release()
        assert not await lock.locked()


async def test_an_outer_one_ends_without_the_inner(every: Every) -> None:
    locks = [each.lock for each in every(is_reentrant)]
    both = [(lock, await lock.acquire(max_hold=3), await lock.acquire()) for lock in locks]
    for lock, outer, inner in both:
        await outer.wait_lost()
        await until_async(partial(_is_count, lock, 1))
        inner.check()
        assert inner.remaining > 10
        with pytest.raises(LeaseLostError) as caught:
            await outer.release()
        assert caught.value.reason == "ended"
        await inner.release()
        assert not await lock.locked()


async def _is_count(lock: LockLike, count: int) -> bool:
    return await lock.hold_count() == count


@pytest.mark.more
async def test_two_limits_each_count_for_themselves(every: Every) -> None:
    locks = [each.lock for each in every(lambda kind: is_reentrant(kind) and is_single(kind))]
    both = [
        (lock, await lock.acquire(max_hold=4), await lock.acquire(max_hold=0.5)) for lock in locks
    ]
    await asyncio.gather(*[short.wait_lost() for _, _, short in both])
    for _, long, _ in both:
        long.check()
    for lock, long, short in both:
        await long.wait_lost()
        assert {lease._loss().reason for lease in (short, long)} == {"ended"}
        await until_async(partial(_is_free, lock))


@passing
async def test_of_a_task_that_is_passed_the_lock(
    make_lock: MakeLock, clients: ClientFactory, servers: Servers
) -> None:
    """Its time counts from the hand-over, not from the start of the wait."""
    client = clients(turn=60)
    first = await make_lock(client).acquire()
    waiting = asyncio.create_task(make_lock(client).acquire(max_hold=0.5))
    after = asyncio.create_task(until_lost(make_lock(client), max_hold=0.5))
    await until_waiting(client, 2)
    handed_over = now()
    await first.release()
    passed = await waiting
    assert passed.owner == first.owner
    await passed.wait_lost()
    assert now() - handed_over > 0.48
    assert (await after).reason == "ended"
    await servers.until_gone()


@passing
async def test_a_passed_hold_does_not_keep_the_limit_of_the_task_before(
    make_lock: MakeLock, clients: ClientFactory
) -> None:
    client = clients(turn=60)
    first = await make_lock(client).acquire(max_hold=60)
    waiting = asyncio.create_task(make_lock(client).acquire())
    await until_waiting(client, 1)
    await first.release()
    passed = await waiting
    assert passed._limit is None
    assert not passed._hold.max_held
    await passed.release()


# Extended, unanswered, composed.


@locks
async def test_an_extension_replaces_it(lock: LockLike, servers: Servers) -> None:
    lease = await lock.acquire(max_hold=20)
    began = now()
    await lease.extend(60)
    # Where the client ends it, it counts on one renewal, which has to come first.
    least = 50 if servers.kind.ends_leases else 20
    await until(lambda: lease.remaining > least)
    servers.assert_left(await lock.remaining(), 60, began)
    await lease.extend(0.3)
    await lease.wait_lost()
    assert lease._loss().reason == "ended"


@single
async def test_without_renewals_it_expired_before(lock: LockLike) -> None:
    """The end that came first is the reason."""
    async with lock.hold(max_hold=60) as lease:
        ends_at = lease._hold.ends_at
        assert lease._overdue_reason == "expired"
        assert lease._hold.end_reason(ends_at) == "expired"
        assert lease._hold.end_reason(ends_at - 0.01) is None


async def test_a_read_under_a_write_goes_on(client: Redisson, redis: Redis) -> None:
    lock = client.get_read_write_lock("k")
    write = await lock.write_lock().acquire(max_hold=3)
    async with lock.read_lock() as read:
        await write.wait_lost()
        await until_async(lambda: _is_read(redis))
        read.check()
        assert await lock.read_lock().hold_count() == 1
        with pytest.raises(LeaseLostError):
            await write.release()
    assert not await redis.exists("k")


async def _is_read(redis: Redis) -> bool:
    found: Any = await redis.hgetall("k")
    return len(found) == 2 and found[b"mode"] == b"read"


async def test_readers_have_limits_of_their_own(client: Redisson, redis: Redis) -> None:
    lock = client.get_read_write_lock("k").read_lock()

    async def read() -> LeaseLostError:
        return await until_lost(lock, max_hold=0.5)

    async with lock as lease:
        losses = await asyncio.gather(read(), read())
        assert {loss.reason for loss in losses} == {"ended"}
        lease.check()
        await until_async(lambda: _has_readers(redis, 1))
    assert not await redis.exists("k")


async def _has_readers(redis: Redis, count: int) -> bool:
    found: Any = await redis.hgetall("k")
    return len(found) == 1 + count
