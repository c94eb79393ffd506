"""What only Curator has, and its InterProcessSemaphoreMutex; see `test_interop`."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from redisson_py.zookeeper import ZooKeeper
from tests.fixtures.redis_server import unavailable
from tests.stores import builds, workers
from tests.stores.backends import Backend
from tests.stores.builds import ProgramNotFoundError
from tests.stores.test_interop import LONG, lock_of, queued
from tests.stores.workers import Worker
from tests.stores.zookeeper.support import nodes, stranger, zookeeper_or_skip

pytestmark = pytest.mark.usefixtures("no_polls")


@pytest.fixture
def curator(backend: Backend) -> Iterator[Worker]:
    try:
        worker = workers.theirs("zookeeper", backend)
    except ProgramNotFoundError as error:
        unavailable(str(error))
    with worker:
        yield worker


async def test_both_see_the_same_contenders(curator: Worker, client: Any, name: str) -> None:
    assert await curator.acquire(name)
    lock = lock_of(client, name)
    waiting = asyncio.create_task(lock.acquire())
    await queued(lock, 1)
    snapshot = await lock.inspect()
    participants = await curator.participants(name)
    assert len(participants) == 2
    assert snapshot.keys == (name, participants[0])
    # Curator writes the address of its machine.
    assert snapshot.holders[0].owner.count(".") == 3
    assert snapshot.waiters is not None
    assert snapshot.waiters[0].startswith(client.id)
    await curator.release(name)
    await (await waiting).release()


async def test_directories_are_made_as_curator_makes_them(tmp_path: Path) -> None:
    """So the server deletes them when they are empty."""
    options = ("-Dznode.container.checkIntervalMs=100", "-Dznode.container.maxPerMinute=100000")
    with zookeeper_or_skip(tmp_path, *options) as server, stranger(server) as kazoo:
        try:
            command = [*builds.curator(), server.url.removeprefix("zookeeper://"), "10000"]
        except ProgramNotFoundError as error:
            unavailable(str(error))
        with Worker(command) as curator:
            assert await curator.acquire("/made/by/curator")
            async with ZooKeeper.from_url(server.url) as client:
                async with client.get_lock("/made2/by/us"):
                    theirs, ours = (
                        kazoo.get_acls(f"{path}/{nodes(kazoo, path)[0]}")[0]
                        for path in ("/made/by/curator", "/made2/by/us")
                    )
                    assert theirs == ours
                await curator.release("/made/by/curator")
                async with asyncio.timeout(LONG):
                    while kazoo.exists("/made") or kazoo.exists("/made2"):
                        await asyncio.sleep(0.05)
                async with client.get_lock("/made2/by/us"):
                    pass


async def test_they_wait_for_us_and_we_for_them(curator: Worker, client: Any, name: str) -> None:
    theirs, lock = f"semaphore:{name}", client.get_semaphore_mutex(name)
    async with asyncio.timeout(LONG):
        async with lock:
            assert not await curator.acquire(theirs)
            waiting = asyncio.create_task(curator.acquire(theirs, wait=LONG))
            await queued(lock, 1)
        assert await waiting
        assert await lock.try_acquire() is None
        assert (await lock.inspect()).holders[0].owner.count(".") == 3
        ours = asyncio.create_task(lock.acquire())
        await queued(lock, 1)
        assert not ours.done()
        await curator.release(theirs)
        await (await ours).release()
        assert await curator.acquire(theirs)
        await curator.release(theirs)


async def test_both_at_the_gate_are_served_in_their_order(
    curator: Worker, client: Any, other: Any, name: str
) -> None:
    theirs, order = f"semaphore:{name}", list[str]()
    lock = client.get_semaphore_mutex(name)

    async def they(thread: str) -> None:
        assert await curator.acquire(theirs, thread, LONG)
        order.append(thread)
        await curator.release(theirs, thread)

    async def we(which: Any, owner: str) -> None:
        async with which.get_semaphore_mutex(name):
            order.append(owner)

    async with asyncio.timeout(LONG), asyncio.TaskGroup() as group:
        assert await curator.acquire(theirs, "first")
        visits = (we(client, "ours 1"), they("theirs-1"), we(other, "ours 2"), they("theirs-2"))
        for count, visit in enumerate(visits, 1):
            group.create_task(visit)
            await queued(lock, count)
        await curator.release(theirs, "first")
    assert order == ["ours 1", "theirs-1", "ours 2", "theirs-2"]


async def test_a_holder_that_was_killed_lets_the_other_in(
    backend: Backend, curator: Worker, client: Any, name: str
) -> None:
    theirs, lock = f"semaphore:{name}", client.get_semaphore_mutex(name)
    async with asyncio.timeout(2 * LONG):
        with workers.theirs("zookeeper", backend, session=3) as dying:
            assert await dying.acquire(theirs)
            ours = asyncio.create_task(lock.acquire())
            await queued(lock, 1)
            dying.kill()
            await (await ours).release()
        with workers.ours("zookeeper", backend, session=3) as dying:
            assert await dying.acquire(theirs, wait=LONG)
            waiting = asyncio.create_task(curator.acquire(theirs, wait=LONG))
            await queued(lock, 1)
            dying.kill()
            assert await waiting
            await curator.release(theirs)


async def test_processes_of_both_languages_alternate(
    backend: Backend, client: Any, name: str, tmp_path: Path
) -> None:
    times, file, lock = 10, tmp_path / "file", client.get_semaphore_mutex(name)
    file.write_text("")
    with ExitStack() as started:
        crowd = {
            f"{start.__name__}{number}": started.enter_context(start("zookeeper", backend))
            for start in (workers.theirs, workers.ours)
            for number in range(2)
        }
        async with asyncio.timeout(6 * LONG):
            async with lock:
                working = [
                    asyncio.create_task(each.crowd(f"semaphore:{name}", file, times, who))
                    for who, each in crowd.items()
                ]
                await queued(lock, len(crowd))
            await asyncio.gather(*working)
    assert Counter(file.read_text().split()) == dict.fromkeys(crowd, times)
    assert not await lock.locked()
