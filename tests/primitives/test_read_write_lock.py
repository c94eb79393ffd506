"""Both sides of a read-write lock: who keeps whom out, down- and upgrades, what a writer reads."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from redisson_py import LeaseLostError, Redisson
from redisson_py._time import now
from redisson_py.locks.read_write_lock import ReadWriteLock
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.primitives.read_write import all_asleep, fields, held_by_another_task, read_write_lock
from tests.support.counting import Counted
from tests.support.leases import assert_left, renewed_at_once
from tests.support.waiting import set_safety_poll, until


class TestWhoKeepsWhomOut:
    async def test_many_readers_and_no_writer(
        self, lock: ReadWriteLock, far: ReadWriteLock
    ) -> None:
        # testMultiRead
        async with lock.read_lock():
            others = [await held_by_another_task(each.read_lock()) for each in (lock, far, far)]
            for each in (lock, far):
                assert await each.read_lock().locked()
                assert not await each.write_lock().locked()
                assert await asyncio.create_task(each.write_lock().try_acquire()) is None
            assert not await far.read_lock().owned()
        for other in others:
            assert await far.write_lock().try_acquire() is None
            await other.let_go()
        async with far.write_lock().hold(timeout=0):
            assert not await lock.read_lock().locked()
        assert not await lock.read_lock().force_release()

    async def test_one_writer_and_nobody_else(
        self, lock: ReadWriteLock, far: ReadWriteLock
    ) -> None:
        # testWriteLock
        write = lock.write_lock()
        async with write:
            async with write:
                assert (await write.hold_count(), await write.owned()) == (2, True)
                assert await far.write_lock().locked()
                assert not await far.write_lock().owned()
                for each in (lock, far):
                    for side in (each.read_lock(), each.write_lock()):
                        assert await asyncio.create_task(side.try_acquire()) is None
                async with lock.read_lock():
                    assert await lock.read_lock().hold_count() == 1
            assert await far.read_lock().try_acquire() is None
        assert not await far.write_lock().locked()
        await write.acquire()
        assert await far.write_lock().force_release()
        assert not await write.locked()
        with pytest.raises(LeaseLostError):
            await write.release()

    @pytest.mark.usefixtures("one_server")
    @pytest.mark.parametrize("name", ["k", "{test}:abc:key", "a{b", b"\xff\x00{"])
    async def test_names_with_braces_and_bytes(
        self, client: Redisson, clients: ClientFactory, redis: Redis, name: str | bytes
    ) -> None:
        # testName; testInCluster: what it does, with a name whose keys share one slot
        lock, far = read_write_lock(client, name), read_write_lock(clients(), name)
        assert lock.name == lock.read_lock().name == name
        assert lock.key == (name if isinstance(name, bytes) else name.encode())
        assert repr(lock) == f"<ReadWriteLock {name!r}>"
        async with lock.write_lock():
            async with lock.read_lock():
                assert await far.read_lock().try_acquire() is None
            assert await far.read_lock().try_acquire() is None
        async with lock.read_lock(), far.read_lock():
            assert len(await redis.keys("*:rwlock_timeout:*")) == 2
        assert await redis.keys("*rwlock*") == []

    async def test_a_forced_release_is_for_one_side(
        self, lock: ReadWriteLock, far: ReadWriteLock
    ) -> None:
        # testForceUnlock
        assert not await far.read_lock().force_release()
        assert not await far.write_lock().force_release()
        async with lock.read_lock() as reading:
            assert not await far.write_lock().force_release()
            assert not reading.lost
        async with lock.write_lock() as writing:
            assert not await far.read_lock().force_release()
            assert not writing.lost
        await lock.read_lock().acquire()
        assert await lock.read_lock().force_release()
        with pytest.raises(LeaseLostError):
            await lock.read_lock().release()
        async with far.write_lock().hold(timeout=0):
            pass

    async def test_a_forced_release_of_a_writer_ends_its_reads(
        self, lock: ReadWriteLock, redis: Redis
    ) -> None:
        write = await lock.write_lock().acquire()
        read = await lock.read_lock().acquire()
        assert await lock.write_lock().force_release()
        assert (write.lost, read.lost) == (True, True)
        assert await fields(redis) == {}
        for side in (lock.read_lock(), lock.write_lock()):
            with pytest.raises(LeaseLostError):
                await side.release()


class TestOneTaskOnBothSides:
    @pytest.mark.parametrize("first", ["read", "write"])
    async def test_a_writer_that_reads_lets_readers_in_and_no_writer(
        self, lock: ReadWriteLock, far: ReadWriteLock, redis: Redis, first: str
    ) -> None:
        # testWriteReadReentrancy, testWR
        write = await lock.write_lock().acquire()
        read = await lock.read_lock().acquire()
        for side in (far.read_lock(), far.write_lock()):
            assert await side.try_acquire() is None
        if first == "read":
            assert read.owner == write.owner
            await lock.read_lock().release()
            assert (await lock.write_lock().owned(), await lock.read_lock().owned()) == (
                True,
                False,
            )
            assert await far.read_lock().try_acquire() is None
            read = await lock.read_lock().acquire()
        await lock.write_lock().release()
        assert await fields(redis) == {"mode": "read", read.owner: "1"}
        assert await far.write_lock().try_acquire() is None
        async with far.read_lock().hold(timeout=0):
            await lock.read_lock().release()
            assert await far.read_lock().locked()
        async with far.write_lock().hold(timeout=0):
            pass

    async def test_the_sides_are_distinguished(
        self, lock: ReadWriteLock, far: ReadWriteLock
    ) -> None:
        # testReadLockIsLocked; parity.md A14: Redisson's async isLocked knows no sides
        async def seen() -> list[tuple[bool, int]]:
            sides = [(far.read_lock(), lock.read_lock()), (far.write_lock(), lock.write_lock())]
            return [(await theirs.locked(), await mine.hold_count()) for theirs, mine in sides]

        assert await seen() == [(False, 0), (False, 0)]
        async with lock.write_lock():
            assert await seen() == [(False, 0), (True, 1)]
            await lock.read_lock().acquire()
            assert await seen() == [(True, 1), (True, 1)]
        assert await seen() == [(True, 1), (False, 0)]
        await lock.read_lock().release()
        assert await seen() == [(False, 0), (False, 0)]

    async def test_a_downgrade_wakes_the_readers_that_wait(
        self,
        lock: ReadWriteLock,
        far: ReadWriteLock,
        redis: Redis,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        # parity.md B25: Redisson tells nobody, and they sleep until their poll.
        set_safety_poll(monkeypatch, 60)
        await lock.write_lock().acquire()
        await lock.read_lock().acquire()
        waiting = [asyncio.create_task(held_by_another_task(far.read_lock())) for _ in range(5)]
        await all_asleep(far, 5)
        async with asyncio.timeout(20):  # sooner than the safety poll
            await lock.write_lock().release()
            got = await asyncio.gather(*waiting)
        assert await lock.read_lock().owned()
        assert len(await fields(redis)) == 7
        for each in got:
            await each.let_go()
        await lock.read_lock().release()

    @pytest.mark.parametrize("wait", ["acquire", "try_acquire", "with a line"])
    async def test_an_upgrade_is_refused_at_once(
        self, lock: ReadWriteLock, far: ReadWriteLock, redis: Redis, wait: str
    ) -> None:
        # parity.md B25: in Redisson it would wait for itself.
        write = lock.write_lock()
        others = await held_by_another_task(far.read_lock())
        waiting = None
        if wait == "with a line":
            waiting = asyncio.create_task(held_by_another_task(write))
            await until(lambda: write.statistics().waiters == 1)
        async with lock.read_lock():
            async with Counted(redis) as counted:
                with pytest.raises(RuntimeError, match="release the read lock first"):
                    await (write.try_acquire() if wait == "try_acquire" else write.acquire())
            assert "evalsha" not in counted.calls
            assert await lock.read_lock().owned()
        await others.let_go()
        if waiting is not None:
            await (await waiting).let_go()
        async with write, lock.read_lock(), write:
            pass


class TestLooking:
    async def test_inspect_lists_readers_and_the_writer(
        self, lock: ReadWriteLock, clients: ClientFactory
    ) -> None:
        other = clients(client_name="other")
        far = read_write_lock(other)
        free = await lock.inspect()
        assert (free.holders, free.writer, free.readers, free.keys) == ((), None, (), ("k",))
        task = asyncio.current_task()
        assert task is not None
        began = now()
        async with far.read_lock(), lock.read_lock().hold(lease_time=100) as lease:
            seen = await lock.inspect()
            assert seen.writer is None
            assert seen.holders == seen.readers
            mine, theirs = sorted(seen.readers, key=lambda each: each.owner != lease.owner)
            assert (mine.owner, mine.holds, mine.task) == (lease.owner, 1, task.get_name())
            assert_left(mine.remaining, 100, began)
            assert (theirs.client_name, theirs.task) == ("other", None)
            assert_left(theirs.remaining, 30, began)
            others_view = (await far.read_lock().inspect()).holders
            assert {each.owner for each in others_view} == {mine.owner, theirs.owner}
            assert (await far.write_lock().inspect()).holders == ()
        began = now()
        async with far.write_lock() as writing, far.write_lock(), far.read_lock():
            seen = await lock.inspect()
            assert seen.writer is not None
            assert (seen.writer.owner, seen.writer.holds) == (writing.owner, 2)
            assert_left(seen.writer.remaining, 30, began)
            assert [reader.owner for reader in seen.readers] == [writing.owner]
            assert seen.holders == (seen.writer, *seen.readers)
            (writer,) = (await lock.write_lock().inspect()).holders
            assert writer.owner == writing.owner


@pytest.mark.also("cluster")
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


@pytest.mark.also("cluster")
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

    async def test_a_hold_under_which_a_read_was_uncertain_is_not_passed(
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


@pytest.mark.also("cluster")
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

    @pytest.mark.parametrize("answered", [True, False])
    async def test_a_read_that_has_ended_keeps_no_write_whose_lease_was_cut(
        self, clients: ClientFactory, redis: Redis, answered: bool
    ) -> None:
        lock = read_write_lock(clients())
        write = await lock.write_lock().acquire()
        read = await lock.read_lock().acquire()
        cut = asyncio.create_task(write.extend(5))
        if answered:
            await cut
        else:
            await asyncio.sleep(0)
        await read.release()
        await cut
        # On the same connection, after whatever the release has sent.
        assert await lock.write_lock().hold_count() == 1
        assert 0 < await redis.pttl("k") <= 5000
        await write.release()
