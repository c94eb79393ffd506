"""The read-write lock in etcd and ZooKeeper: readers and writers on a real server."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from redisson_py import AcquireTimeoutError
from redisson_py.zookeeper import StoreReadWriteLock
from tests.fixtures.backends import Running
from tests.stores.backends import Backend
from tests.stores.conftest import NewClient
from tests.stores.faults_scene import SOON
from tests.stores.read_write_support import STORES, Client, enter, held, waits
from tests.support.waiting import until, until_waiting

pytestmark = pytest.mark.usefixtures("no_polls")


@pytest.fixture(params=STORES)
def backend(request: pytest.FixtureRequest, running_backend: Running) -> Backend:
    return running_backend(request.param)


@pytest.fixture
def lock(client: Client) -> StoreReadWriteLock:
    return client.get_read_write_lock("k")


@pytest.fixture
def theirs(other: Client) -> StoreReadWriteLock:
    """The same lock, of another client."""
    return other.get_read_write_lock("k")


@pytest.fixture
def passing(new_client: NewClient) -> Client:
    """A client that passes holds on, however slow the machine is."""
    made = new_client(turn=SOON)
    assert isinstance(made, Client)
    return made


async def test_readers_hold_it_together(
    lock: StoreReadWriteLock, theirs: StoreReadWriteLock
) -> None:
    read, write = lock.read_lock(), lock.write_lock()
    async with read, held(read), theirs.read_lock(), held(theirs.read_lock()):
        assert len((await lock.inspect()).readers) == 4
        assert await asyncio.create_task(write.try_acquire()) is None
        assert await asyncio.create_task(theirs.write_lock().try_acquire()) is None
    async with asyncio.timeout(SOON), write:
        assert await write.owned()


async def test_a_writer_is_alone(lock: StoreReadWriteLock, theirs: StoreReadWriteLock) -> None:
    async with lock.write_lock():
        for side in (lock.read_lock(), lock.write_lock(), theirs.read_lock(), theirs.write_lock()):
            assert await asyncio.create_task(side.try_acquire()) is None
    for one in (theirs.read_lock(), theirs.write_lock()):
        lease = await one.try_acquire()
        assert lease is not None
        await lease.release()


async def test_a_reader_behind_a_waiting_writer_waits(
    lock: StoreReadWriteLock, theirs: StoreReadWriteLock, new_client: NewClient
) -> None:
    third: Any = new_client()
    late = third.get_read_write_lock("k")
    entered: list[str] = []
    first = await lock.read_lock().acquire()
    writer = enter(theirs.write_lock(), entered, "writer")
    await waits(lock, 1)
    reader = enter(late.read_lock(), entered, "reader")
    await waits(lock, 2)
    assert await late.read_lock().try_acquire() is None
    assert not entered
    await first.release()
    async with asyncio.timeout(SOON):
        await asyncio.gather(writer, reader)
    assert entered == ["writer", "reader"]


async def test_a_writer_waits_for_all_readers_before_it(
    lock: StoreReadWriteLock, theirs: StoreReadWriteLock
) -> None:
    first, second = await lock.read_lock().acquire(), await theirs.read_lock().acquire()
    writer = asyncio.create_task(theirs.write_lock().acquire())
    await waits(lock, 1)
    await second.release()
    seen = await lock.inspect()
    assert [each.owner for each in seen.readers] == [first.owner]
    assert len(seen.waiters or ()) == 1
    assert not writer.done()
    await first.release()
    async with asyncio.timeout(SOON):
        await (await writer).release()


async def test_readers_that_waited_come_in_together(
    lock: StoreReadWriteLock, theirs: StoreReadWriteLock, other: Client
) -> None:
    together = asyncio.Barrier(5)

    async def read() -> None:
        async with theirs.read_lock():
            await together.wait()

    async with lock.write_lock():
        readers = [asyncio.create_task(read()) for _ in range(5)]
        await waits(lock, 5)
        assert other.statistics().waiters == 5
    async with asyncio.timeout(SOON):
        await asyncio.gather(*readers)


async def test_a_downgrade_lets_no_waiting_writer_in(
    lock: StoreReadWriteLock, theirs: StoreReadWriteLock, new_client: NewClient
) -> None:
    third: Any = new_client()
    writing = await lock.write_lock().acquire()
    writer = asyncio.create_task(theirs.write_lock().acquire())
    await waits(lock, 1)
    # The writer came before this read.
    async with asyncio.timeout(SOON):
        reading = await lock.read_lock().acquire()
    seen = await lock.inspect()
    assert seen.writer is not None
    assert (seen.writer.owner, [each.owner for each in seen.readers]) == (
        writing.owner,
        [reading.owner],
    )
    await writing.release()
    seen = await lock.inspect()
    assert seen.writer is None
    assert [each.owner for each in seen.readers] == [reading.owner]
    assert await third.get_read_write_lock("k").write_lock().try_acquire() is None
    assert not writer.done()
    await reading.release()
    async with asyncio.timeout(SOON):
        await (await writer).release()


async def test_a_writer_reads_without_waiting(
    lock: StoreReadWriteLock, theirs: StoreReadWriteLock
) -> None:
    async with lock.write_lock():
        writer = asyncio.create_task(theirs.write_lock().acquire())
        await waits(lock, 1)
        reading = await lock.read_lock().try_acquire()
        assert reading is not None
        assert await asyncio.create_task(lock.read_lock().try_acquire()) is None
        await reading.release()
    async with asyncio.timeout(SOON):
        await (await writer).release()


async def test_others_read_after_a_downgrade(
    lock: StoreReadWriteLock, theirs: StoreReadWriteLock
) -> None:
    async with lock.write_lock() as writing:
        waiting = asyncio.create_task(theirs.read_lock().acquire())
        await waits(lock, 1)
        async with lock.read_lock():
            assert not waiting.done()
            await writing.release()
            async with asyncio.timeout(SOON):
                await (await waiting).release()
            assert await theirs.write_lock().try_acquire() is None


async def test_a_downgrade_passes_nothing_on(passing: Client) -> None:
    lock = passing.get_read_write_lock("k")
    writing = await lock.write_lock().acquire()
    reading = await lock.read_lock().acquire()
    # A task of this client, to which the write hold would be passed.
    writer = asyncio.create_task(lock.write_lock().acquire())
    await until_waiting(passing, 1)
    await writing.release()
    await waits(lock, 1)
    seen = await lock.inspect()
    assert seen.writer is None
    assert [each.owner for each in seen.readers] == [reading.owner]
    assert not writer.done()
    await reading.release()
    async with asyncio.timeout(SOON):
        await (await writer).release()


async def test_a_reader_that_asks_to_write_is_refused(
    client: Client, lock: StoreReadWriteLock
) -> None:
    async with lock.read_lock():
        asked = client.statistics().commands_sent
        for call in (lock.write_lock().acquire, lock.write_lock().try_acquire):
            with pytest.raises(RuntimeError, match="would wait for itself"):
                await call()
        assert client.statistics().commands_sent == asked
    async with asyncio.timeout(SOON), lock.write_lock():
        pass


@pytest.mark.usefixtures("old_busy_counts")
async def test_no_more_time_says_busy(
    lock: StoreReadWriteLock, theirs: StoreReadWriteLock, other: Client
) -> None:
    # It need not connect in that time.
    await other.ping()
    async with lock.write_lock():
        for side in (theirs.read_lock(), theirs.write_lock()):
            with pytest.raises(AcquireTimeoutError, match=r"stayed busy for 2 s"):
                await side.acquire(timeout=2)
        await waits(lock, 0)
    async with lock.read_lock():
        with pytest.raises(AcquireTimeoutError, match="write lock 'k' stayed busy"):
            await theirs.write_lock().acquire(timeout=2)
        await waits(lock, 0)
        async with asyncio.timeout(SOON), theirs.read_lock():
            pass


async def test_cancelled_waiters_leave_nothing(
    lock: StoreReadWriteLock, theirs: StoreReadWriteLock, other: Client
) -> None:
    async with lock.write_lock():
        sides = (theirs.read_lock(), theirs.read_lock(), theirs.write_lock())
        waiting = [asyncio.create_task(side.acquire()) for side in sides]
        await waits(lock, 3)
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
        assert all(task.cancelled() for task in waiting)
        await waits(lock, 0)
        assert other.statistics().waiters == 0


async def test_a_cancelled_writer_lets_readers_behind_it_in(
    lock: StoreReadWriteLock, theirs: StoreReadWriteLock
) -> None:
    async with lock.read_lock():
        writer = asyncio.create_task(theirs.write_lock().acquire())
        await waits(lock, 1)
        reader = asyncio.create_task(theirs.read_lock().acquire())
        await waits(lock, 2)
        writer.cancel()
        async with asyncio.timeout(SOON):
            await (await reader).release()


async def test_a_task_may_enter_each_side_again(lock: StoreReadWriteLock) -> None:
    read, write = lock.read_lock(), lock.write_lock()
    async with write, write, read, read:
        assert await write.hold_count() == 2
        assert await read.hold_count() == 2
        async with write:
            assert await write.hold_count() == 3
        assert await asyncio.create_task(read.owned()) is False
    assert not await read.owned()
    assert not await write.owned()


async def test_a_reader_enters_again_past_a_waiting_writer(
    lock: StoreReadWriteLock, theirs: StoreReadWriteLock
) -> None:
    async with lock.read_lock():
        writer = asyncio.create_task(theirs.write_lock().acquire())
        await waits(lock, 1)
        async with asyncio.timeout(SOON), lock.read_lock():
            assert not writer.done()
    async with asyncio.timeout(SOON):
        await (await writer).release()


async def test_readers_and_writers_of_three_clients(new_client: NewClient) -> None:
    clients: list[Any] = [new_client() for _ in range(3)]
    dice = random.Random(18)
    reading = writing = 0

    async def work(lock: StoreReadWriteLock) -> None:
        nonlocal reading, writing
        for _ in range(6):
            if dice.random() < 0.6:
                async with lock.read_lock():
                    reading += 1
                    assert not writing
                    await asyncio.sleep(0)
                    assert not writing
                    reading -= 1
                continue
            async with lock.write_lock() as lease:
                writing += 1
                assert (reading, writing) == (0, 1)
                await asyncio.sleep(0)
                assert (reading, writing) == (0, 1)
                if dice.random() < 0.5:
                    writing -= 1
                    continue
                async with lock.read_lock():
                    reading, writing = reading + 1, writing - 1
                    await lease.release()
                    await asyncio.sleep(0)
                    assert not writing
                    reading -= 1

    tasks = [
        asyncio.create_task(work(client.get_read_write_lock("k")))
        for client in clients
        for _ in range(3)
    ]
    async with asyncio.timeout(6 * SOON):
        await asyncio.gather(*tasks)
    for client in clients:
        await until(lambda client=client: client.statistics().waiters == 0)  # type: ignore[misc]
