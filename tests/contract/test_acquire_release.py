"""Acquire, try, hold and release, on every lock-like thing."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import pytest
from redis.asyncio import Redis

from redisson_py import AcquireTimeoutError, LeaseLostError, NotHeldError, Redisson
from redisson_py._time import now
from redisson_py.locks.lock_like import LockLike
from tests.contract.conftest import single
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.support.exclusive_kinds import Kind, MakeLock
from tests.support.leases import assert_left, renew_now, renewed_at_once
from tests.support.streams import answered
from tests.support.waiting import set_safety_poll, until, until_listening, until_waiting


async def test_block_holds_and_releases(lock: LockLike, client: Redisson) -> None:
    began = now()
    async with lock as lease:
        assert lease
        assert await lock.locked()
        assert await lock.owned()
        assert await lock.hold_count() == 1
        assert lease.name == lock.name
        assert "k" in str(lock.name)
        assert lease.owner.startswith(f"{client.id}:")
        assert 0 < lease.remaining <= 30
        assert_left(await lock.remaining(), 30, began)
        lease.check()
    assert not await lock.locked()
    assert not await lock.owned()
    assert await lock.hold_count() == 0
    assert await lock.remaining() is None
    assert (lease.remaining, lease.lost) == (0.0, False)


async def test_hold_takes_options(lock: LockLike) -> None:
    began = now()
    async with lock.hold(timeout=30, lease_time=timedelta(seconds=5)) as lease:
        assert lease.remaining < 5
        assert_left(lease.remaining, 5, began)
        assert_left(await lock.remaining(), 5, began)
    assert not await lock.locked()


async def test_hold_block_can_be_used_again(lock: LockLike) -> None:
    block = lock.hold(timeout=30)
    for _ in range(2):
        async with block:
            assert await lock.locked()
            with pytest.raises(RuntimeError, match="in use"):
                await block.__aenter__()
    assert not await lock.locked()


async def test_try_acquire_is_none_when_busy(
    lock: LockLike, make_lock: MakeLock, clients: ClientFactory
) -> None:
    theirs = make_lock(clients())
    async with lock:
        assert await theirs.try_acquire() is None
        assert await theirs.try_acquire(timeout=0.5) is None
    lease = await theirs.try_acquire()
    assert lease is not None
    await lease.release()


async def test_acquire_times_out(
    lock: LockLike, make_lock: MakeLock, clients: ClientFactory
) -> None:
    second = clients()
    # Connected: otherwise a busy machine may not have a connection in time, and say that.
    await answered(second)
    theirs = make_lock(second)
    async with lock:
        with pytest.raises(AcquireTimeoutError):
            await theirs.acquire(timeout=0.5)
        with pytest.raises(TimeoutError, match="busy"):
            await theirs.acquire(timeout=0)
        assert not await theirs.owned()


async def test_release_by_another_task_of_the_lease(lock: LockLike) -> None:
    lease = await lock.acquire()

    async def release() -> None:
        await lease.release()

    await asyncio.create_task(release())
    assert not await lock.locked()
    with pytest.raises(NotHeldError):
        await lock.release()


async def test_second_release_of_a_lease_is_refused(lock: LockLike) -> None:
    lease = await lock.acquire()
    await lease.release()
    with pytest.raises(NotHeldError):
        await lease.release()
    with pytest.raises(NotHeldError):
        await lease.extend(1)


async def test_release_belongs_to_the_task_that_holds(lock: LockLike) -> None:
    async def stranger() -> None:
        with pytest.raises(NotHeldError):
            await lock.release()
        assert not await lock.owned()

    async with lock:
        await asyncio.create_task(stranger())
        assert await lock.owned()


async def test_release_after_loss_says_lost_once(lock: LockLike) -> None:
    await lock.acquire()
    assert await lock.force_release()
    with pytest.raises(LeaseLostError) as caught:
        await lock.release()
    assert caught.value.name == lock.name
    assert caught.value.held_for >= 0
    with pytest.raises(NotHeldError):
        await lock.release()


async def test_lease_as_a_block(lock: LockLike) -> None:
    async with await lock.acquire() as lease:
        assert lease.remaining > 0
        assert await lock.locked()
    assert not await lock.locked()


async def test_one_object_serves_many_tasks(lock: LockLike) -> None:
    inside = most = 0

    async def work() -> None:
        nonlocal inside, most
        async with lock:
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1

    async with asyncio.TaskGroup() as group:
        for _ in range(100):
            group.create_task(work())
    assert most == 1


async def test_local_waiters_are_served_in_order(lock: LockLike, client: Redisson) -> None:
    served: list[int] = []

    async def work(number: int) -> None:
        async with lock:
            served.append(number)

    async with asyncio.TaskGroup() as group:
        async with lock:
            for number in range(20):
                group.create_task(work(number))
                await until_waiting(client, number + 1)
    assert served == list(range(20))


async def test_force_release_frees_it_from_anybody(
    lock: LockLike, make_lock: MakeLock, clients: ClientFactory
) -> None:
    operator = make_lock(clients())
    lease = await lock.acquire()
    assert await operator.force_release()
    assert not await operator.force_release()
    assert not await lock.locked()
    async with operator:
        with pytest.raises(LeaseLostError):
            await lease.release()
        assert await operator.owned()


async def test_force_release_wakes_waiters(
    lock: LockLike, make_lock: MakeLock, clients: ClientFactory
) -> None:
    other = clients()
    lease = await lock.acquire()
    waiting = asyncio.create_task(make_lock(other).acquire())
    await until_listening(other)
    assert await lock.force_release()
    async with await waiting:
        pass
    assert lease.lost


async def test_release_wakes_a_waiter_of_another_client(
    lock: LockLike, make_lock: MakeLock, clients: ClientFactory
) -> None:
    other = clients()
    async with lock:
        waiting = asyncio.create_task(make_lock(other).acquire())
        await until_listening(other)
    lease = await waiting
    assert other.statistics().wake_ups >= 1
    await lease.release()


async def test_waiter_gets_it_when_the_lease_ends_without_a_message(
    lock: LockLike,
    make_lock: MakeLock,
    clients: ClientFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_safety_poll(monkeypatch, 60)  # which would find it too, as would the look before a timeout
    other = clients()
    lease = await lock.acquire(lease_time=0.2)
    async with asyncio.timeout(20):
        gained = await make_lock(other).acquire()
    # The holder knew before the server let anybody else in.
    assert lease.lost
    await gained.release()
    with pytest.raises(LeaseLostError):
        await lease.release()


async def test_lease_counts_from_before_it_was_asked_for(
    make_lock: MakeLock, clients: ClientFactory, proxy: ProxyFactory
) -> None:
    link = await proxy()
    client = clients(link.url)
    await answered(client)
    link.delay(0.6, direction="down")
    lease = await make_lock(client).acquire()
    assert lease.remaining <= 30 - 0.6
    await lease.extend(10)
    assert lease.remaining <= 10 - 0.6
    link.pass_through()
    await lease.release()


@single
async def test_grant_that_comes_too_late_is_given_back_and_asked_for_again(
    kind: Kind, clients: ClientFactory, proxy: ProxyFactory, redis: Redis
) -> None:
    link = await proxy()
    client = clients(link.url)
    await answered(client)
    link.hold()

    async def let_through() -> None:
        await link.wait_until(lambda link: link.held > 0)
        await asyncio.sleep(1.5)
        link.release_held()

    late = asyncio.create_task(let_through())
    async with kind.make(client).hold(lease_time=1.5) as lease:
        assert late.done()
        assert await kind.owners(redis) == {lease.owner: 1}
    await late


@single
async def test_grant_that_a_stalled_loop_reads_too_late_is_given_back(
    kind: Kind, clients: ClientFactory, redis: Redis
) -> None:
    client = clients(lease_time=1.5)
    lock = kind.make(client)
    async with lock:
        pass  # Redis knows the scripts from now on, so that one request is enough.
    asking = asyncio.create_task(lock.acquire())
    await asyncio.sleep(0)
    assert client._context.pending
    time.sleep(1.6)  # noqa: ASYNC251  # the fault: it blocks the event loop
    lease = await asking
    lease.check()
    assert await kind.owners(redis) == {lease.owner: 1}
    await lease.release()


async def test_abandoned_hold_is_not_renewed_any_more(
    make_lock: MakeLock,
    clients: ClientFactory,
    redis: Redis,
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = clients()

    async def forget() -> None:
        await make_lock(client).acquire()

    await asyncio.create_task(forget())

    def noticed() -> bool:
        renew_now(client)
        return not client._watchdog.holds

    await until(noticed)
    assert "not renewed any more" in caplog.text
    for name in ("k", "k-2", "k-3"):
        await redis.pexpire(name, 300)
    # Would anybody renew it, it lasted for half a minute.
    renew_now(client)
    async with make_lock(clients()).hold(timeout=20):
        pass


async def test_hold_of_an_ended_task_is_kept_while_its_lease_is(
    make_lock: MakeLock, clients: ClientFactory
) -> None:
    client = clients()
    lock = make_lock(client)
    lease = await asyncio.create_task(lock.acquire())
    for _ in range(4):
        await renewed_at_once(client)
        assert not lease.lost
    await lease.release()
    assert not await lock.locked()


@single
async def test_inspect_tells_who_holds(
    lock: LockLike, make_lock: MakeLock, clients: ClientFactory
) -> None:
    assert (await lock.inspect()).holders == ()
    other = clients(client_name="somebody")
    began = now()
    async with make_lock(other) as lease:
        # What it tells of itself may be on another server than the lock.
        await answered(other)
        (holder,) = (await lock.inspect()).holders
        assert (holder.owner, holder.holds, holder.client_name) == (lease.owner, 1, "somebody")
        assert holder.pid
        assert holder.host
        assert holder.task is None
        assert_left(holder.remaining, 30, began)
        (holder,) = (await make_lock(other).inspect()).holders
        task = asyncio.current_task()
        assert task is not None
        assert holder.task == task.get_name()
    snapshot = await lock.inspect()
    assert snapshot.keys[0] == "k"
    assert snapshot.waiters == ()
