"""The write side: what reading under a write hold changes, leases, expiry."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from redisson_py import LeaseLostError
from redisson_py.locks.read_write_lock import ReadWriteLock
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.primitives.read_write import (
    all_asleep,
    fields,
    held_by_another_task,
    read_write_lock,
)
from tests.support.counting import Counted
from tests.support.leases import granted_in_time, renewed_at_once
from tests.support.waiting import until

pytestmark = pytest.mark.also("cluster")


class TestCosts:
    async def test_a_hand_off_to_a_writer_is_one_message_and_one_question(
        self, lock: ReadWriteLock, far: ReadWriteLock, redis: Redis
    ) -> None:
        for each in (lock, far):
            async with each.write_lock():
                pass
        reads = [await held_by_another_task(lock.read_lock()) for _ in range(20)]
        waiting = asyncio.create_task(far.write_lock().acquire())
        await all_asleep(far, 1)
        async with Counted(redis) as counted:
            for read in reads:
                await read.let_go()
            lease = await waiting
        # The first of the queue looks once when nothing was heard for a moment.
        assert 21 <= counted.calls["evalsha"] <= 22
        # To Redisson's clients, and to the writer.
        assert counted.calls["publish"] == 2
        await lease.release()


class TestPassing:
    @pytest.mark.parametrize("reads", ["", "held", "asked for", "released"])
    async def test_a_hold_is_passed_unless_its_task_reads(
        self, clients: ClientFactory, redis: Redis, reads: str
    ) -> None:
        client = clients(turn=30)
        lock = read_write_lock(client)
        mine = await lock.write_lock().acquire()
        others = asyncio.create_task(held_by_another_task(lock.write_lock()))
        await until(lambda: lock.write_lock().statistics().waiters == 1)
        if reads in ("held", "released"):
            await lock.read_lock().acquire()
        if reads == "released":
            await lock.read_lock().release()
        if reads == "asked for":
            # Released by another task, when the question has left and is not answered.
            releasing = asyncio.create_task(mine.release())
            await lock.read_lock().acquire()
            await releasing
        else:
            await mine.release()
        if reads in ("held", "asked for"):
            assert await fields(redis) == {"mode": "read", mine.owner: "1"}
            assert lock.write_lock().statistics().waiters == 1
            await lock.read_lock().release()
        theirs = await others
        assert (theirs.lease.owner == mine.owner) == (reads in ("", "released"))
        await theirs.let_go()

    async def test_a_task_that_was_passed_the_hold_may_read_under_it(
        self, clients: ClientFactory, far: ReadWriteLock
    ) -> None:
        client = clients(turn=30)
        lock = read_write_lock(client)

        async def write_and_read() -> None:
            async with lock.write_lock() as write:
                async with lock.read_lock() as read:
                    assert read.owner == write.owner

        await asyncio.gather(*[write_and_read() for _ in range(4)])
        async with far.write_lock().hold(timeout=10):
            pass

    async def test_a_hold_under_which_a_read_was_in_doubt_is_not_passed(
        self, clients: ClientFactory, proxy: ProxyFactory
    ) -> None:
        link = await proxy()
        client = clients(link.url, turn=30)
        lock = read_write_lock(client)
        mine = await lock.write_lock().acquire()
        link.cut_after_execution(b"EVALSHA")
        async with lock.read_lock():
            pass
        others = asyncio.create_task(held_by_another_task(lock.write_lock()))
        await until(lambda: lock.write_lock().statistics().waiters == 1)
        await lock.write_lock().release()
        theirs = await others
        assert theirs.lease.owner != mine.owner
        await theirs.let_go()


class TestLeases:
    async def test_a_long_read_survives_the_writers_renewals_and_its_end(
        self, clients: ClientFactory, redis: Redis
    ) -> None:
        # parity.md A3: the long reader that a watchdog cut short loses the lock in silence.
        client = clients(lease_time=5)
        lock = read_write_lock(client)
        await lock.write_lock().acquire()
        read = await lock.read_lock().acquire(lease_time=20)
        await renewed_at_once(client, 3)
        assert await redis.pttl("k") > 10_000
        await lock.write_lock().acquire()
        await lock.write_lock().release()
        assert await redis.pttl("k") > 10_000
        await lock.write_lock().release()
        assert await redis.pttl("k") > 10_000
        assert read.remaining > 10
        await read.release()

    async def test_a_shorter_lease_for_writing_is_none_for_reading(
        self, lock: ReadWriteLock, far: ReadWriteLock, redis: Redis
    ) -> None:
        write = await lock.write_lock().acquire()
        read = await lock.read_lock().acquire(lease_time=20)
        await write.extend(0.2)
        assert await redis.pttl("k") > 10_000
        await write.wait_lost()
        assert not read.lost
        # What it reads keeps the hash alive; others may read all the same, and nobody writes.
        async with far.read_lock().hold(timeout=10):
            assert await asyncio.create_task(far.write_lock().try_acquire()) is None
            assert not read.lost
        with pytest.raises(LeaseLostError):
            await lock.write_lock().release()
        await read.release()
        async with far.write_lock().hold(timeout=0):
            pass

    async def test_a_short_read_ends_without_the_writer(
        self, lock: ReadWriteLock, far: ReadWriteLock
    ) -> None:
        async with lock.write_lock() as write:
            read = await granted_in_time(lambda: lock.read_lock().acquire(lease_time=0.1))
            await read.wait_lost()
            assert not write.lost
            assert not await lock.read_lock().owned()
            with pytest.raises(LeaseLostError):
                await lock.read_lock().release()
            async with lock.read_lock():
                assert await lock.read_lock().hold_count() == 1
            assert await far.read_lock().try_acquire() is None
        async with far.write_lock().hold(timeout=0):
            pass
