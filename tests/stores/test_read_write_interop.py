"""Our read-write locks are those of other languages: Go's `RWMutex`, and Curator's in Java."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from redisson_py.zookeeper import StoreReadWriteLock
from tests.fixtures.backends import Running
from tests.fixtures.redis_server import unavailable
from tests.stores import workers
from tests.stores.backends import Backend
from tests.stores.builds import ProgramNotFoundError
from tests.stores.read_write_support import STORES, Client
from tests.stores.test_interop import LONG
from tests.stores.workers import Worker
from tests.support.waiting import until_async

pytestmark = pytest.mark.usefixtures("no_polls")

_numbers = itertools.count(1)


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> str:
    """One store after the other."""
    name: str = request.param
    return name


@pytest.fixture
def backend(store: str, running_backend: Running) -> Backend:
    return running_backend(store)


@pytest.fixture(scope="module")
def shared() -> Iterator[dict[str, Worker]]:
    found: dict[str, Worker] = {}
    yield found
    for worker in found.values():
        worker.close()


@pytest.fixture
def theirs(store: str, backend: Backend, shared: dict[str, Worker]) -> Worker:
    """A process of the other language."""
    if store not in shared:
        try:
            shared[store] = workers.theirs(store, backend)
        except ProgramNotFoundError as error:
            unavailable(str(error))
    return shared[store]


@pytest.fixture
def path() -> str:
    return f"/prices/all{next(_numbers)}"


@pytest.fixture
def lock(client: Client, path: str) -> StoreReadWriteLock:
    return client.get_read_write_lock(path)


async def queued(lock: StoreReadWriteLock, count: int) -> None:
    """Return when so many contenders wait."""

    async def are_there() -> bool:
        return len((await lock.inspect()).waiters or ()) == count

    await until_async(are_there)


async def test_their_readers_read_beside_ours(
    store: str, theirs: Worker, lock: StoreReadWriteLock, path: str
) -> None:
    async with lock.read_lock():
        assert await theirs.acquire(f"read:{path}")
        assert len((await lock.inspect()).readers) == 2
        assert not await theirs.acquire(f"write:{path}", "writer")
        if store == "zookeeper":
            assert await theirs.participants(f"write:{path}") == [""]
    assert await lock.write_lock().try_acquire() is None
    async with lock.read_lock():
        pass
    await theirs.release(f"read:{path}")
    async with lock.write_lock():
        pass


async def test_their_writer_waits_for_our_reader_and_writer(
    theirs: Worker, lock: StoreReadWriteLock, path: str
) -> None:
    for side in (lock.read_lock(), lock.write_lock()):
        async with asyncio.timeout(LONG):
            async with side:
                waiting = asyncio.create_task(theirs.acquire(f"write:{path}", wait=LONG))
                await queued(lock, 1)
                assert not waiting.done()
            assert await waiting
            assert await lock.read_lock().try_acquire() is None
            await theirs.release(f"write:{path}")


async def test_their_readers_wait_for_our_writer(
    theirs: Worker, lock: StoreReadWriteLock, path: str
) -> None:
    async with asyncio.timeout(LONG):
        async with lock.write_lock():
            readers = [
                asyncio.create_task(theirs.acquire(f"read:{path}", thread, LONG))
                for thread in ("reader-1", "reader-2")
            ]
            await queued(lock, 2)
        assert await asyncio.gather(*readers) == [True, True]
        async with lock.read_lock():
            assert len((await lock.inspect()).readers) == 3
        for thread in ("reader-1", "reader-2"):
            await theirs.release(f"read:{path}", thread)


async def test_ours_wait_for_their_writer(
    theirs: Worker, client: Client, lock: StoreReadWriteLock, path: str
) -> None:
    async with asyncio.timeout(LONG):
        for side in (lock.read_lock(), lock.write_lock()):
            assert await theirs.acquire(f"write:{path}")
            waiting = asyncio.create_task(side.acquire())
            await queued(lock, 1)
            assert not waiting.done()
            await theirs.release(f"write:{path}")
            await (await waiting).release()


async def test_our_writer_waits_for_their_readers(
    theirs: Worker, lock: StoreReadWriteLock, path: str
) -> None:
    async with asyncio.timeout(LONG):
        for thread in ("reader-1", "reader-2"):
            assert await theirs.acquire(f"read:{path}", thread)
        waiting = asyncio.create_task(lock.write_lock().acquire())
        await queued(lock, 1)
        # A reader that comes after a waiting writer waits too.
        assert not await theirs.acquire(f"read:{path}", "late")
        await theirs.release(f"read:{path}", "reader-1")
        assert len((await lock.inspect()).readers) == 1
        assert not waiting.done()
        await theirs.release(f"read:{path}", "reader-2")
        await (await waiting).release()


async def test_our_downgrade_keeps_their_waiting_writer_out(
    theirs: Worker, lock: StoreReadWriteLock, path: str
) -> None:
    async with asyncio.timeout(LONG):
        write = await lock.write_lock().acquire()
        waiting = asyncio.create_task(theirs.acquire(f"write:{path}", "writer", LONG))
        await queued(lock, 1)
        read = await lock.read_lock().acquire()
        await write.release()
        # It is woken, and sees our read before its own node.
        assert not await theirs.acquire(f"write:{path}", "another", 1)
        assert not waiting.done()
        assert [each.owner for each in (await lock.inspect()).readers]
        await read.release()
        assert await waiting
        await theirs.release(f"write:{path}", "writer")


@pytest.mark.parametrize("store", ["zookeeper"])
async def test_their_downgrade_keeps_our_waiting_writer_out(
    theirs: Worker, client: Client, lock: StoreReadWriteLock, path: str
) -> None:
    async with asyncio.timeout(LONG):
        assert await theirs.acquire(f"write:{path}")
        waiting = asyncio.create_task(lock.write_lock().acquire())
        await queued(lock, 1)
        assert await theirs.acquire(f"read:{path}")
        await theirs.release(f"write:{path}")

        async def only_reads() -> bool:
            found = await lock.inspect()
            return found.writer is None and len(found.readers) == 1

        await until_async(only_reads)
        await client.ping()
        assert not waiting.done()
        await theirs.release(f"read:{path}")
        await (await waiting).release()


async def test_a_killed_writer_of_theirs_lets_our_reader_in(
    store: str, backend: Backend, lock: StoreReadWriteLock, path: str
) -> None:
    async with asyncio.timeout(LONG):
        for kind, side in (("write", lock.read_lock()), ("read", lock.write_lock())):
            with workers.theirs(store, backend, session=3) as dying:
                assert await dying.acquire(f"{kind}:{path}")
                waiting = asyncio.create_task(side.acquire())
                await queued(lock, 1)
                dying.kill()
                await (await waiting).release()


async def test_writers_of_both_languages_take_turns(
    store: str,
    backend: Backend,
    theirs: Worker,
    lock: StoreReadWriteLock,
    path: str,
    tmp_path: Path,
) -> None:
    times, file = 10, tmp_path / "file"
    file.write_text("")
    with ExitStack() as started:
        crowd = {
            f"{start.__name__}{number}": started.enter_context(start(store, backend))
            for start in (workers.theirs, workers.ours)
            for number in range(2)
        }
        async with asyncio.timeout(2 * LONG):
            async with lock.write_lock():
                working = [
                    asyncio.create_task(each.crowd(f"write:{path}", file, times, line))
                    for line, each in crowd.items()
                ]
                await queued(lock, len(crowd))
            while not all(task.done() for task in working):
                async with lock.read_lock():
                    lines = file.read_text()
                    await lock.inspect()
                    assert file.read_text() == lines
                assert await theirs.acquire(f"read:{path}", wait=LONG)
                lines = file.read_text()
                await lock.inspect()
                assert file.read_text() == lines
                await theirs.release(f"read:{path}")
            await asyncio.gather(*working)
    assert Counter(file.read_text().split()) == dict.fromkeys(crowd, times)
