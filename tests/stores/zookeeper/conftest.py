"""The server of ZooKeeper that all tests share; stores, and kazoo's client of it."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from kazoo.client import KazooClient

from redisson_py._stores.zookeeper import ZooKeeperStore
from tests.fixtures.backends import Running
from tests.stores.backends import Backend
from tests.stores.bell import Bell
from tests.stores.zookeeper.proxy import ZooKeeperProxy
from tests.stores.zookeeper.server import ZooKeeperServer
from tests.stores.zookeeper.support import opened, stranger

_numbers = itertools.count(1)


@pytest.fixture
def backend(running_backend: Running) -> Backend:
    return running_backend("zookeeper")


@pytest.fixture
def server(backend: Backend) -> ZooKeeperServer:
    assert isinstance(backend.server, ZooKeeperServer)
    return backend.server


@pytest_asyncio.fixture
async def proxy(server: ZooKeeperServer) -> AsyncIterator[ZooKeeperProxy]:
    async with ZooKeeperProxy(server.port) as running:
        yield running


@pytest.fixture
def bell() -> Bell:
    return Bell()


@pytest.fixture
def name() -> str:
    return f"/{next(_numbers)}/name"


@pytest_asyncio.fixture
async def store(proxy: ZooKeeperProxy, bell: Bell) -> AsyncIterator[ZooKeeperStore]:
    """A store whose connections may fail."""
    async with opened(proxy.url, bell) as started:
        yield started


@pytest_asyncio.fixture
async def theirs(server: ZooKeeperServer) -> AsyncIterator[ZooKeeperStore]:
    """Another one, which has no faults."""
    async with opened(server.url) as started:
        yield started


@pytest.fixture
def kazoo(server: ZooKeeperServer) -> Iterator[KazooClient]:
    with stranger(server) as client:
        yield client
