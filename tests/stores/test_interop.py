"""Our locks are those of Go's `concurrency` in etcd, and of Curator in ZooKeeper.

`theirs` is a process of the other language; what only one of them has is in `etcd/test_interop.py`
and `zookeeper/test_curator.py`.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from redisson_py import AcquireTimeoutError, LeaseLostError
from redisson_py._stores.locks import StoreLock
from redisson_py.zookeeper import StoreReadWriteLock
from tests.fixtures.backends import Running
from tests.fixtures.redis_server import unavailable
from tests.stores import workers
from tests.stores.backends import LEASE, Backend
from tests.stores.builds import ProgramNotFoundError
from tests.stores.workers import Worker, WorkerError
from tests.support.any_client import Client
from tests.support.waiting import until_async

pytestmark = pytest.mark.usefixtures("no_polls")

#: Seconds in which a process gets the lock, if it ever does.
LONG = 30.0
#: Processes of each language, and what each adds to the file.
PROCESSES, TIMES = 2, 20
_numbers = itertools.count(1)


@pytest.fixture(params=["etcd", "zookeeper"])
def store(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def backend(store: str, running_backend: Running) -> Backend:
    return running_backend(store)


@pytest.fixture(scope="module")
def shared() -> Iterator[dict[str, Worker]]:
    """The processes that tests share."""
    running: dict[str, Worker] = {}
    yield running
    for worker in running.values():
        worker.close()


@pytest.fixture
def theirs(store: str, backend: Backend, shared: dict[str, Worker]) -> Worker:
    if store not in shared:
        try:
            shared[store] = workers.theirs(store, backend)
        except ProgramNotFoundError as error:
            unavailable(str(error))
    return shared[store]


@pytest.fixture
def name() -> str:
    return f"/locks/orders{next(_numbers)}"


@pytest.fixture
def sides(client: Any, name: str) -> StoreReadWriteLock:
    lock: StoreReadWriteLock = client.get_read_write_lock(name)
    return lock


def lock_of(client: Client, name: str) -> StoreLock:
    """Return a lock, which can tell who waits."""
    lock = client.get_lock(name)
    assert isinstance(lock, StoreLock)
    return lock


async def queued(lock: Any, count: int) -> None:
    """Return when so many wait."""

    async def are_there() -> bool:
        return len((await lock.inspect()).waiters or ()) == count

    await until_async(are_there)


async def test_they_wait_for_a_block_of_ours(theirs: Worker, client: Client, name: str) -> None:
    lock = lock_of(client, name)
    async with lock:
        assert not await theirs.acquire(name)
        waiting = asyncio.create_task(theirs.acquire(name, wait=LONG))
        await queued(lock, 1)
        async with lock:
            assert await lock.hold_count() == 2
        # The inner block's end freed nothing.
        (holder,) = (await lock.inspect()).holders
        assert holder.owner.startswith(client.id)
        assert not waiting.done()
    assert await waiting
    assert await lock.locked()
    assert not await lock.owned()
    assert await lock.try_acquire() is None
    await theirs.release(name)
    async with lock:
        pass


@pytest.mark.usefixtures("old_busy_counts")
async def test_we_wait_for_them(theirs: Worker, client: Client, name: str) -> None:
    lock = lock_of(client, name)
    assert await theirs.acquire(name)
    assert await lock.try_acquire() is None
    with pytest.raises(AcquireTimeoutError):
        await lock.acquire(timeout=2)
    waiting = asyncio.create_task(lock.acquire())
    await queued(lock, 1)
    assert not await theirs.acquire(name, "another")
    assert not waiting.done()
    await theirs.release(name)
    lease = await waiting
    assert not await theirs.acquire(name)
    await lease.release()
    assert await theirs.acquire(name)
    await theirs.release(name)


async def test_both_languages_are_served_in_the_order_they_came(
    theirs: Worker, client: Client, other: Client, name: str
) -> None:
    lock, order = client.get_lock(name), list[str]()

    async def they(thread: str) -> None:
        assert await theirs.acquire(name, thread, LONG)
        order.append(thread)
        await theirs.release(name, thread)

    async def we(which: Client, owner: str) -> None:
        async with which.get_lock(name):
            order.append(owner)

    assert await theirs.acquire(name, "first")
    async with asyncio.TaskGroup() as group:
        visits = (we(client, "ours 1"), they("theirs-1"), we(other, "ours 2"), they("theirs-2"))
        for count, visit in enumerate(visits, 1):
            group.create_task(visit)
            await queued(lock, count)
        await theirs.release(name, "first")
    assert order == ["ours 1", "theirs-1", "ours 2", "theirs-2"]


async def test_nobody_waits_for_those_that_gave_up(
    theirs: Worker, client: Client, other: Client, name: str
) -> None:
    lock = lock_of(client, name)
    assert await theirs.acquire(name)
    ours = asyncio.create_task(lock.acquire())
    await queued(lock, 1)
    behind = asyncio.create_task(theirs.acquire(name, "behind", LONG))
    await queued(lock, 2)
    ours.cancel()
    await queued(lock, 1)
    await theirs.release(name)
    assert await behind
    await theirs.release(name, "behind")

    lease = await lock.acquire()
    late = asyncio.create_task(theirs.acquire(name, wait=4))
    await queued(lock, 1)
    last = asyncio.create_task(other.get_lock(name).acquire())
    await queued(lock, 2)
    assert not await late
    await queued(lock, 1)
    await lease.release()
    await (await last).release()
    assert ours.cancelled()


async def test_the_end_of_a_lease_time_lets_them_in(
    theirs: Worker, client: Client, name: str
) -> None:
    lease = await client.get_lock(name).acquire(lease_time=LEASE)
    waiting = asyncio.create_task(theirs.acquire(name, wait=LONG))
    assert await waiting
    assert lease.lost
    await theirs.release(name)


async def test_a_holder_that_died_or_froze_lets_the_other_in(
    store: str, backend: Backend, theirs: Worker, client: Client, name: str
) -> None:
    async def theirs_dies(name: str) -> None:
        with workers.theirs(store, backend, session=3) as dying:
            assert await dying.acquire(name)
            waiting = asyncio.create_task(client.get_lock(name).acquire())
            await queued(lock_of(client, name), 1)
            dying.kill()
            await (await waiting).release()

    async def ours_dies(name: str) -> None:
        with workers.ours(store, backend, session=3) as dying:
            assert await dying.acquire(name, wait=LONG)
            waiting = asyncio.create_task(theirs.acquire(name, name, LONG))
            await queued(lock_of(client, name), 1)
            dying.kill()
            assert await waiting
            await theirs.release(name, name)

    async def theirs_freezes(name: str) -> None:
        with workers.theirs(store, backend, session=3) as frozen:
            assert await frozen.acquire(name)
            frozen.pause()
            async with client.get_lock(name) as lease:
                frozen.resume()
                # It deletes nothing that is not its own; some say so, some do not.
                with suppress(WorkerError):
                    await frozen.release(name)
                assert (
                    (await client.get_lock(name).inspect()).holders[0].owner.startswith(client.id)
                )
                assert not lease.lost

    async def ours_freezes(name: str) -> None:
        with workers.ours(store, backend, session=3) as frozen:
            assert await frozen.acquire(name, wait=LONG)
            frozen.pause()
            assert await theirs.acquire(name, name, LONG)
            frozen.resume()
            with pytest.raises(WorkerError, match="LeaseLostError"):
                await frozen.release(name)
            assert await client.get_lock(name).try_acquire() is None
            await theirs.release(name, name)

    holders = (theirs_dies, ours_dies, theirs_freezes, ours_freezes)
    await asyncio.gather(*[held(f"{name}-{held.__name__}") for held in holders])


async def test_they_free_our_lock_and_the_body_is_notified(
    theirs: Worker, client: Client, name: str
) -> None:
    reached = False
    with pytest.raises(LeaseLostError) as caught:
        async with client.get_lock(name) as lease:
            waiting = asyncio.create_task(theirs.acquire(name, wait=LONG))
            await queued(lock_of(client, name), 1)
            await theirs.delete(name)
            assert await waiting
            await asyncio.sleep(LONG)
            reached = True
    assert not reached
    assert lease.lost
    assert caught.value.reason == "taken"
    # The end of our block left their hold as it was.
    assert await client.get_lock(name).try_acquire() is None
    await theirs.release(name)


async def test_a_waiter_whose_entry_was_deleted_takes_another(
    theirs: Worker, client: Client, name: str
) -> None:
    assert await theirs.acquire(name)
    waiting = asyncio.create_task(client.get_lock(name).acquire())
    await queued(lock_of(client, name), 1)
    await theirs.delete(name, number=1)
    behind = asyncio.create_task(theirs.acquire(name, "behind", LONG))
    await queued(lock_of(client, name), 1)
    await theirs.release(name)
    assert await behind
    await queued(lock_of(client, name), 1)
    await theirs.release(name, "behind")
    await (await waiting).release()


async def test_their_readers_read_beside_ours(
    store: str, theirs: Worker, sides: StoreReadWriteLock, name: str
) -> None:
    async with sides.read_lock():
        assert await theirs.acquire(f"read:{name}")
        assert len((await sides.inspect()).readers) == 2
        assert not await theirs.acquire(f"write:{name}", "writer")
        if store == "zookeeper":
            assert await theirs.participants(f"write:{name}") == [""]
    assert await sides.write_lock().try_acquire() is None
    async with sides.read_lock():
        pass
    await theirs.release(f"read:{name}")
    async with sides.write_lock():
        pass


async def test_their_readers_wait_for_our_writer(
    theirs: Worker, sides: StoreReadWriteLock, name: str
) -> None:
    async with asyncio.timeout(LONG):
        async with sides.write_lock():
            readers = [
                asyncio.create_task(theirs.acquire(f"read:{name}", thread, LONG))
                for thread in ("reader-1", "reader-2")
            ]
            await queued(sides, 2)
        assert await asyncio.gather(*readers) == [True, True]
        async with sides.read_lock():
            assert len((await sides.inspect()).readers) == 3
        for thread in ("reader-1", "reader-2"):
            await theirs.release(f"read:{name}", thread)


async def test_writers_of_both_languages_wait_for_each_other(
    theirs: Worker, client: Client, sides: StoreReadWriteLock, name: str
) -> None:
    async with asyncio.timeout(LONG):
        for side in (sides.read_lock(), sides.write_lock()):
            assert await theirs.acquire(f"write:{name}")
            waiting = asyncio.create_task(side.acquire())
            await queued(sides, 1)
            assert not waiting.done()
            await theirs.release(f"write:{name}")
            async with await waiting:
                theirs_waits = asyncio.create_task(theirs.acquire(f"write:{name}", wait=LONG))
                await queued(sides, 1)
                assert not theirs_waits.done()
            assert await theirs_waits
            assert await sides.read_lock().try_acquire() is None
            await theirs.release(f"write:{name}")


async def test_our_writer_waits_for_their_readers(
    theirs: Worker, sides: StoreReadWriteLock, name: str
) -> None:
    async with asyncio.timeout(LONG):
        for thread in ("reader-1", "reader-2"):
            assert await theirs.acquire(f"read:{name}", thread)
        waiting = asyncio.create_task(sides.write_lock().acquire())
        await queued(sides, 1)
        # A reader that comes after a waiting writer waits too.
        assert not await theirs.acquire(f"read:{name}", "late")
        await theirs.release(f"read:{name}", "reader-1")
        assert len((await sides.inspect()).readers) == 1
        assert not waiting.done()
        await theirs.release(f"read:{name}", "reader-2")
        await (await waiting).release()


async def test_our_downgrade_keeps_their_waiting_writer_out(
    theirs: Worker, sides: StoreReadWriteLock, name: str
) -> None:
    async with asyncio.timeout(LONG):
        write = await sides.write_lock().acquire()
        waiting = asyncio.create_task(theirs.acquire(f"write:{name}", "writer", LONG))
        await queued(sides, 1)
        read = await sides.read_lock().acquire()
        await write.release()
        # It is woken, and sees our read before its own node.
        assert not await theirs.acquire(f"write:{name}", "another", 1)
        assert not waiting.done()
        assert [each.owner for each in (await sides.inspect()).readers]
        await read.release()
        assert await waiting
        await theirs.release(f"write:{name}", "writer")


@pytest.mark.parametrize("store", ["zookeeper"])
async def test_their_downgrade_keeps_our_waiting_writer_out(
    theirs: Worker, client: Client, sides: StoreReadWriteLock, name: str
) -> None:
    async with asyncio.timeout(LONG):
        assert await theirs.acquire(f"write:{name}")
        waiting = asyncio.create_task(sides.write_lock().acquire())
        await queued(sides, 1)
        assert await theirs.acquire(f"read:{name}")
        await theirs.release(f"write:{name}")

        async def only_reads() -> bool:
            found = await sides.inspect()
            return found.writer is None and len(found.readers) == 1

        await until_async(only_reads)
        await client.ping()
        assert not waiting.done()
        await theirs.release(f"read:{name}")
        await (await waiting).release()


async def test_a_killed_writer_of_theirs_lets_our_reader_in(
    store: str, backend: Backend, sides: StoreReadWriteLock, name: str
) -> None:
    async with asyncio.timeout(LONG):
        for kind, side in (("write", sides.read_lock()), ("read", sides.write_lock())):
            with workers.theirs(store, backend, session=3) as dying:
                assert await dying.acquire(f"{kind}:{name}")
                waiting = asyncio.create_task(side.acquire())
                await queued(sides, 1)
                dying.kill()
                await (await waiting).release()


@pytest.mark.parametrize("side", ["", "write:"])
async def test_processes_of_both_languages_work_together(
    store: str, backend: Backend, client: Any, name: str, tmp_path: Path, side: str
) -> None:
    file, lock = tmp_path / "file", client.get_lock(name)
    if side:
        lock = client.get_read_write_lock(name).write_lock()
    file.write_text("")
    with ExitStack() as running:
        crowd = {
            f"{start.__name__}{number}": running.enter_context(start(store, backend))
            for start in (workers.theirs, workers.ours)
            for number in range(PROCESSES)
        }
        async with asyncio.timeout(4 * LONG):
            async with lock:
                working = [
                    asyncio.create_task(each.crowd(f"{side}{name}", file, TIMES, who))
                    for who, each in crowd.items()
                ]
                await queued(lock, len(crowd))
            await asyncio.gather(*working)
    done = file.read_text().split()
    assert Counter(done) == dict.fromkeys(crowd, TIMES)
    # All waited when it began.
    assert set(done[: len(crowd)]) == set(crowd)
    assert not await lock.locked()
