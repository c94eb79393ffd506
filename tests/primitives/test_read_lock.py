"""The read side: leases of their own, renewals that only lengthen, waiting together."""

from __future__ import annotations

import asyncio
from operator import gt

import pytest
from redis.asyncio import Redis

from redisson_py import LeaseLostError, ReadLock, Redisson
from redisson_py.locks.lock_like import LockLike
from tests.fixtures.client import ClientFactory
from tests.primitives.read_write import (
    all_asleep,
    fields,
    held_by_another_task,
    read_write_lock,
    whole,
)
from tests.support.counting import Counted
from tests.support.leases import all_due_now, renew_now, renewed_at_once
from tests.support.waiting import set_safety_poll, until, until_async, until_listening

pytestmark = pytest.mark.also("cluster")


@pytest.fixture
def lock(client: Redisson) -> ReadLock:
    """The read side of one lock."""
    return read_write_lock(client).read_lock()


@pytest.fixture
def far(clients: ClientFactory) -> ReadLock:
    """The same for another client."""
    return read_write_lock(clients()).read_lock()


class TestLeases:
    async def test_a_writer_waits_for_the_last_reader_and_no_longer(
        self,
        lock: ReadLock,
        far: ReadLock,
        clients: ClientFactory,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        # testReadLockExpiration
        set_safety_poll(monkeypatch, 60)
        order: list[str] = []
        first = await held_by_another_task(lock, lease_time=60)
        second = await held_by_another_task(far, lease_time=50)
        other = clients()

        async def write() -> None:
            async with read_write_lock(other).write_lock():
                order.append("writer")

        task = asyncio.create_task(write())
        await until_listening(other)
        for each, name in ((second, "second"), (first, "first")):
            order.append(name)
            await each.let_go()
        async with asyncio.timeout(20):  # sooner than the safety poll and the end of a lease
            await task
        assert order == ["second", "first", "writer"]

    @pytest.mark.parametrize("inside", ["nothing", "a multi lock"])
    async def test_a_lease_of_ones_own_that_was_cut_off_is_repaired_or_reported(
        self, clients: ClientFactory, redis: Redis, inside: str
    ) -> None:
        # Redisson's watchdog cuts it, and nobody mends that when its client dies.
        client = clients()
        lock: LockLike = read_write_lock(client).read_lock()
        if inside == "a multi lock":
            lock = client.get_multi_lock(lock, client.get_lock("other"))
        lease = await lock.acquire(lease_time=60)
        await redis.pexpire("k", 5_000)
        renew_now(client)

        async def mended() -> bool:
            return await redis.pttl("k") > 40_000

        await until_async(mended)
        assert 40 < lease.remaining <= 60
        await redis.delete("k")
        renew_now(client)
        await lease.wait_lost()
        with pytest.raises(LeaseLostError):
            await lock.release()


class TestRenewals:
    async def test_readers_live_on_and_so_does_the_lock(
        self, clients: ClientFactory, redis: Redis
    ) -> None:
        # testReadLockExpirationRenewal, testReadWriteTTL
        client = clients()
        both = read_write_lock(client)
        names = [read_write_lock(client, f"k{n}").read_lock() for n in range(50)]
        async with both.write_lock() as write, both.read_lock() as read:
            leases = await asyncio.gather(*[each.acquire() for each in names])
            for name in ("k", "k0", "k49"):
                await redis.pexpire(name, 9000)
            renew_now(client)

            async def renewed() -> bool:
                return min([await redis.pttl(name) for name in ("k", "k0", "k49")]) > 9000

            await until_async(renewed)
            await both.write_lock().release()
            await renewed_at_once(client)
            assert (await both.read_lock().locked(), await both.read_lock().owned()) == (True, True)
            assert (write.lost, read.lost) == (False, False)
            for lease in leases:
                await lease.release()
        assert client.statistics().losses == 0

    async def test_a_hundred_readers_are_renewed_by_one_script(
        self, clients: ClientFactory, redis: Redis
    ) -> None:
        # None is due while a slow machine still acquires the others.
        client = clients(lease_time=600)
        lock = read_write_lock(client).read_lock()
        others = [await held_by_another_task(lock) for _ in range(100)]
        async with Counted(redis) as counted:
            all_due_now(client)
            granted = [each.lease._ends_at for each in others]
            await until(lambda: all(map(gt, (each.lease._ends_at for each in others), granted)))
        assert counted.calls["evalsha"] == client.statistics().renewals == 1
        for each in others:
            await each.let_go()


class TestWaiting:
    async def test_all_that_waited_for_a_writer_enter_together(
        self,
        lock: ReadLock,
        far: ReadLock,
        clients: ClientFactory,
        redis: Redis,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        # testWriteRead
        set_safety_poll(monkeypatch, 60)
        async with lock, far:
            pass
        write = await read_write_lock(clients()).write_lock().acquire()
        waiting = [
            asyncio.create_task(held_by_another_task(each))
            for each in (lock, far)
            for _ in range(20)
        ]
        for each in (lock, far):
            await all_asleep(whole(each), 20)
        traffic = lock._context.executor.router.stream_for(b"k").traffic
        writes = traffic.writes
        async with Counted(redis) as counted:
            async with asyncio.timeout(20):  # sooner than the safety poll
                await write.release()
                readers = await asyncio.gather(*waiting)
        assert len(await fields(redis)) == 41
        # The release, and a question of each; those of one client leave together. The first two of
        # the queue look once when nothing was heard for a moment.
        assert 41 <= counted.calls["evalsha"] <= 43
        # To Redisson's clients, and to each of ours.
        assert counted.calls["publish"] == 3
        assert writes < traffic.writes <= writes + 2
        for reader in readers:
            await reader.let_go()
