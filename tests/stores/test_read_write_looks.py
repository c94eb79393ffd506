"""The read-write lock in etcd and ZooKeeper: looks, names, forced releases, and a closed client."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from redisson_py import FencedLease, LeaseLostError
from redisson_py.zookeeper import StoreReadWriteLock
from tests.fixtures.backends import Running
from tests.stores.backends import Backend, EtcdBackend
from tests.stores.conftest import NewClient
from tests.stores.faults_scene import SOON
from tests.stores.read_write_support import STORES, Client, held, waits

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
    in_etcd = isinstance(backend, EtcdBackend)
    places = ("k/read/", "k/write/") if in_etcd else ("/redisson_py/k",)
    seen = await lock.inspect()
    assert (seen.writer, seen.readers, seen.holders, seen.waiters) == (None, (), (), ())
    assert seen.keys == places
    task = asyncio.current_task()
    assert task is not None
    async with lock.write_lock() as writing, lock.read_lock(), lock.read_lock() as reading:
        seen = await lock.inspect()
        assert seen.writer is not None
        assert (seen.writer.owner, seen.writer.task) == (writing.owner, task.get_name())
        assert [(each.owner, each.holds) for each in seen.readers] == [(reading.owner, 2)]
        assert seen.holders == (seen.writer, *seen.readers)
        # ZooKeeper's nodes have names that nobody can guess.
        assert seen.keys[: len(places)] == places
        assert len(seen.keys) == (2 if in_etcd else 3)
        assert (await lock.write_lock().inspect()).holders == (seen.writer,)
        assert (await lock.read_lock().inspect()).holders == seen.readers
        assert [each.task for each in (await theirs.inspect()).holders] == [None, None]
        statistics = lock.statistics()
        assert (statistics.held_leases, statistics.waiters) == (3, 0)
    assert (await lock.inspect()).holders == ()


async def test_each_side_says_whether_it_is_held(
    lock: StoreReadWriteLock, theirs: StoreReadWriteLock
) -> None:
    read, write = theirs.read_lock(), theirs.write_lock()
    assert (await read.locked(), await write.locked()) == (False, False)
    assert (await read.remaining(), await write.remaining()) == (None, None)
    async with lock.read_lock():
        assert (await read.locked(), await write.locked()) == (True, False)
        assert (await read.remaining() or 0) > 0
        assert await write.remaining() is None
    async with lock.write_lock():
        assert (await read.locked(), await write.locked()) == (False, True)
        async with lock.read_lock():
            assert (await read.locked(), await write.locked()) == (True, True)


async def test_its_leases_have_no_token(lock: StoreReadWriteLock) -> None:
    async with lock.write_lock() as writing, lock.read_lock() as reading:
        assert not isinstance(writing, FencedLease)
        assert not isinstance(reading, FencedLease)


async def test_names_kinds_and_keys(client: Client, lock: StoreReadWriteLock) -> None:
    assert (lock.name, lock.key) == ("k", b"k")
    assert repr(lock) == "<StoreReadWriteLock 'k'>"
    assert (lock.read_lock().kind, lock.write_lock().kind) == ("read lock", "write lock")
    sides = client.get_read_write_lock("d:{x}")

    @sides.read_lock()
    async def reading(x: int) -> bool:
        return await client.get_read_write_lock(f"d:{x}").read_lock().owned()

    @sides.write_lock()
    async def writing(x: int) -> bool:
        return await client.get_read_write_lock(f"d:{x}").write_lock().owned()

    assert await reading(1)
    assert await writing(2)
    for name, error in (("", ValueError), ("\0", ValueError), (5, TypeError)):
        with pytest.raises(error):
            client.get_read_write_lock(name)  # type: ignore[arg-type]


async def test_a_lock_of_the_same_name_is_another(
    client: Client, lock: StoreReadWriteLock, theirs: StoreReadWriteLock
) -> None:
    async with client.get_lock("k"), asyncio.timeout(SOON), theirs.write_lock():
        assert await client.get_lock("k").owned()
        assert len((await lock.inspect()).holders) == 1


async def test_a_client_that_closes_gives_both_sides_back(
    new_client: NewClient, theirs: StoreReadWriteLock, caplog: pytest.LogCaptureFixture
) -> None:
    client: Any = new_client()
    lock = client.get_read_write_lock("k")
    writing, reading = await lock.write_lock().acquire(), await lock.read_lock().acquire()
    await client.aclose()
    assert writing.lost
    assert reading.lost
    async with asyncio.timeout(SOON), theirs.write_lock():
        pass
    assert "was closed" in caplog.text or caplog.records
