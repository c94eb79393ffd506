"""Waiting, and being refused, for everything that can be held."""

from __future__ import annotations

import asyncio

import pytest

from redisson_py import (
    AcquireTimeoutError,
    LeaseLostError,
    Redisson,
)
from redisson_py.locks.lock_like import LockLike
from tests.contract.conftest import (
    central,
    exclusive,
    exclusive_locks,
    for_kinds,
    locks,
    timed,
)
from tests.contract.servers import Servers
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.support.kinds import MakeLock
from tests.support.last_look import answered_in_time
from tests.support.leases import granted_in_time
from tests.support.waiting import set_safety_poll, until

pytestmark = pytest.mark.also("cluster", "sentinel", "stores-uvloop")


async def test_try_acquire_is_none_when_busy(
    lock: LockLike, make_rival: MakeLock, clients: ClientFactory, servers: Servers
) -> None:
    second = clients()
    # Connected first: a busy machine may need long for that.
    await servers.answered(second)
    theirs = make_rival(second)
    async with lock:
        assert await theirs.try_acquire() is None
        assert await answered_in_time(lambda: theirs.try_acquire(timeout=0.5)) is None
        # A database locks the row while the wait is undone, and is busy until then.
        await until(lambda: not second._context.pending)
    lease = await theirs.try_acquire()
    assert lease is not None
    await lease.release()


async def test_acquire_times_out(
    lock: LockLike, make_rival: MakeLock, clients: ClientFactory, servers: Servers
) -> None:
    second = clients()
    # Connected first: otherwise, on a busy machine, the error may be about the connection.
    await servers.answered(second)
    theirs = make_rival(second)
    async with lock:
        began = 0.0

        async def wait() -> None:
            nonlocal began
            began = asyncio.get_running_loop().time()
            await theirs.acquire(timeout=0.5)

        with pytest.raises(AcquireTimeoutError):
            await answered_in_time(wait)
        # uvloop's clock has milliseconds, which are not exact as floats.
        assert asyncio.get_running_loop().time() - began >= 0.5 - 1e-6
        with pytest.raises(TimeoutError, match=r"busy|free within"):
            await theirs.acquire(timeout=0)
        assert theirs.statistics().held_leases == 0


@exclusive
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


@exclusive
async def test_sections_of_many_clients_are_all_counted(
    make_lock: MakeLock, clients: ClientFactory
) -> None:
    count = 0

    async def work(lock: LockLike) -> None:
        nonlocal count
        for _ in range(5):
            async with lock:
                seen = count
                await asyncio.sleep(0)
                count = seen + 1

    made = [make_lock(clients()) for _ in range(4)]
    await asyncio.gather(*[work(lock) for lock in made for _ in range(3)])
    assert count == 60


@exclusive
async def test_a_busy_client_lets_others_in(make_lock: MakeLock, clients: ClientFactory) -> None:
    busy, other = make_lock(clients()), make_lock(clients())
    done = asyncio.Event()

    async def work() -> None:
        while not done.is_set():
            async with busy:
                await asyncio.sleep(0)

    greedy = [asyncio.create_task(work()) for _ in range(4)]
    try:
        async with asyncio.timeout(60):
            for _ in range(3):
                async with other:
                    pass
    finally:
        done.set()
        await asyncio.gather(*greedy)


@exclusive
async def test_local_waiters_are_served_in_order(
    lock: LockLike, client: Redisson, servers: Servers
) -> None:
    served: list[int] = []

    async def work(number: int) -> None:
        async with lock:
            served.append(number)

    async with asyncio.TaskGroup() as group:
        async with lock:
            for number in range(20):
                group.create_task(work(number))
                await servers.until_waiting(client, number + 1)
    assert served == list(range(20))


@exclusive_locks
async def test_after_the_release_it_is_the_next_tasks(
    lock: LockLike, client: Redisson, servers: Servers
) -> None:
    async def next_one() -> bool:
        async with lock:
            return await lock.owned()

    async with lock:
        waiting = asyncio.create_task(next_one())
        await servers.until_waiting(client, 1)
        assert not waiting.done()
    assert not await lock.owned()
    assert await waiting
    assert not await lock.locked()


@locks
async def test_force_release_wakes_waiters(
    lock: LockLike, make_rival: MakeLock, clients: ClientFactory, servers: Servers
) -> None:
    other = clients()
    lease = await lock.acquire()
    waiting = asyncio.create_task(make_rival(other).acquire())
    await servers.until_listening(other)
    assert await lock.force_release()
    async with await waiting:
        pass
    assert lease.lost


async def test_release_wakes_a_waiter_of_another_client(
    lock: LockLike,
    make_rival: MakeLock,
    clients: ClientFactory,
    servers: Servers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_safety_poll(monkeypatch, 600)  # which would find it too, and so would the end of the lease
    other = clients()
    async with lock:
        waiting = asyncio.create_task(make_rival(other).acquire())
        await servers.until_listening(other)
    async with asyncio.timeout(25):
        lease = await waiting
    await lease.release()


@timed
async def test_waiter_gets_it_when_the_lease_ends_without_a_message(
    lock: LockLike,
    make_rival: MakeLock,
    clients: ClientFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_safety_poll(monkeypatch, 60)  # which would find it too, as would the look before a timeout
    other = clients()
    lease = await granted_in_time(lambda: lock.acquire(lease_time=0.2))
    async with asyncio.timeout(20):
        gained = await make_rival(other).acquire()
    # The holder learned it before the server let another client in.
    assert lease.lost
    await gained.release()
    with pytest.raises(LeaseLostError):
        await lease.release()


@for_kinds(lambda kind: kind.timed and kind.rival is None)
async def test_expired_lease_is_the_next_tasks(lock: LockLike) -> None:
    lease = await granted_in_time(lambda: lock.acquire(lease_time=0.3))
    gained = await asyncio.create_task(lock.acquire(timeout=20))
    assert lease.lost
    with pytest.raises(LeaseLostError):
        await lease.release()
    assert not gained.lost
    await gained.release()


@central
async def test_release_while_the_waiter_was_cut_off_is_not_missed(
    make_lock: MakeLock,
    make_rival: MakeLock,
    clients: ClientFactory,
    proxy: ProxyFactory,
    servers: Servers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_safety_poll(monkeypatch, 60)
    link = await proxy()
    waiter = clients(link.url)
    lease = await make_rival(clients()).acquire()
    waiting = asyncio.create_task(make_lock(waiter).acquire(timeout=50))
    await servers.until_listening(waiter)
    link.refuse()
    link.cut()
    await lease.release()
    link.pass_through()
    async with asyncio.timeout(20):  # before the safety poll
        await (await waiting).release()
