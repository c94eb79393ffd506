"""The semaphore mutex of ZooKeeper, alone and shared with Curator's InterProcessSemaphoreMutex."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from kazoo.client import KazooClient

from redisson_py import AcquireTimeoutError, LeaseLostError
from redisson_py._stores.contract import Busy, Granted, Wish
from redisson_py._time import now
from redisson_py.zookeeper import ZooKeeper
from tests.fixtures.redis_server import unavailable
from tests.stores import workers
from tests.stores.backends import CLIENT_LEASE, LEASE, Backend
from tests.stores.builds import ProgramNotFoundError
from tests.stores.conftest import assert_idle
from tests.stores.raw_proxy import RawProxy
from tests.stores.test_interop import LONG, queued
from tests.stores.workers import Worker
from tests.stores.zookeeper.proxy import CREATE, DELETE, Fate, ZooKeeperProxy
from tests.stores.zookeeper.support import Bell, opened, soon, wish
from tests.support.waiting import until_async

pytestmark = pytest.mark.usefixtures("no_polls")

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def shared() -> Iterator[list[Worker]]:
    found: list[Worker] = []
    yield found
    for worker in found:
        worker.close()


@pytest.fixture
def curator(backend: Backend, shared: list[Worker]) -> Worker:
    if not shared:
        try:
            shared.append(workers.theirs("zookeeper", backend))
        except ProgramNotFoundError as error:
            unavailable(str(error))
    return shared[0]


@pytest.fixture
def path() -> str:
    return f"/semaphores/orders{next(_numbers)}"


@pytest_asyncio.fixture
async def zoo(backend: Backend) -> AsyncIterator[ZooKeeper]:
    async with ZooKeeper.from_url(backend.url, lease_time=CLIENT_LEASE) as client:
        yield client
        await assert_idle(client)


@pytest_asyncio.fixture
async def zoo2(backend: Backend) -> AsyncIterator[ZooKeeper]:
    async with ZooKeeper.from_url(backend.url, lease_time=CLIENT_LEASE) as client:
        yield client
        await assert_idle(client)


def nodes(kazoo: KazooClient, path: str) -> tuple[list[str], list[str]]:
    """Return what is in both directories: at the gate, and of holders."""
    gate, leases = (
        kazoo.get_children(each) if kazoo.exists(each) else []
        for each in (f"{path}/locks", f"{path}/leases")
    )
    return gate, leases


async def until_nodes(kazoo: KazooClient, path: str, gate: int, leases: int) -> None:
    """Return when so many nodes are in each: a timeout gives back in the background."""

    async def are_there() -> bool:
        return [len(each) for each in nodes(kazoo, path)] == [gate, leases]

    await until_async(are_there)


def semaphore_wish(path: str, owner: str) -> Wish:
    """Return the wish of an owner that waits."""
    return replace(wish(path, owner), kind="semaphore")


@pytest.mark.usefixtures("old_busy_counts")
async def test_one_task_holds_it_and_cannot_enter_again(
    zoo: ZooKeeper, zoo2: ZooKeeper, kazoo: KazooClient, path: str
) -> None:
    lock = zoo.get_semaphore_mutex(path)
    async with lock as lease:
        assert 0 < lease.remaining <= CLIENT_LEASE
        gate, (held,) = nodes(kazoo, path)
        assert gate == []
        assert "-lease-" in held
        assert (await lock.inspect()).keys == (path, f"{path}/leases/{held}")
        with pytest.raises(RuntimeError, match="this task already holds"):
            await lock.acquire()
        assert await lock.owned()
        assert await lock.hold_count() == 1
        assert await zoo2.get_semaphore_mutex(path).locked()
        assert await zoo2.get_semaphore_mutex(path).try_acquire() is None
        with pytest.raises(AcquireTimeoutError):
            await zoo2.get_semaphore_mutex(path).acquire(timeout=2)
        await until_nodes(kazoo, path, 0, 1)
    assert nodes(kazoo, path) == ([], [])
    assert not await lock.locked()


async def test_a_name_that_is_no_path_works_too(zoo: ZooKeeper, kazoo: KazooClient) -> None:
    async with zoo.get_semaphore_mutex("orders/ü"):
        assert len(nodes(kazoo, "/redisson_py/orders%2Fü")[1]) == 1


async def test_clients_are_served_in_the_order_they_came(
    zoo: ZooKeeper, zoo2: ZooKeeper, backend: Backend, path: str
) -> None:
    order: list[str] = []
    async with ZooKeeper.from_url(backend.url, lease_time=CLIENT_LEASE) as zoo3:

        async def work(client: ZooKeeper) -> None:
            async with client.get_semaphore_mutex(path):
                order.append(client.id)

        lock = zoo.get_semaphore_mutex(path)
        async with asyncio.timeout(LONG), asyncio.TaskGroup() as group:
            lease = await lock.acquire()
            for count, client in enumerate((zoo2, zoo3), 1):
                group.create_task(work(client))
                await queued(lock, count)
            await lease.release()
        assert order == [zoo2.id, zoo3.id]


@pytest.mark.parametrize("place", [0, 1], ids=["for the holder", "at the gate"])
async def test_a_cancelled_waiter_leaves_no_node(
    zoo: ZooKeeper, zoo2: ZooKeeper, backend: Backend, kazoo: KazooClient, path: str, place: int
) -> None:
    async with ZooKeeper.from_url(backend.url, lease_time=CLIENT_LEASE) as zoo3:
        lock = zoo.get_semaphore_mutex(path)
        lease = await lock.acquire()
        waiting = []
        for count, client in enumerate((zoo2, zoo3), 1):
            waiting.append(asyncio.create_task(client.get_semaphore_mutex(path).acquire()))
            await queued(lock, count)
        await until_nodes(kazoo, path, 2, 2)
        waiting[place].cancel()
        await queued(lock, 1)
        await lease.release()
        async with asyncio.timeout(LONG):
            last = await waiting[1 - place]
        gate, leases = nodes(kazoo, path)
        assert (gate, len(leases)) == ([], 1)
        await last.release()
        assert nodes(kazoo, path) == ([], [])


async def test_one_that_lost_the_gate_gives_up_its_place(
    zoo: ZooKeeper, zoo2: ZooKeeper, curator: Worker, kazoo: KazooClient, path: str
) -> None:
    lease = await zoo.get_semaphore_mutex(path).acquire()
    waiting = asyncio.create_task(zoo2.get_semaphore_mutex(path).acquire())
    await until_nodes(kazoo, path, 1, 2)
    (contender,) = nodes(kazoo, path)[0]
    kazoo.delete(f"{path}/locks/{contender}")
    theirs = asyncio.create_task(curator.acquire(f"semaphore:{path}", wait=LONG))
    # The one that has the gate now is the only one in `leases` beside the holder.
    await until_nodes(kazoo, path, 2, 2)
    await lease.release()

    async def theirs_in_turn() -> None:
        assert await theirs
        await curator.release(f"semaphore:{path}")

    async def ours_in_turn() -> None:
        await (await waiting).release()

    # Who noticed first, the one without its gate or the newcomer, has the place.
    async with asyncio.timeout(LONG):
        await asyncio.gather(theirs_in_turn(), ours_in_turn())
    assert nodes(kazoo, path) == ([], [])


async def test_asking_twice_is_answered_once(backend: Backend, path: str) -> None:
    bell = Bell()
    async with opened(backend.url, bell) as store, opened(backend.url) as other:
        first = await store.ask(semaphore_wish(path, "one:1"), soon())
        again = await store.ask(semaphore_wish(path, "one:1"), soon())
        assert isinstance(first, Granted)
        assert isinstance(again, Granted)
        assert first.token == again.token
        for _ in range(2):
            assert isinstance(await other.ask(semaphore_wish(path, "two:1"), soon()), Busy)
        assert (await store.look(path, soon(), "semaphore")).waiters == ("two:1",)
        assert await other.give_back(path, "two:1", True, now() + LONG) is False
        assert await store.give_back(path, "one:1", True, now() + LONG) is True
        assert (await store.look(path, soon(), "semaphore")).holder is None


async def test_a_cut_connection_is_no_loss(
    backend: Backend, zoo: ZooKeeper, kazoo: KazooClient, path: str
) -> None:
    async with RawProxy(backend.server.port) as proxy:
        url = backend.url_at(proxy.port)
        async with ZooKeeper.from_url(url, lease_time=CLIENT_LEASE) as cut:
            lease = await zoo.get_semaphore_mutex(path).acquire()
            waiting = asyncio.create_task(cut.get_semaphore_mutex(path).acquire())
            lock = zoo.get_semaphore_mutex(path)
            await queued(lock, 1)
            proxy.cut()
            await cut.ping()
            await lease.release()
            async with asyncio.timeout(LONG):
                held = await waiting
            proxy.cut()
            await cut.ping()
            assert await cut.get_semaphore_mutex(path).locked()
            assert len(nodes(kazoo, path)[1]) == 1
            await held.release()
            assert nodes(kazoo, path) == ([], [])


async def test_the_end_of_a_session_ends_the_body(
    backend: Backend, zoo: ZooKeeper, path: str
) -> None:
    reached = False
    async with ZooKeeperProxy(backend.server.port) as proxy:
        url = backend.url_at(proxy.port)
        async with ZooKeeper.from_url(url, lease_time=LEASE) as client:
            with pytest.raises(LeaseLostError):
                async with client.get_semaphore_mutex(path) as lease:
                    proxy.black_hole(True)
                    await asyncio.sleep(LONG)
                    reached = True
            assert not reached
            async with asyncio.timeout(LONG), zoo.get_semaphore_mutex(path):
                assert lease.lost
                proxy.black_hole(False)
                proxy.cut()
                await client.ping(timeout=LONG)
                assert await client.get_semaphore_mutex(path).try_acquire() is None
            async with asyncio.timeout(LONG), client.get_semaphore_mutex(path):
                pass


@pytest.mark.parametrize("fate", ["cut before", "cut after", "swallow"])
@pytest.mark.parametrize("step", ["the gate", "the lease", "leaving the gate", "the release"])
async def test_a_request_without_an_answer_leaves_nothing(
    backend: Backend, kazoo: KazooClient, path: str, step: str, fate: Fate
) -> None:
    # Both directories are there: each step is one request.
    kazoo.ensure_path(f"{path}/locks")
    kazoo.ensure_path(f"{path}/leases")
    owner = f"one:{next(_numbers)}"
    async with ZooKeeperProxy(backend.server.port) as proxy, opened(proxy.url) as store:
        if step == "the lease":
            proxy.next(CREATE, "pass")
        elif step == "the release":
            proxy.next(DELETE, "pass")
        proxy.next(CREATE if step in {"the gate", "the lease"} else DELETE, fate)
        async with asyncio.timeout(LONG):
            answer = await store.ask(semaphore_wish(path, owner), soon())
            assert isinstance(answer, Granted)
            if step != "the release":
                assert [len(each) for each in nodes(kazoo, path)] == [0, 1]
            await store.give_back(path, owner, True, soon())
        assert proxy.hit.is_set()
        assert nodes(kazoo, path) == ([], [])


async def test_they_wait_for_us_and_we_for_them(curator: Worker, zoo: ZooKeeper, path: str) -> None:
    name, lock = f"semaphore:{path}", zoo.get_semaphore_mutex(path)
    async with asyncio.timeout(LONG):
        async with lock:
            assert not await curator.acquire(name)
            waiting = asyncio.create_task(curator.acquire(name, wait=LONG))
            await queued(lock, 1)
        assert await waiting
        assert await lock.try_acquire() is None
        assert (await lock.inspect()).holders[0].owner.count(".") == 3
        ours = asyncio.create_task(lock.acquire())
        await queued(lock, 1)
        assert not ours.done()
        await curator.release(name)
        await (await ours).release()
        assert await curator.acquire(name)
        await curator.release(name)


async def test_both_at_the_gate_are_served_in_their_order(
    curator: Worker, zoo: ZooKeeper, zoo2: ZooKeeper, path: str
) -> None:
    name, order = f"semaphore:{path}", list[str]()
    lock = zoo.get_semaphore_mutex(path)

    async def they(thread: str) -> None:
        assert await curator.acquire(name, thread, LONG)
        order.append(thread)
        await curator.release(name, thread)

    async def we(client: ZooKeeper, owner: str) -> None:
        async with client.get_semaphore_mutex(path):
            order.append(owner)

    async with asyncio.timeout(LONG), asyncio.TaskGroup() as group:
        assert await curator.acquire(name, "first")
        turns = (we(zoo, "ours 1"), they("theirs-1"), we(zoo2, "ours 2"), they("theirs-2"))
        for count, turn in enumerate(turns, 1):
            group.create_task(turn)
            await queued(lock, count)
        await curator.release(name, "first")
    assert order == ["ours 1", "theirs-1", "ours 2", "theirs-2"]


async def test_a_holder_that_was_killed_lets_the_other_in(
    backend: Backend, curator: Worker, zoo: ZooKeeper, path: str
) -> None:
    name, lock = f"semaphore:{path}", zoo.get_semaphore_mutex(path)
    async with asyncio.timeout(2 * LONG):
        with workers.theirs("zookeeper", backend, session=3) as dying:
            assert await dying.acquire(name)
            waiting = asyncio.create_task(lock.acquire())
            await queued(lock, 1)
            dying.kill()
            await (await waiting).release()
        with workers.ours("zookeeper", backend, session=3) as dying:
            assert await dying.acquire(name, wait=LONG)
            theirs = asyncio.create_task(curator.acquire(name, wait=LONG))
            await queued(lock, 1)
            dying.kill()
            assert await theirs
            await curator.release(name)


async def test_processes_of_both_languages_take_turns(
    backend: Backend, curator: Worker, zoo: ZooKeeper, path: str, tmp_path: Path
) -> None:
    times, file, name = 10, tmp_path / "file", f"semaphore:{path}"
    file.write_text("")
    lock = zoo.get_semaphore_mutex(path)
    with ExitStack() as started:
        crowd = {
            f"{start.__name__}{number}": started.enter_context(start("zookeeper", backend))
            for start in (workers.theirs, workers.ours)
            for number in range(2)
        }
        async with asyncio.timeout(6 * LONG):
            async with lock:
                working = [
                    asyncio.create_task(each.crowd(name, file, times, line))
                    for line, each in crowd.items()
                ]
                await queued(lock, len(crowd))
            await asyncio.gather(*working)
    assert Counter(file.read_text().split()) == dict.fromkeys(crowd, times)
    assert not await lock.locked()
