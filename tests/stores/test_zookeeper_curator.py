"""A real Curator and the ZooKeeper store have the same locks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from kazoo.client import KazooClient

from redisson_py._stores.contract import Busy, Granted
from redisson_py._stores.zookeeper import ZooKeeperStore
from tests.fixtures.redis_server import unavailable
from tests.stores.curator_worker import Curator, build
from tests.stores.zookeeper_server import ZooKeeperNotFoundError, ZooKeeperServer
from tests.stores.zookeeper_support import (
    Bell,
    granted,
    new_owner,
    opened,
    soon,
    wish,
    zookeeper_or_skip,
)

#: Maven may have to load Curator first.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    options = ("-Dznode.container.checkIntervalMs=100", "-Dznode.container.maxPerMinute=100000")
    with zookeeper_or_skip(tmp_path_factory.mktemp("zookeeper"), *options) as running:
        yield running


@pytest.fixture(scope="module")
def curator(server: ZooKeeperServer) -> Iterator[Curator]:
    try:
        build()
    except ZooKeeperNotFoundError as error:
        unavailable(str(error))
    with Curator(server.port) as running:
        yield running


@pytest.fixture
def bell() -> Bell:
    return Bell()


@pytest_asyncio.fixture
async def store(server: ZooKeeperServer, bell: Bell) -> AsyncIterator[ZooKeeperStore]:
    async with opened(server.url, bell) as started:
        yield started


@pytest.fixture
def path(request: pytest.FixtureRequest) -> str:
    return f"/locks/{request.node.name}"


async def contenders(store: ZooKeeperStore, path: str, count: int) -> None:
    """Wait until there are so many contenders."""
    while True:
        state = await store.look(path, soon())
        if (state.holder is not None) + len(state.waiters) == count:
            return
        await asyncio.sleep(0.01)


async def test_curator_waits_for_a_hold_of_ours(
    store: ZooKeeperStore, curator: Curator, path: str
) -> None:
    owner = new_owner()
    await granted(store, path, owner)
    assert not await curator.acquire(path)
    waiting = asyncio.create_task(curator.acquire(path, wait=30))
    await contenders(store, path, 2)
    assert not waiting.done()
    assert await store.give_back(path, owner, False, soon())
    assert await waiting
    assert await store.ask(wish(path, new_owner(), waits=False), soon()) == Busy(None)
    await curator.release(path)
    await granted(store, path, new_owner())


async def test_a_waiter_of_ours_waits_for_a_hold_of_curators(
    store: ZooKeeperStore, bell: Bell, curator: Curator, path: str
) -> None:
    owner = new_owner()
    assert await curator.acquire(path)
    assert await store.ask(wish(path, owner, waits=False), soon()) == Busy(None)
    assert await store.ask(wish(path, owner), soon()) == Busy(None)
    assert bell.rung == []
    await curator.release(path)
    await bell.until_rung(path)
    await granted(store, path, owner)
    assert not await curator.acquire(path)


async def test_waiters_of_both_are_served_in_the_order_they_came(
    store: ZooKeeperStore, bell: Bell, curator: Curator, path: str
) -> None:
    ours, later = new_owner(), new_owner()
    assert await curator.acquire(path, "one")
    assert await store.ask(wish(path, ours), soon()) == Busy(None)
    second = asyncio.create_task(curator.acquire(path, "two", wait=30))
    await contenders(store, path, 3)
    assert await store.ask(wish(path, later), soon()) == Busy(None)
    await curator.release(path, "one")
    await bell.until_rung(path)
    first = await granted(store, path, ours)
    assert not second.done()
    await store.give_back(path, ours, False, soon())
    assert await second
    assert await store.ask(wish(path, later), soon()) == Busy(None)
    bell.rung.clear()
    await curator.release(path, "two")
    await bell.until_rung(path)
    assert (await granted(store, path, later)).token > first.token


async def test_both_see_the_same_contenders(
    store: ZooKeeperStore, curator: Curator, path: str
) -> None:
    owner = new_owner()
    assert await curator.acquire(path)
    await store.ask(wish(path, owner), soon())
    state = await store.look(path, soon())
    participants = await curator.participants(path)
    assert len(participants) == 2
    assert state.keys == (path, participants[0])
    # Curator writes the address of its machine.
    assert state.holder is not None
    assert state.holder.owner.count(".") == 3
    assert state.waiters == (owner,)
    await curator.release(path)


async def test_a_hold_of_curators_can_be_forced(
    store: ZooKeeperStore, curator: Curator, path: str
) -> None:
    assert await curator.acquire(path)
    assert await store.force_release(path, soon()) is True
    await granted(store, path, new_owner())


async def test_a_curator_that_died_frees_its_hold(
    server: ZooKeeperServer, store: ZooKeeperStore, bell: Bell, path: str, curator: Curator
) -> None:
    with Curator(server.port, session_ms=500) as dying:
        assert await dying.acquire(path)
        assert await store.ask(wish(path, "waits:1"), soon()) == Busy(None)
        dying.end()
        await bell.until_rung(path)
    assert isinstance(await store.ask(wish(path, "waits:1"), soon()), Granted)


async def test_directories_are_made_as_curator_makes_them(
    server: ZooKeeperServer, store: ZooKeeperStore, curator: Curator
) -> None:
    owner = new_owner()
    assert await curator.acquire("/made/by/curator")
    await granted(store, "/made2/by/us", owner)
    client = KazooClient(f"127.0.0.1:{server.port}")
    client.start()
    try:
        theirs, ours = (
            client.get_acls(f"{path}/{client.get_children(path)[0]}")[0]
            for path in ("/made/by/curator", "/made2/by/us")
        )
        assert theirs == ours
        await curator.release("/made/by/curator")
        await store.give_back("/made2/by/us", owner, False, soon())
        # The server deletes containers.
        while client.exists("/made") or client.exists("/made2"):
            await asyncio.sleep(0.05)
    finally:
        client.stop()
        client.close()
