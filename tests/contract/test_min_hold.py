"""`min_hold`: a block that is left early leaves the name taken, by nobody, until then."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import anyio
import pytest
from redis.asyncio import Redis

from redisson_py import (
    AcquireTimeoutError,
    FairLock,
    LeaseLostError,
    NotHeldError,
    Redisson,
    _keys,
)
from redisson_py._time import now
from redisson_py.locks.lock_like import LockLike
from redisson_py.testing import FaultProxy
from tests.contract.conftest import for_kinds, in_redis, is_central, is_lock, is_passing, is_single
from tests.contract.servers import Servers
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.support.kinds import Kind, MakeLock
from tests.support.waiting import set_safety_poll, until, until_listening, until_waiting


def has_it(kind: Kind) -> bool:
    return is_lock(kind) and kind.stay_taken


locks = for_kinds(has_it)
single = for_kinds(lambda kind: has_it(kind) and is_single(kind))
single_of_redis = for_kinds(lambda kind: has_it(kind) and is_single(kind) and in_redis(kind))
central_of_redis = for_kinds(lambda kind: has_it(kind) and is_central(kind) and in_redis(kind))
central = for_kinds(lambda kind: has_it(kind) and is_central(kind))
reentrant = for_kinds(lambda kind: has_it(kind) and kind.reentrant)
passing = for_kinds(lambda kind: has_it(kind) and is_passing(kind))
without = for_kinds(lambda kind: is_lock(kind) and not kind.stay_taken)

#: Of those that change what is in Redis.
also = pytest.mark.also("cluster", "sentinel")

#: Longer than any test takes.
LONG = 300


async def assert_taken(lock: LockLike, servers: Servers, client: Redisson) -> None:
    """Fail unless nobody holds the lock, nobody can acquire it, and nothing renews it."""
    assert await lock.locked()
    assert not await lock.owned()
    assert await lock.try_acquire() is None
    assert client.statistics().held_leases == 0
    for each in servers.clients(client):
        assert not each._watchdog.holds
    with pytest.raises(NotHeldError):
        await lock.release()


async def assert_taken_until(lock: LockLike, moment: float, since: float) -> None:
    """Fail unless the name is taken until a moment, which was reckoned `since` then or later."""
    left = await lock.remaining()
    assert left is not None
    # Of a moment that passes between the look and its answer.
    assert moment - now() <= left + 0.001
    assert left <= moment - since + 1


async def free(lock: LockLike) -> None:
    """Free it, as an operator does, and fail unless that works at once."""
    assert await lock.force_release() is True
    async with lock:
        pass
    assert not await lock.locked()


@also
@locks
async def test_left_early_the_name_stays_taken_and_nobody_holds_it(
    lock: LockLike, client: Redisson, servers: Servers
) -> None:
    began = now()
    async with lock.hold(min_hold=LONG) as lease:
        assert await lock.owned()
        assert 0 < lease.remaining <= 30, "a crash frees it within one lease"
        entered = now()
    await assert_taken(lock, servers, client)
    await assert_taken_until(lock, began + LONG, began)
    await assert_taken_until(lock, entered + LONG - (entered - began), began)
    await free(lock)


@also
@locks
async def test_who_waits_gets_it_then_and_not_sooner(
    make_lock: MakeLock,
    lock: LockLike,
    client: Redisson,
    clients: ClientFactory,
    servers: Servers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_safety_poll(monkeypatch, 60)
    other = clients()

    async def acquire(lock: LockLike) -> float:
        lease = await lock.acquire()
        granted = now()
        await lease.release()
        return granted

    began = now()
    async with lock.hold(min_hold=1):
        waiting = [asyncio.create_task(acquire(each)) for each in (lock, make_lock(other))]
        await servers.until_waiting(client, 1)
        await servers.until_waiting(other, 1)
    async with asyncio.timeout(30):  # before the safety poll
        granted = await asyncio.gather(*waiting)
    assert min(granted) - began >= 1


@also
@single_of_redis
async def test_a_shorter_time_than_the_lease_wakes_who_sleeps_until_its_end(
    make_lock: MakeLock, clients: ClientFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_safety_poll(monkeypatch, 600)
    client, other = clients(lease_time=600), clients(lease_time=600)
    lock = make_lock(client)
    began = now()
    async with lock.hold(min_hold=2):
        waiting = asyncio.create_task(make_lock(other).acquire())
        # A little later the first in the queue listens to Redisson too, and asks once more.
        await _until_listening(other, 1 if isinstance(lock, FairLock) else 2)
    async with asyncio.timeout(60):
        lease = await waiting
    assert now() - began >= 2
    await lease.release()


async def _until_listening(client: Redisson, channels: int) -> None:
    table = client._context.bus.table
    await until(lambda: sum(bool(each.seats) for each in table.channels.values()) == channels)
    await client.ping()
    await until_listening(client)


@locks
async def test_a_body_that_takes_longer_frees_it_at_its_end(
    lock: LockLike, servers: Servers
) -> None:
    async with lock.hold(min_hold=0.001):
        began = now()
        await until(lambda: now() > began + 0.002)
    assert await servers.gone()


class BodyError(Exception):
    """What the body of a block raises."""


async def _fail(lock: LockLike, lease: Any) -> None:
    raise BodyError


async def _release(lock: LockLike, lease: Any) -> None:
    await lock.release()


async def _release_lease(lock: LockLike, lease: Any) -> None:
    await lease.release()


async def _cancel(lock: LockLike, lease: Any) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(60)


ENDS: dict[str, Callable[[LockLike, Any], Awaitable[None]]] = {
    "an error": _fail,
    "a release": _release,
    "a release of the lease": _release_lease,
    "cancelled": _cancel,
}


@central
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
async def test_it_is_the_same_however_the_body_ends(
    end: Callable[[LockLike, Any], Awaitable[None]],
    lock: LockLike,
    client: Redisson,
    servers: Servers,
) -> None:
    began = now()

    async def work() -> None:
        async with lock.hold(min_hold=LONG) as lease:
            await end(lock, lease)

    task = asyncio.create_task(work())
    await asyncio.wait([task])
    assert task.cancelled() == (end is _cancel)
    assert task.cancelled() or (task.exception() is None) == (end is not _fail)
    await assert_taken(lock, servers, client)
    await assert_taken_until(lock, began + LONG, began)
    await free(lock)


@central
async def test_cancelled_by_a_scope(lock: LockLike, client: Redisson, servers: Servers) -> None:
    with anyio.CancelScope() as scope:
        async with lock.hold(min_hold=LONG):
            scope.cancel()
            await asyncio.sleep(60)
    await servers.settled(client)
    await assert_taken(lock, servers, client)
    await free(lock)


@central
async def test_cancelled_while_it_waits_it_leaves_the_name_as_it_was(
    make_lock: MakeLock, lock: LockLike, clients: ClientFactory, servers: Servers
) -> None:
    other = clients()

    async def work() -> None:
        async with make_lock(other).hold(min_hold=LONG):
            raise AssertionError("it was not to get it")

    async with lock:
        waiting = asyncio.create_task(work())
        await until_waiting(other, 1)
        waiting.cancel()
        await asyncio.wait([waiting])
        with pytest.raises(AcquireTimeoutError):
            async with make_lock(other).hold(timeout=0, min_hold=LONG):
                raise AssertionError("it was not to get it")
    await servers.settled(other)
    await servers.until_gone()


# Together with other acquisitions.


@reentrant
@pytest.mark.parametrize("inner", [True, False])
async def test_the_end_of_the_last_block_counts_and_the_latest_moment(
    inner: bool, lock: LockLike, client: Redisson, servers: Servers
) -> None:
    began = now()
    async with lock.hold(min_hold=None if inner else LONG) as outer:
        async with lock.hold(min_hold=LONG if inner else 1):
            pass
        outer.check()
        assert await lock.hold_count() == 1
    await assert_taken(lock, servers, client)
    await assert_taken_until(lock, began + LONG, began)
    await free(lock)


@passing
async def test_it_is_not_passed_on_before(
    make_lock: MakeLock, clients: ClientFactory, servers: Servers
) -> None:
    client = clients(turn=60)
    lock = make_lock(client)
    began = now()
    async with lock.hold(min_hold=1) as first:
        waiting = asyncio.create_task(lock.acquire())
        await until_waiting(client, 1)
    lease = await waiting
    assert now() - began >= 1
    assert lease.owner != first.owner
    await lease.release()
    await servers.until_gone()


@passing
async def test_it_is_passed_on_later_and_the_next_task_has_no_min_hold(
    make_lock: MakeLock, clients: ClientFactory, servers: Servers
) -> None:
    client = clients(turn=60)
    lock = make_lock(client)
    async with lock.hold(min_hold=0.05) as first:
        waiting = asyncio.create_task(lock.acquire())
        await until_waiting(client, 1)
        began = now()
        await until(lambda: now() > began + 0.06)
    lease = await waiting
    assert lease.owner == first.owner
    await lease.release()
    await servers.until_gone()


@single
async def test_an_extension_ends_the_body_and_not_the_time(
    lock: LockLike, client: Redisson, servers: Servers
) -> None:
    began = now()
    with pytest.raises(LeaseLostError) as caught:
        async with lock.hold(min_hold=LONG) as lease:
            await lease.extend(0.3)
            assert lease.remaining <= 0.3
            await asyncio.sleep(60)
    assert caught.value.reason == "ended"
    await servers.settled(client)
    await assert_taken(lock, servers, client)
    await assert_taken_until(lock, began + LONG, began)
    await free(lock)


@single
@pytest.mark.parametrize("limit", ["lease_time", "max_hold"])
async def test_a_body_that_takes_too_long_is_ended_and_the_name_is_taken_to_the_end(
    limit: str, lock: LockLike, make_lock: MakeLock, clients: ClientFactory
) -> None:
    options: dict[str, Any] = {limit: 1, "min_hold": 1}
    other = make_lock(clients())
    began = now()
    with pytest.raises(LeaseLostError) as caught:
        async with lock.hold(**options):
            await asyncio.sleep(60)
    assert caught.value.reason == "ended"
    async with other:
        assert now() - began >= 1


@single_of_redis
@pytest.mark.parametrize("limit", ["lease_time", "max_hold"])
async def test_it_counts_from_the_grant_however_late_that_is_heard(
    limit: str,
    lock: LockLike,
    make_lock: MakeLock,
    clients: ClientFactory,
    proxy: ProxyFactory,
    redis: Redis,
) -> None:
    link: FaultProxy = await proxy()
    client = clients(link.url)
    await client.ping()
    link.delay(0.5, direction="down")
    options: dict[str, Any] = {limit: 2, "min_hold": 2}
    with pytest.raises(LeaseLostError):
        async with make_lock(client).hold(**options) as lease:
            link.delay(0, direction="down")
            granted = lease._granted_at
            await asyncio.sleep(60)
    async with lock:
        assert now() - granted >= 2


@locks
async def test_forced_out_the_name_is_free(lock: LockLike, servers: Servers) -> None:
    with pytest.raises(LeaseLostError) as caught:
        async with lock.hold(min_hold=LONG):
            await lock.force_release()
    assert caught.value.reason in ("forced", "taken")
    await servers.until_gone()


@single
async def test_lost_to_another_it_does_not_touch_that_ones_hold(
    lock: LockLike, make_lock: MakeLock, client: Redisson, clients: ClientFactory, servers: Servers
) -> None:
    other = make_lock(clients())
    with pytest.raises(LeaseLostError):
        async with lock.hold(min_hold=LONG):
            await servers.forget("k")
            theirs = await other.acquire()
    await servers.settled(client)
    await servers.assert_held(theirs.owner)
    assert theirs.remaining <= 30
    await theirs.release()
    await servers.until_gone()


# The end of the client, and the network.


@central
async def test_a_client_that_closes_leaves_the_name_taken(
    make_lock: MakeLock, lock: LockLike, clients: ClientFactory
) -> None:
    client = clients()
    began = now()
    async with make_lock(client).hold(min_hold=LONG):
        pass
    await client.aclose()
    await assert_taken_until(lock, began + LONG, began)
    await free(lock)


@central
async def test_closed_in_the_block_it_does_too(
    make_lock: MakeLock, lock: LockLike, clients: ClientFactory
) -> None:
    client = clients()
    began = now()
    with pytest.raises(LeaseLostError):
        async with make_lock(client).hold(min_hold=LONG):
            await client.aclose()
    await assert_taken_until(lock, began + LONG, began)
    await free(lock)


@also
@central_of_redis
async def test_a_release_whose_answer_is_lost_is_repeated_and_changes_nothing(
    make_lock: MakeLock, lock: LockLike, clients: ClientFactory, proxy: ProxyFactory
) -> None:
    link: FaultProxy = await proxy()
    client = clients(link.url)
    began = now()
    async with make_lock(client).hold(min_hold=LONG):
        link.cut_after_execution(b"EVALSHA")
    assert link.triggered == 1
    await assert_taken_until(lock, began + LONG, began)
    assert client.statistics().losses == 0
    await free(lock)


@single_of_redis
async def test_a_release_that_is_held_up_on_its_way_leaves_it_taken_no_longer(
    make_lock: MakeLock, lock: LockLike, clients: ClientFactory, proxy: ProxyFactory, redis: Redis
) -> None:
    link: FaultProxy = await proxy()
    client = clients(link.url)
    began = now()
    async with make_lock(client).hold(min_hold=LONG):
        entered = now()
        link.hold()
        ending = asyncio.create_task(_leave_later(link, entered + 1))
    await ending
    before = now()
    left = await redis.pttl("k") / 1000
    # It counts from the grant, which came between the two, however late the release arrives.
    assert before + left <= entered + LONG + (entered - began) + 0.002
    await assert_taken_until(lock, began + LONG, began)
    await free(lock)


@single_of_redis
async def test_after_a_grant_whose_answer_was_lost_late_copies_are_refused(
    make_lock: MakeLock, lock: LockLike, clients: ClientFactory, proxy: ProxyFactory, redis: Redis
) -> None:
    link: FaultProxy = await proxy()
    client = clients(link.url)
    await client.ping()
    link.cut_after_execution(b"EVALSHA")
    began = now()
    async with make_lock(client).hold(min_hold=LONG) as lease:
        assert link.triggered == 1
        assert not await redis.exists(_keys.tombstone(b"k", lease.owner))
    assert await redis.exists(_keys.tombstone(b"k", lease.owner))
    await assert_taken_until(lock, began + LONG, began)
    await free(lock)


async def _leave_later(link: FaultProxy, moment: float) -> None:
    await until(lambda: link.held > 0 and now() > moment)
    link.release_held()
    link.pass_through()


# As a decorator, and arguments.


@locks
async def test_as_a_decorator(lock: LockLike, client: Redisson, servers: Servers) -> None:
    @lock.hold(min_hold=timedelta(minutes=5))
    async def work() -> int:
        assert await lock.owned()
        return 1

    began = now()
    assert await work() == 1
    await assert_taken(lock, servers, client)
    await assert_taken_until(lock, began + LONG, began)
    await free(lock)


@for_kinds(is_lock)
async def test_out_of_range_is_refused_before_anything_is_sent(
    lock: LockLike, client: Redisson
) -> None:
    for wrong in (0, -1, float("nan"), float("inf"), 0.0001, 1e12):
        with pytest.raises(ValueError, match="min_hold must be between"):
            lock.hold(min_hold=wrong)
    for limit in ("max_hold", "lease_time"):
        options: dict[str, Any] = {limit: 1}
        with pytest.raises(ValueError, match=f"{limit} must not be shorter than min_hold"):
            lock.hold(min_hold=1.001, **options)
    with pytest.raises(TypeError, match="min_hold must be seconds"):
        lock.hold(min_hold="1")  # type: ignore[arg-type]
    assert client.statistics().commands_sent == 0


@without
async def test_locks_that_cannot_have_it_say_so(lock: LockLike, client: Redisson) -> None:
    with pytest.raises(ValueError, match="cannot have a min_hold"):
        lock.hold(min_hold=1)
    assert client.statistics().commands_sent == 0


async def test_a_composite_with_a_member_that_cannot_have_it_says_so(client: Redisson) -> None:
    both = client.get_multi_lock(client.get_lock("a"), client.get_read_write_lock("b").write_lock())
    with pytest.raises(ValueError, match="cannot have a min_hold"):
        both.hold(min_hold=1)


async def test_people_see_that_nobody_has_it(client: Redisson, redis: Redis) -> None:
    lock = client.get_lock("k")
    async with lock.hold(min_hold=LONG) as lease:
        pass
    (holder,) = (await lock.inspect()).holders
    assert holder.owner == f"{lease.owner}:kept"
    assert (holder.task, holder.state) == (None, "kept")
    assert 0 < holder.remaining <= LONG
    assert await redis.hgetall("k") == {f"{lease.owner}:kept".encode(): b"1"}
    await free(lock)
