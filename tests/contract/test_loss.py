"""What happens when a lease is lost, on every lock-like thing."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import ConnectionLostError, LeaseLostError, Redisson, ReleaseFailedError
from redisson_py._time import now
from redisson_py.locks.lock_like import LockLike
from redisson_py.testing import EmbeddedServer, FaultProxy
from tests.contract.conftest import (
    Every,
    central_locks_of_redis,
    for_kinds,
    in_redis,
    is_central,
    is_lock,
    is_passing,
    of_redis,
    passing,
    single_of_redis,
    timed,
)
from tests.contract.servers import Servers
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.support.kinds import Kind, MakeLock
from tests.support.leases import assert_ends_in_time, renew_now, renewed_at_once
from tests.support.waiting import set_safety_poll, until, until_listening, until_waiting

pytestmark = pytest.mark.also("cluster", "sentinel")


async def test_deleted_key_cancels_the_body(
    kind: Kind,
    make_lock: MakeLock,
    clients: ClientFactory,
    servers: Servers,
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = clients()
    cancelled = False
    with pytest.raises(LeaseLostError) as caught:
        async with make_lock(client) as lease:
            await servers.forget("k")
            servers.renew_now(client)
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                cancelled = True
                assert lease.lost
                raise
    assert cancelled
    assert caught.value.name == lease.name
    assert caught.value.owner == lease.owner
    assert 0 < caught.value.held_for < 30
    assert client.statistics().losses == 1
    reported = [
        record.message
        for record in caplog.records
        if record.message.startswith("lost ") and lease.owner in record.message
    ]
    # A member of a red lock has the same owner, and a record of its own if its loss came first.
    too_few = [message for message in reported if "too few of its members are left" in message]
    assert len(too_few if kind.servers > 1 else reported) == 1
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


@of_redis
async def test_flushall_is_reported_at_the_next_renewal_and_the_waiters_go_on(
    kind: Kind,
    servers: Servers,
    make_lock: MakeLock,
    make_rival: MakeLock,
    clients: ClientFactory,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client, other = clients(), clients()
    # No message tells the waiters, and the lease is longer than this test should last.
    set_safety_poll(monkeypatch, 0.2)

    async def wait_for_it(waiting: Redisson) -> bool:
        async with make_rival(waiting).hold(timeout=30) as lease:
            return not lease.lost

    with pytest.raises(LeaseLostError):
        async with make_lock(client):
            near = asyncio.create_task(wait_for_it(client))
            far = asyncio.create_task(wait_for_it(other))
            await servers.until_waiting(client, 1)
            await until_listening(other)
            for redis in servers.all:
                await redis.flushall()
            servers.renew_now(client)
            await asyncio.sleep(30)
    assert await near
    assert await far
    # The server reported it, long before the end of the lease.
    assert "on the server another owner holds it, or nobody does" in caplog.text
    assert client.statistics().losses == kind.members
    assert not client._watchdog.holds


@for_kinds(lambda kind: in_redis(kind) and is_lock(kind))
async def test_taken_over_by_another_type_is_a_loss(
    make_lock: MakeLock, clients: ClientFactory, servers: Servers
) -> None:
    client = clients()
    with pytest.raises(LeaseLostError):
        async with make_lock(client):
            for redis in servers.all:
                await redis.set(servers.kind.key(), "mine")
            servers.renew_now(client)
            await asyncio.sleep(30)
    for redis in servers.all:
        assert await redis.getdel(servers.kind.key()) == b"mine"


@timed
async def test_explicit_lease_time_ends_the_body(lock: LockLike) -> None:
    lease: Any = None
    # A busy machine may hear of the grant too late: then the body does not begin.
    while lease is None:
        with pytest.raises(LeaseLostError):
            async with lock.hold(lease_time=0.4) as lease:
                await asyncio.sleep(30)
    assert lease.remaining == 0.0


@central_locks_of_redis
async def test_a_lease_ends_here_before_the_server_lets_others_in(
    kind: Kind, lock: LockLike, redis: Redis
) -> None:
    """tests/soak/test_loss_margin.py measures by how much; 1 % and 2 ms are allowed for drift."""
    async with lock.hold(lease_time=60) as lease:
        before = now()
        left = await redis.pttl(kind.key()) / 1000
        # The server's moment lies after `before`, so its lease ends later than this says.
        assert now() + lease.remaining < before + left


async def test_stalled_loop_loses_before_the_body_goes_on(
    make_lock: MakeLock, clients: ClientFactory, caplog: pytest.LogCaptureFixture
) -> None:
    client = clients(lease_time=0.3)
    went_on = False
    with pytest.raises(LeaseLostError):
        async with make_lock(client) as lease:
            time.sleep(0.6)  # noqa: ASYNC251  # the fault: it blocks the event loop
            assert lease.lost
            with pytest.raises(LeaseLostError):
                lease.check()
            await asyncio.sleep(0.001)
            went_on = True
    assert not went_on
    assert "event loop was blocked" in caplog.text


@timed
async def test_stalled_loop_ends_a_lease_time_before_the_body_goes_on(
    lock: LockLike, client: Redisson, servers: Servers
) -> None:
    went_on = False
    with pytest.raises(LeaseLostError):
        async with lock.hold(lease_time=0.1) as lease:
            time.sleep(0.15)  # noqa: ASYNC251  # the fault: it blocks the event loop
            assert lease.lost
            # The first comes back at once, before the loop looks at its timers.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            went_on = True
    assert not went_on
    await servers.settled(client)
    assert not await lock.locked()


@single_of_redis
async def test_black_hole_loses_by_the_local_clock(
    make_lock: MakeLock,
    make_rival: MakeLock,
    clients: ClientFactory,
    proxy: ProxyFactory,
    redis: Redis,
    kind: Kind,
) -> None:
    link: FaultProxy = await proxy()
    client = clients(link.url, lease_time=0.6)
    with pytest.raises(LeaseLostError):
        async with make_lock(client) as lease:
            link.black_hole()
            await assert_ends_in_time(lease, redis, kind.key())
            try:
                await asyncio.sleep(30)
            finally:
                assert lease.lost
    async with make_rival(clients()).hold(timeout=10):
        pass
    link.pass_through()


async def test_outage_shorter_than_the_lease_is_survived(every: Every, proxy: ProxyFactory) -> None:
    link = await proxy()
    # An attempt to connect during the outage takes a second or two of it.
    kinds = every(is_central, url=link.url, lease_time=12)
    leases = [await each.lock.acquire() for each in kinds]
    link.black_hole()
    # A renewal was due when 8 s were left.
    await until(lambda: all(lease.remaining < 7.9 for lease in leases))
    link.pass_through()
    # All members together: in a cluster, only some of them were out of reach.
    await until(lambda: all(lease.remaining > 8 for lease in leases))
    for each, lease in zip(kinds, leases, strict=True):
        assert not lease.lost
        await lease.release()
        assert each.client.statistics().losses == 0, each.name


@pytest.mark.parametrize("store", ["redis"])
async def test_server_restarted_empty_is_a_loss(every: Every, own_server: EmbeddedServer) -> None:
    # Found at the new connection, long before a renewal is due.
    kinds = every(is_central, url=own_server.url)
    leases = [await each.lock.acquire() for each in kinds]
    await own_server.restart(keep_data=False)
    for lease in leases:
        await lease.wait_lost()
        with pytest.raises(LeaseLostError):
            await lease.release()
    leases = [await each.lock.acquire(timeout=30) for each in kinds]
    await asyncio.gather(*[renewed_at_once(each.client) for each in kinds])
    for lease in leases:
        assert not lease.lost
        await lease.release()


async def test_error_of_the_body_is_not_masked(lock: LockLike, servers: Servers) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        async with lock:
            await servers.forget("k")
            raise ZeroDivisionError
    assert any("LeaseLostError" in note for note in caught.value.__notes__)


async def test_error_raised_while_being_cancelled_is_not_masked(
    lock: LockLike, client: Redisson, servers: Servers
) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        async with lock:
            try:
                await servers.forget("k")
                servers.renew_now(client)
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                raise ZeroDivisionError from None
    assert any("LeaseLostError" in note for note in caught.value.__notes__)


async def test_loss_of_a_body_that_never_awaits_is_raised_at_its_end(
    lock: LockLike, servers: Servers
) -> None:
    with pytest.raises(LeaseLostError):
        async with lock:
            await servers.forget("k")


async def test_body_that_swallows_the_cancellation_still_gets_the_error(
    lock: LockLike, client: Redisson, servers: Servers
) -> None:
    with pytest.raises(LeaseLostError):
        async with lock:
            await servers.forget("k")
            servers.renew_now(client)
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(30)
    await asyncio.sleep(0)


async def test_on_lost_raise_lets_the_body_run_on(
    make_lock: MakeLock, clients: ClientFactory, servers: Servers
) -> None:
    client = clients(on_lost="raise")
    finished = False
    with pytest.raises(LeaseLostError):
        async with make_lock(client) as lease:
            await servers.forget("k")
            servers.renew_now(client)
            await lease.wait_lost()
            await asyncio.sleep(0.01)
            finished = True
    assert finished


async def test_check_and_wait_lost_outside_a_block(
    make_lock: MakeLock, clients: ClientFactory, servers: Servers
) -> None:
    client = clients()
    lease = await make_lock(client).acquire()
    watchers = [asyncio.create_task(lease.wait_lost()) for _ in range(3)]
    await asyncio.sleep(0)
    watchers[0].cancel()
    lease.check()
    await servers.forget("k")
    servers.renew_now(client)
    await asyncio.gather(*watchers[1:])
    await lease.wait_lost()
    with pytest.raises(LeaseLostError):
        lease.check()
    with pytest.raises(LeaseLostError):
        await lease.extend(1)
    with pytest.raises(LeaseLostError):
        await lease.release()


async def test_block_on_a_lease_that_is_lost_already_does_not_begin(
    lock: LockLike, client: Redisson, servers: Servers
) -> None:
    lease = await lock.acquire()
    await servers.forget("k")
    servers.renew_now(client)
    await lease.wait_lost()
    began = False
    with pytest.raises(LeaseLostError):
        async with lease:
            began = True
    assert not began


async def test_watchdog_renews_for_as_long_as_it_is_held(every: Every, client: Redisson) -> None:
    # Short enough to wait for its end, and long enough for a busy machine to renew it in time.
    kinds = every(lambda _: True, lease_time=6)
    leases = [await each.lock.acquire() for each in kinds]
    granted = now()
    # The server keeps it for longer than it was asked to at first.
    await until(lambda: now() > granted + 6.1)
    for each, lease in zip(kinds, leases, strict=True):
        assert not lease.lost
        assert await each.rival(client).try_acquire() is None, each.name
        await lease.release()
        for holder in each.servers.clients(each.client):
            renewals = holder.statistics().renewals
            assert renewals >= 2, each.name
            assert not holder._watchdog.holds
            renew_now(holder)
            await holder.ping()
            assert holder.statistics().renewals == renewals


@passing
async def test_the_task_that_was_passed_a_hold_loses_it(
    make_lock: MakeLock, clients: ClientFactory, servers: Servers
) -> None:
    client = clients(turn=60)
    lock = make_lock(client)
    first = await lock.acquire()

    async def work() -> str:
        try:
            async with lock as lease:
                assert lease.owner == first.owner
                await servers.forget("k")
                renew_now(client)
                await asyncio.sleep(30)
        except LeaseLostError:
            return "lost"
        return "not lost"

    second = asyncio.create_task(work())
    third = asyncio.create_task(lock.acquire(timeout=30))
    await until(lambda: client.statistics().waiters == 2)
    await first.release()
    assert await second == "lost"
    assert not first.lost
    lease = await third
    assert lease.owner != first.owner
    await lease.release()


@pytest.mark.more
async def test_hold_that_ends_on_its_way_to_the_next_task_is_not_taken(every: Every) -> None:
    both = []
    for each in every(is_passing, lease_time=3, turn=30):
        both.append((await each.lock.acquire(), asyncio.create_task(each.lock.acquire())))
        await until_waiting(each.client, 1)
    for first, _ in both:
        await first.release()
    # The holds were passed, and the next tasks have not run yet.
    time.sleep(3.1)  # noqa: ASYNC251  # the fault: it blocks the event loop
    for first, second in both:
        lease = await second
        lease.check()
        assert lease.owner != first.owner
        await lease.release()


async def test_release_that_cannot_reach_the_server_says_so(
    every: Every, proxy: ProxyFactory, redis: Redis
) -> None:
    link = await proxy()
    kinds = every(is_central, url=link.url, lease_time=3)
    leases = [await each.lock.acquire() for each in kinds]
    link.refuse()
    link.cut()
    errors = await asyncio.gather(*[lease.release() for lease in leases], return_exceptions=True)
    for each, error in zip(kinds, errors, strict=True):
        assert isinstance(error, ConnectionLostError | LeaseLostError | ReleaseFailedError)
        assert not each.client._watchdog.holds
    # What a semaphore counts lasts until somebody looks at it.
    await redis.flushdb()
