"""ZooKeeper, once for each file of tests or that of the contract, and clients of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from kazoo.client import KazooClient

from redisson_py._stores.zookeeper import ZooKeeperStore
from tests.fixtures.backends import Running
from tests.stores.backends import Backend
from tests.stores.zookeeper.proxy import ZooKeeperProxy
from tests.stores.zookeeper.server import ZooKeeperServer
from tests.stores.zookeeper.support import (
    Bell,
    opened,
    zookeeper_or_skip,
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with zookeeper_or_skip(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running


@pytest.fixture
def backend(running_backend: Running) -> Backend:
    return running_backend("zookeeper")


@pytest_asyncio.fixture
async def proxy(server: ZooKeeperServer) -> AsyncIterator[ZooKeeperProxy]:
    async with ZooKeeperProxy(server.port) as running:
        yield running


@pytest.fixture
def bell() -> Bell:
    return Bell()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return str(request.node.name).replace("[", "-")


@pytest_asyncio.fixture
async def store(proxy: ZooKeeperProxy, bell: Bell) -> AsyncIterator[ZooKeeperStore]:
    async with opened(proxy.url, bell) as started:
        yield started


@pytest.fixture
def kazoo(backend: Backend) -> Iterator[KazooClient]:
    client = KazooClient(f"127.0.0.1:{backend.server.port}")
    client.start()
    yield client
    client.stop()
    client.close()
