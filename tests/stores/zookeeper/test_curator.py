"""What only Curator has; see `test_interop`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from redisson_py.zookeeper import ZooKeeper
from tests.fixtures.redis_server import unavailable
from tests.stores import builds
from tests.stores.builds import ProgramNotFoundError
from tests.stores.test_interop import lock_of, queued
from tests.stores.workers import Worker
from tests.stores.zookeeper.server import ZooKeeperServer
from tests.stores.zookeeper.support import zookeeper_or_skip

pytestmark = pytest.mark.usefixtures("no_polls")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    options = ("-Dznode.container.checkIntervalMs=100", "-Dznode.container.maxPerMinute=100000")
    with zookeeper_or_skip(tmp_path_factory.mktemp("zookeeper"), *options) as running:
        yield running


@pytest.fixture(scope="module")
def curator(server: ZooKeeperServer) -> Iterator[Worker]:
    try:
        command = builds.curator()
    except ProgramNotFoundError as error:
        unavailable(str(error))
    with Worker([*command, f"127.0.0.1:{server.port}", "10000"]) as running:
        yield running


async def test_both_see_the_same_contenders(server: ZooKeeperServer, curator: Worker) -> None:
    path = "/seen/by/both"
    assert await curator.acquire(path)
    async with ZooKeeper.from_url(server.url) as client:
        lock = lock_of(client, path)
        waiting = asyncio.create_task(lock.acquire())
        await queued(lock, 1)
        snapshot = await lock.inspect()
        participants = await curator.participants(path)
        assert len(participants) == 2
        assert snapshot.keys == (path, participants[0])
        # Curator writes the address of its machine.
        assert snapshot.holders[0].owner.count(".") == 3
        assert snapshot.waiters is not None
        assert snapshot.waiters[0].startswith(client.id)
        await curator.release(path)
        await (await waiting).release()


async def test_a_thread_of_curator_may_enter_again(
    server: ZooKeeperServer, curator: Worker
) -> None:
    path = "/entered/again"
    assert await curator.acquire(path)
    assert await curator.acquire(path)
    async with ZooKeeper.from_url(server.url) as client:
        await curator.release(path)
        assert await client.get_lock(path).try_acquire() is None
        await curator.release(path)
        async with client.get_lock(path):
            assert not await curator.acquire(path)


async def test_directories_are_made_as_curator_makes_them(
    server: ZooKeeperServer, curator: Worker
) -> None:
    assert await curator.acquire("/made/by/curator")
    zookeeper = KazooClient(f"127.0.0.1:{server.port}")
    zookeeper.start()
    try:
        async with ZooKeeper.from_url(server.url) as client:
            async with client.get_lock("/made2/by/us"):
                theirs, ours = (
                    zookeeper.get_acls(f"{path}/{zookeeper.get_children(path)[0]}")[0]
                    for path in ("/made/by/curator", "/made2/by/us")
                )
                assert theirs == ours
        await curator.release("/made/by/curator")
        # The server deletes containers.
        while zookeeper.exists("/made") or zookeeper.exists("/made2"):
            await asyncio.sleep(0.05)
    finally:
        zookeeper.stop()
        zookeeper.close()
