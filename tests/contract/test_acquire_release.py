"""Acquire, try, hold and release, on every lock-like thing."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import pytest
from redis.asyncio import Redis

from redisson_py import (
    ClientClosedError,
    Lease,
    LeaseLostError,
    NotHeldError,
    Redisson,
)
from redisson_py._time import now
from redisson_py.locks.lock_like import LockLike
from tests.contract.conftest import (
    Each,
    Every,
    is_central,
    is_single,
    locks,
    single,
    timed,
)
from tests.contract.servers import Servers
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.support.kinds import Kind, MakeLock, member_names
from tests.support.leases import assert_left, renewed_at_once
from tests.support.waiting import until

pytestmark = pytest.mark.also("cluster", "sentinel", "stores-uvloop", "floor")


async def test_block_holds_and_releases(lock: LockLike, client: Redisson, servers: Servers) -> None:
    began = now()
    async with lock as lease:
        assert lease
        assert await lock.locked()
        assert lease.name == lock.name
        assert "k" in str(lock.name)
        assert lease.owner.partition(":")[0] in [each.id for each in servers.clients(client)]
        assert_left(lease.remaining, 30, began)
        lease.check()
    assert not await lock.locked()
    assert (lease.remaining, lease.lost) == (0.0, False)


@locks
async def test_looks_are_answered_for_the_task_that_asks(
    lock: LockLike, make_lock: MakeLock, clients: ClientFactory, servers: Servers
) -> None:
    far = make_lock(clients())

    async def looks() -> tuple[bool, bool, int]:
        return await lock.locked(), await lock.owned(), await lock.hold_count()

    for _ in range(2):
        assert await looks() == (False, False, 0)
        assert await lock.remaining() is None
        began = now()
        await lock.acquire()
        assert await looks() == (True, True, 1)
        servers.assert_left(await lock.remaining(), 30, began)
        assert await asyncio.create_task(looks()) == (True, False, 0)
        assert (await far.locked(), await far.owned()) == (True, False)
        await lock.release()
    assert await looks() == (False, False, 0)


@timed
async def test_hold_takes_options(lock: LockLike) -> None:
    began = now()
    async with lock.hold(timeout=30, lease_time=timedelta(seconds=5)) as lease:
        assert lease.remaining < 5
        assert_left(lease.remaining, 5, began)
    assert not await lock.locked()


@locks
async def test_the_server_has_the_lease_time(lock: LockLike, servers: Servers) -> None:
    for lease_time, seconds in ((3600, 3600), (5, 5), (None, 30)):
        began = now()
        async with lock.hold(lease_time=lease_time):
            servers.assert_left(await lock.remaining(), seconds, began)
        assert await lock.remaining() is None


async def test_hold_block_can_be_used_again(lock: LockLike) -> None:
    block = lock.hold(timeout=30)
    for _ in range(2):
        async with block:
            assert await lock.locked()
            with pytest.raises(RuntimeError, match="in use"):
                await block.__aenter__()
    assert not await lock.locked()


async def test_any_task_releases_a_lease_but_only_once(lock: LockLike) -> None:
    lease = await lock.acquire()

    async def release() -> None:
        await lease.release()

    await asyncio.create_task(release())
    assert not await lock.locked()
    with pytest.raises(NotHeldError):
        await lease.release()
    with pytest.raises(NotHeldError):
        await lease.extend(1)


@locks
async def test_release_belongs_to_the_task_that_holds(lock: LockLike) -> None:
    async def stranger() -> None:
        with pytest.raises(NotHeldError):
            await lock.release()
        assert not await lock.owned()

    async with lock as lease:
        await asyncio.create_task(stranger())
        assert await lock.owned()
        await asyncio.create_task(lease.release())
        with pytest.raises(NotHeldError):
            await lock.release()


@locks
async def test_release_after_loss_says_lost_once(lock: LockLike) -> None:
    lease = await lock.acquire()
    assert await lock.force_release()
    assert lease.lost
    with pytest.raises(LeaseLostError):
        lease.check()
    with pytest.raises(LeaseLostError) as caught:
        await lock.release()
    assert caught.value.name == lock.name
    assert caught.value.reason == "forced"
    assert caught.value.held_for >= 0
    with pytest.raises(NotHeldError):
        await lock.release()


async def test_names_do_not_disturb_each_other(
    make_lock: MakeLock, client: Redisson, servers: Servers
) -> None:
    # In a semaphore's name, tests find what may last.
    named = [make_lock(client, f"semaphore-{number}") for number in range(20)]
    leases = await asyncio.gather(*[lock.acquire() for lock in named])
    assert client.statistics().held_leases == 20 * servers.kind.members
    await asyncio.gather(*[lease.release() for lease in leases])
    for lock in named:
        assert not await lock.locked()


async def test_lease_as_a_block(lock: LockLike) -> None:
    async with await lock.acquire() as lease:
        assert lease.remaining > 0
        assert await lock.locked()
    assert not await lock.locked()


@locks
async def test_force_release_frees_it_from_anybody(
    lock: LockLike, make_lock: MakeLock, client: Redisson, clients: ClientFactory
) -> None:
    operator = make_lock(clients())
    assert not await operator.force_release()
    lease = await lock.acquire()
    assert await operator.force_release()
    assert not await operator.force_release()
    for handle in (lock, make_lock(client), operator):
        assert not await handle.locked()
    async with operator:
        with pytest.raises(LeaseLostError):
            await lease.release()
        assert await operator.owned()


async def test_a_closed_client_says_so(
    make_lock: MakeLock, clients: ClientFactory, servers: Servers
) -> None:
    client = clients()
    lock = make_lock(client)
    async with lock:
        pass
    for each in servers.clients(client):
        await each.aclose()
    for call in (lock.acquire, lock.try_acquire, lock.locked):
        with pytest.raises(ClientClosedError):
            await call()


async def test_lease_counts_from_before_it_was_asked_for(every: Every, proxy: ProxyFactory) -> None:
    link = await proxy()
    # A store that asks several times for one lock waits for each answer.
    locks = [each.lock for each in every(is_central, url=link.url, command_timeout=30)]
    for lock in locks:
        assert not await lock.locked()
    link.delay(0.6, direction="down")
    leases = await asyncio.gather(*[lock.acquire() for lock in locks])
    assert [lease for lease in leases if lease.remaining > 30 - 0.6] == []
    await asyncio.gather(*[lease.extend(10) for lease in leases])
    assert [lease for lease in leases if lease.remaining > 10 - 0.6] == []
    link.pass_through()
    for lease in leases:
        await lease.release()


@pytest.mark.more
async def test_grant_that_comes_too_late_is_given_back_and_asked_for_again(
    every: Every, proxy: ProxyFactory
) -> None:
    link = await proxy()
    kinds = every(is_single, url=link.url)
    for each in kinds:
        await each.servers.answered(each.client)
    link.hold()
    asking = [asyncio.create_task(each.lock.acquire(lease_time=3)) for each in kinds]
    await link.wait_until(lambda link: link.held >= len(kinds))
    await asyncio.sleep(3)
    assert not any(task.done() for task in asking)
    link.release_held()
    # Each as soon as it is granted: nobody renews a lease of three seconds.
    await asyncio.gather(
        *[assert_good(each, task) for each, task in zip(kinds, asking, strict=True)]
    )


async def assert_good(each: Each, asking: asyncio.Task[Lease]) -> None:
    """Fail unless the lease granted is all that the server has of a lock; release it."""
    lease = await asking
    lease.check()
    await each.servers.assert_held(each.kind.shown or lease.owner, name=each.name)
    await lease.release()


@pytest.mark.more
async def test_grant_that_a_stalled_loop_reads_too_late_is_given_back(
    every: Every,
) -> None:
    kinds = every(is_single, lease_time=3)
    for each in kinds:
        async with each.lock:
            pass  # Redis knows the scripts from now on, so that one request is enough.
    asking = [asyncio.create_task(each.lock.acquire()) for each in kinds]
    await asyncio.sleep(0)
    assert all(each.client._context.pending for each in kinds)
    time.sleep(3.1)  # noqa: ASYNC251  # the fault: it blocks the event loop
    await asyncio.gather(
        *[assert_good(each, task) for each, task in zip(kinds, asking, strict=True)]
    )


@locks
async def test_abandoned_hold_is_not_renewed_any_more(
    kind: Kind,
    servers: Servers,
    make_lock: MakeLock,
    make_rival: MakeLock,
    clients: ClientFactory,
    caplog: pytest.LogCaptureFixture,
) -> None:
    # Redis is told to end it soon; other stores end it by themselves.
    client = clients(lease_time=30 if servers.all else 3)

    async def forget() -> None:
        await make_lock(client).acquire()

    await asyncio.create_task(forget())

    def noticed() -> bool:
        servers.renew_now(client)
        return not any(each._watchdog.holds for each in servers.clients(client))

    await until(noticed)
    assert "is no longer renewed" in caplog.text
    for redis in servers.all:
        for name in member_names(kind.key(), kind.members):
            await redis.pexpire(name, 300)
    # If it were renewed, it would last for as long as this waits.
    servers.renew_now(client)
    async with make_rival(clients()).hold(timeout=20):
        pass


async def test_hold_of_an_ended_task_is_kept_while_its_lease_is(
    servers: Servers, make_lock: MakeLock, clients: ClientFactory
) -> None:
    client = clients()
    lock = make_lock(client)
    lease = await asyncio.create_task(lock.acquire())
    # The last server of a red lock may answer after the others.
    await until(lambda: all(each.statistics().held_leases for each in servers.clients(client)))
    for _ in range(4):
        await asyncio.gather(*[renewed_at_once(each) for each in servers.clients(client)])
        assert not lease.lost
    await lease.release()
    assert not await lock.locked()


@single
async def test_inspect_names_the_holder(
    lock: LockLike, make_lock: MakeLock, clients: ClientFactory, servers: Servers, kind: Kind
) -> None:
    assert (await lock.inspect()).holders == ()
    other = clients(**({"client_name": "somebody"} if servers.all else {}))
    began = now()
    async with make_lock(other) as lease:
        # The description of the client may be on another server than the lock.
        await servers.answered(other)
        (holder,) = (await lock.inspect()).holders
        assert (holder.owner, holder.holds, holder.task) == (kind.shown or lease.owner, 1, None)
        servers.assert_left(holder.remaining, 30, began)
        if servers.all:
            # Other stores do not describe clients.
            assert holder.client_name == "somebody"
            assert holder.pid
            assert holder.host
        (holder,) = (await make_lock(other).inspect()).holders
        task = asyncio.current_task()
        assert task is not None
        assert holder.task == task.get_name()
    snapshot = await lock.inspect()
    assert "k" in snapshot.keys[0]
    # None: it does not record who waits.
    assert not snapshot.waiters


@pytest.mark.parametrize("kind", ["lock", "fair_lock"], indirect=True)
async def test_inspect_shows_what_others_wrote_as_far_as_it_is_text(
    lock: LockLike, redis: Redis
) -> None:
    await redis.hset("k", mapping={b"\xff:7": "two"})
    (holder,) = (await lock.inspect()).holders
    assert (holder.owner, holder.holds) == ("\N{REPLACEMENT CHARACTER}:7", 0)
    await redis.delete("k")
