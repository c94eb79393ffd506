"""The read-write lock of PostgreSQL, etcd and ZooKeeper: both sides, looks, forced releases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from redisson_py import Lease
from redisson_py.errors import LeaseLostError
from redisson_py.etcd import Etcd
from redisson_py.postgres import Postgres
from redisson_py.zookeeper import StoreReadLock, StoreReadWriteLock, StoreWriteLock, ZooKeeper
from tests.stores.backends import (
    LEASE,
    Backend,
    EtcdBackend,
    PostgresBackend,
    ZooKeeperBackend,
)
from tests.stores.conftest import NewClient
from tests.stores.traces import SOON
from tests.support.waiting import until, until_async, until_waiting

Client = Postgres | Etcd | ZooKeeper
Side = StoreReadLock | StoreWriteLock

pytestmark = [
    pytest.mark.usefixtures("no_polls"),
    pytest.mark.parametrize("backend", ["postgres", "etcd", "zookeeper"], indirect=True),
]


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


@asynccontextmanager
async def held(side: Side) -> AsyncGenerator[Lease]:
    """Hold a side in another task."""
    entered: asyncio.Future[Lease] = asyncio.get_running_loop().create_future()
    leave = asyncio.Event()

    async def hold() -> None:
        async with side as lease:
            entered.set_result(lease)
            await leave.wait()

    task = asyncio.create_task(hold())
    async with asyncio.timeout(3 * SOON):
        yield await entered
        leave.set()
        await task


async def waits(lock: StoreReadWriteLock, count: int) -> None:
    """Return when so many wait in the store."""

    async def enough() -> bool:
        return len((await lock.inspect()).waiters or ()) == count

    await until_async(enough)


def enter(side: Side, entered: list[str], name: str) -> asyncio.Task[None]:
    """Enter a side in a task, note that, and leave it."""

    async def work() -> None:
        async with side:
            entered.append(name)

    return asyncio.create_task(work())


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


async def test_a_forced_release_of_the_read_side_ends_all_reads(
    lock: StoreReadWriteLock, theirs: StoreReadWriteLock
) -> None:
    async with held(lock.read_lock()) as own:
        their = await theirs.read_lock().acquire()
        assert not await lock.write_lock().force_release()
        assert not own.lost
        assert await theirs.read_lock().force_release()
        assert their.lost
        assert not await lock.read_lock().locked()
        async with asyncio.timeout(SOON), theirs.write_lock():
            pass
        with pytest.raises(LeaseLostError):
            await their.release()
        with pytest.raises(LeaseLostError):
            await own.release()


async def test_a_forced_release_of_readers_leaves_a_writer(
    lock: StoreReadWriteLock, theirs: StoreReadWriteLock
) -> None:
    async with held(lock.write_lock()) as writing:
        assert not await theirs.read_lock().force_release()
        assert await theirs.write_lock().locked()
        assert not writing.lost


async def test_a_forced_release_of_a_writer_ends_its_reads(
    lock: StoreReadWriteLock, theirs: StoreReadWriteLock
) -> None:
    writing, reading = await lock.write_lock().acquire(), await lock.read_lock().acquire()
    writer = asyncio.create_task(theirs.write_lock().acquire())
    await waits(lock, 1)
    assert await lock.write_lock().force_release()
    assert writing.lost
    assert reading.lost
    async with asyncio.timeout(SOON):
        await (await writer).release()
    for lease in (reading, writing):
        with pytest.raises(LeaseLostError) as caught:
            await lease.release()
        assert caught.value.reason == "forced"


async def test_what_it_shows(
    backend: Backend, lock: StoreReadWriteLock, theirs: StoreReadWriteLock
) -> None:
    rows = ("redisson_py_shared where kind = 'read-write lock' and name = 'k'",)
    prefixes, beside = {
        PostgresBackend: (rows, 0),
        EtcdBackend: (("k/read/", "k/write/"), 0),
        # ZooKeeper's nodes have names that nobody can guess.
        ZooKeeperBackend: (("/redisson_py/k",), 2),
    }[type(backend)]
    seen = await lock.inspect()
    assert (seen.writer, seen.readers, seen.holders, seen.waiters) == (None, (), (), ())
    assert seen.keys == prefixes
    task = asyncio.current_task()
    assert task is not None
    async with lock.write_lock() as writing, lock.read_lock(), lock.read_lock() as reading:
        seen = await lock.inspect()
        assert seen.writer is not None
        assert (seen.writer.owner, seen.writer.task) == (writing.owner, task.get_name())
        assert [(each.owner, each.holds) for each in seen.readers] == [(reading.owner, 2)]
        assert seen.holders == (seen.writer, *seen.readers)
        assert seen.keys[: len(prefixes)] == prefixes
        assert len(seen.keys) == len(prefixes) + beside
        (writer,) = (await lock.write_lock().inspect()).holders
        (reader,) = (await lock.read_lock().inspect()).holders
        # Of two looks, the later one sees less left.
        assert replace(writer, remaining=0) == replace(seen.writer, remaining=0)
        assert replace(reader, remaining=0) == replace(seen.readers[0], remaining=0)
        assert [each.task for each in (await theirs.inspect()).holders] == [None, None]
        statistics = lock.statistics()
        assert (statistics.held_leases, statistics.waiters) == (3, 0)
    assert (await lock.inspect()).holders == ()


async def test_no_read_under_a_write_that_was_passed_on(
    backend: Backend, new_client: NewClient, theirs: StoreReadWriteLock
) -> None:
    # However long the server is stopped, what it was asked for is passed on here.
    client: Any = new_client(lease_time=10 * LEASE, turn=2 * SOON)
    lock = client.get_read_write_lock("k")
    begin, leave = asyncio.Event(), asyncio.Event()
    entered: list[str] = []
    writing: asyncio.Future[Lease] = asyncio.get_running_loop().create_future()

    async def first() -> None:
        writing.set_result(await lock.write_lock().acquire())
        await begin.wait()
        async with lock.read_lock():
            entered.append("first reads")

    async def second() -> None:
        async with lock.write_lock():
            entered.append("second writes")
            await leave.wait()
            entered.append("second wrote")

    async with asyncio.timeout(2 * SOON):
        tasks = [asyncio.create_task(first())]
        lease = await writing
        tasks.append(asyncio.create_task(second()))
        await until(lambda: client.statistics().waiters == 1)
        await backend.pause()
        try:
            asked = client.statistics().commands_sent
            begin.set()
            await until(lambda: client.statistics().commands_sent > asked)
            # The read is under way, and another task of this client gets to write.
            await lease.release()
            await until(lambda: entered)
        finally:
            await backend.resume()

        async def is_waiting() -> bool:
            seen = await theirs.inspect()
            return not seen.readers and len(seen.waiters or ()) == 1

        await until_async(is_waiting)
        leave.set()
        await asyncio.gather(*tasks)
    assert entered == ["second writes", "second wrote", "first reads"]
