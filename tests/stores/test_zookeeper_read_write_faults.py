"""The read-write lock in ZooKeeper when answers are lost, connections break, and sessions end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio
from kazoo.client import KazooClient

from redisson_py import Lease, LeaseLostError
from redisson_py._stores.contract import Busy, Granted, Kind
from redisson_py._stores.zookeeper import ZooKeeperStore
from redisson_py.errors import ConnectionLostError
from redisson_py.zookeeper import ZooKeeper
from tests.stores.zookeeper_proxy import CREATE, Fate, ZooKeeperProxy
from tests.stores.zookeeper_server import ZooKeeperServer
from tests.stores.zookeeper_support import (
    LONG,
    Bell,
    new_owner,
    opened,
    renewal,
    soon,
    wish,
    zookeeper_or_skip,
)
from tests.support.waiting import until, until_async

#: Seconds: the shortest lease that the servers' limits allow, in a test that waits for its end.
LEASE = 3.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with zookeeper_or_skip(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running


@pytest.fixture
def bell() -> Bell:
    return Bell()


@pytest_asyncio.fixture
async def proxy(server: ZooKeeperServer) -> AsyncIterator[ZooKeeperProxy]:
    async with ZooKeeperProxy(server.port) as running:
        yield running


@pytest_asyncio.fixture
async def store(proxy: ZooKeeperProxy, bell: Bell) -> AsyncIterator[ZooKeeperStore]:
    async with opened(proxy.url, bell) as started:
        yield started


@pytest_asyncio.fixture
async def other(server: ZooKeeperServer) -> AsyncIterator[ZooKeeperStore]:
    async with opened(server.url) as started:
        yield started


@pytest.fixture
def raw(server: ZooKeeperServer) -> Iterator[KazooClient]:
    """Another client of ZooKeeper."""
    client = KazooClient(f"127.0.0.1:{server.port}")
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return str(request.node.name).replace("[", "-")


async def ask(
    store: ZooKeeperStore,
    name: str,
    owner: str,
    kind: Kind,
    *,
    within: str | None = None,
    waits: bool = True,
) -> Granted | Busy:
    asked = replace(wish(name, owner, waits=waits), kind=kind, within=within)
    return await store.ask(asked, soon())


async def nodes(raw: KazooClient, name: str) -> list[str]:
    """Return what is in the directory of a name: kind and number, in order."""
    children: Any = await asyncio.to_thread(raw.get_children, f"/redisson_py/{name}")
    marks = [each[each.index("__") :] for each in children if "__" in each]
    return sorted(marks, key=lambda mark: (mark[-10:], mark))


async def test_nodes_are_those_of_curator(
    store: ZooKeeperStore, raw: KazooClient, name: str
) -> None:
    write, read, later = new_owner(), new_owner(), new_owner()
    assert isinstance(await ask(store, name, write, "write"), Granted)
    assert await ask(store, name, later, "write") == Busy(None)
    assert isinstance(await ask(store, name, read, "read", within=write), Granted)
    # As Curator does, a read under a write has the number of that.
    assert await nodes(raw, name) == [
        "__READ__0000000000",
        "__WRIT__0000000000",
        "__WRIT__0000000001",
    ]
    children: Any = await asyncio.to_thread(raw.get_children, f"/redisson_py/{name}")
    assert all(child.startswith("_c_") and child[39] == "-" for child in children)


async def test_a_waiter_watches_the_one_that_it_waits_for(
    store: ZooKeeperStore, other: ZooKeeperStore, bell: Bell, name: str
) -> None:
    first, reader, second = new_owner(), new_owner(), new_owner()
    assert isinstance(await ask(other, name, first, "write"), Granted)
    assert await ask(other, name, second, "write") == Busy(None)
    assert await ask(store, name, reader, "read") == Busy(None)
    # It watches the first of two writes; when that goes it is the other's turn.
    await other.give_back(name, first, False, soon())
    async with asyncio.timeout(LONG):
        await bell.until_rung(name)
    bell.rung.clear()
    assert await ask(store, name, reader, "read") == Busy(None)
    await other.give_back(name, second, False, soon())
    async with asyncio.timeout(LONG):
        await bell.until_rung(name)
    assert isinstance(await ask(store, name, reader, "read"), Granted)


async def test_an_ask_that_does_not_wait_leaves_no_node(
    store: ZooKeeperStore, other: ZooKeeperStore, raw: KazooClient, name: str
) -> None:
    assert isinstance(await ask(other, name, new_owner(), "write"), Granted)
    assert await ask(store, name, new_owner(), "read", waits=False) == Busy(None)
    assert await ask(store, name, new_owner(), "write", waits=False) == Busy(None)
    assert await nodes(raw, name) == ["__WRIT__0000000000"]


async def test_no_read_under_a_write_that_was_freed_by_force(
    store: ZooKeeperStore, other: ZooKeeperStore, raw: KazooClient, name: str
) -> None:
    write, read, theirs = new_owner(), new_owner(), new_owner()
    assert isinstance(await ask(store, name, write, "write"), Granted)
    assert await ask(other, name, theirs, "write") == Busy(None)
    assert await other.force_release(name, soon(), "write") is True
    assert isinstance(await ask(other, name, theirs, "write"), Granted)
    # This client does not know yet that another writes.
    assert await ask(store, name, read, "read", within=write) == Busy(None)
    assert await nodes(raw, name) == ["__WRIT__0000000001", "__READ__0000000003"]
    assert isinstance(await ask(other, name, theirs, "write"), Granted)
    assert await store.give_back(name, write, False, soon()) is False
    await other.give_back(name, theirs, False, soon())
    assert isinstance(await ask(store, name, read, "read", within=write), Granted)


async def test_no_read_under_a_freed_write_without_waiting(
    store: ZooKeeperStore, other: ZooKeeperStore, raw: KazooClient, name: str
) -> None:
    write, theirs = new_owner(), new_owner()
    assert isinstance(await ask(store, name, write, "write"), Granted)
    assert await other.force_release(name, soon(), "write") is True
    assert isinstance(await ask(other, name, theirs, "write"), Granted)
    asked = await ask(store, name, new_owner(), "read", within=write, waits=False)
    assert asked == Busy(None)
    assert await nodes(raw, name) == ["__WRIT__0000000001"]


@pytest.mark.parametrize("fate", ["cut before", "cut after"])
@pytest.mark.parametrize("kind", ["read", "write"])
async def test_a_creation_without_an_answer_is_found_again(
    store: ZooKeeperStore,
    other: ZooKeeperStore,
    proxy: ZooKeeperProxy,
    name: str,
    kind: Kind,
    fate: Fate,
) -> None:
    owner = new_owner()
    assert isinstance(await ask(other, name, "other:1", kind), Granted)
    await other.give_back(name, "other:1", False, soon())
    proxy.next(CREATE, fate)
    answer = await ask(store, name, owner, kind)
    assert proxy.hit.is_set()
    assert isinstance(answer, Granted)
    state = await other.look(name, soon(), kind)
    holders = [*([] if state.holder is None else [state.holder]), *state.readers]
    assert [(each.owner, each.token) for each in holders] == [(owner, answer.token)]
    assert await store.renew([renewal(name, owner, answer)], soon()) != [None]


@pytest.mark.parametrize("fate", ["cut before", "cut after"])
async def test_a_read_under_a_write_is_found_again(
    store: ZooKeeperStore, proxy: ZooKeeperProxy, raw: KazooClient, name: str, fate: Fate
) -> None:
    write, read = new_owner(), new_owner()
    assert isinstance(await ask(store, name, write, "write"), Granted)
    proxy.next(CREATE, fate)
    answer = await ask(store, name, read, "read", within=write)
    assert proxy.hit.is_set()
    assert isinstance(answer, Granted)
    assert await nodes(raw, name) == ["__READ__0000000000", "__WRIT__0000000000"]
    assert await store.give_back(name, write, False, soon()) is True
    again = await ask(store, name, read, "read", within=write)
    assert isinstance(again, Granted)
    assert again.token == answer.token
    assert await store.give_back(name, read, False, soon()) is True
    assert await nodes(raw, name) == []


@pytest.mark.parametrize("kind", ["read", "write"])
async def test_an_unsure_creation_is_taken_back(
    store: ZooKeeperStore, proxy: ZooKeeperProxy, raw: KazooClient, name: str, kind: Kind
) -> None:
    owner = new_owner()
    assert isinstance(await ask(store, name, "warm:1", kind), Granted)
    await store.give_back(name, "warm:1", False, soon())
    proxy.next(CREATE, "swallow")
    asked = replace(wish(name, owner), kind=kind)
    with pytest.raises(ConnectionLostError) as caught:
        await store.ask(asked, soon(0.3))
    assert caught.value.maybe_held
    assert len(await nodes(raw, name)) == 1
    assert await store.give_back(name, owner, True, soon()) is True
    assert await nodes(raw, name) == []


# As clients see it.


@pytest_asyncio.fixture
async def client(proxy: ZooKeeperProxy) -> AsyncIterator[ZooKeeper]:
    """A client whose connections break."""
    async with ZooKeeper.from_url(proxy.url, lease_time=LEASE) as made:
        yield made


@pytest_asyncio.fixture
async def observer(server: ZooKeeperServer) -> AsyncIterator[ZooKeeper]:
    """A client without faults."""
    async with ZooKeeper.from_url(server.url, lease_time=LEASE) as made:
        yield made


async def test_holds_and_waiters_outlive_a_connection(
    client: ZooKeeper, observer: ZooKeeper, proxy: ZooKeeperProxy, name: str
) -> None:
    lock, theirs = client.get_read_write_lock(name), observer.get_read_write_lock(name)
    their = await theirs.read_lock().acquire()
    reading = await lock.read_lock().acquire()
    writer: Any = asyncio.create_task(lock.write_lock().acquire())

    async def waits() -> bool:
        return len((await theirs.inspect()).waiters) == 1

    await until_async(waits)
    proxy.cut()
    await client.ping()
    await their.release()
    await reading.release()
    async with asyncio.timeout(LONG):
        writing = await writer
    assert not reading.lost
    await writing.release()


async def test_the_end_of_a_session_ends_both_sides(
    client: ZooKeeper, observer: ZooKeeper, proxy: ZooKeeperProxy, name: str
) -> None:
    lock, theirs = client.get_read_write_lock(name), observer.get_read_write_lock(name)
    reached = False
    losses: list[LeaseLostError] = []

    async def work() -> None:
        nonlocal reached
        try:
            async with lock.write_lock(), lock.read_lock():
                proxy.black_hole(True)
                await asyncio.sleep(2 * LONG)
                reached = True
        except LeaseLostError as error:
            losses.append(error)

    async with asyncio.timeout(2 * LONG):
        await work()
        # The server frees both.
        async with theirs.write_lock():
            pass
    proxy.black_hole(False)
    assert not reached
    assert len(losses) == 1
    assert client.statistics().held_leases == 0
    async with asyncio.timeout(LONG), lock.write_lock(), lock.read_lock():
        pass


async def test_no_read_under_a_write_that_was_passed_on(
    client: ZooKeeper, observer: ZooKeeper, proxy: ZooKeeperProxy, name: str
) -> None:
    lock, theirs = client.get_read_write_lock(name), observer.get_read_write_lock(name)
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

    async with asyncio.timeout(LONG):
        tasks = [asyncio.create_task(first())]
        lease = await writing
        tasks.append(asyncio.create_task(second()))
        await until(lambda: client.statistics().waiters == 1)
        proxy.next(CREATE, "hold")
        begin.set()
        await proxy.hit.wait()
        # The read is under way, and another task of this client gets to write.
        await lease.release()
        await until(lambda: entered)
        proxy.release()

        async def waits() -> bool:
            seen = await theirs.inspect()
            return not seen.readers and len(seen.waiters) == 1

        await until_async(waits)
        leave.set()
        await asyncio.gather(*tasks)
    assert entered == ["second writes", "second wrote", "first reads"]
