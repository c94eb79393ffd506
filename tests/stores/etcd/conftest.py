"""The server of etcd that all tests share; its clients, and Go's."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from redisson_py.etcd import Election
from redisson_py.testing import FaultProxy
from tests.fixtures.backends import Running
from tests.fixtures.redis_server import unavailable
from tests.stores import workers
from tests.stores.backends import Backend
from tests.stores.builds import ProgramNotFoundError
from tests.stores.election_support import election_of
from tests.stores.etcd.client import Client, assert_nothing_remembered
from tests.stores.etcd.server import EtcdServer, GuardedServer
from tests.stores.workers import Worker

_numbers = itertools.count(1)


@pytest.fixture
def backend(running_backend: Running) -> Backend:
    return running_backend("etcd")


@pytest.fixture
def server(backend: Backend) -> EtcdServer:
    assert isinstance(backend.server, EtcdServer)
    return backend.server


@pytest.fixture(scope="session")
def guarded() -> Iterator[GuardedServer]:
    with GuardedServer() as started:
        yield started


@pytest.fixture
def name() -> str:
    return f"/{next(_numbers)}/name"


@pytest_asyncio.fixture
async def proxy(server: EtcdServer) -> AsyncIterator[FaultProxy]:
    async with FaultProxy("127.0.0.1", server.port, raw=True) as started:
        yield started


@pytest_asyncio.fixture
async def one(server: EtcdServer) -> AsyncIterator[Client]:
    async with Client(server.url) as client:
        yield client
        assert_nothing_remembered(client)


@pytest_asyncio.fixture
async def two(server: EtcdServer) -> AsyncIterator[Client]:
    async with Client(server.url) as client:
        yield client


@pytest.fixture
def election(client: Any, name: str) -> Election:
    return election_of(client, name)


@pytest.fixture
def others(other: Any, name: str) -> Election:
    """The same election, of another client."""
    return election_of(other, name)


@pytest.fixture
def go(backend: Backend) -> Iterator[Worker]:
    try:
        worker = workers.theirs("etcd", backend)
    except ProgramNotFoundError as error:
        unavailable(str(error))
    with worker:
        yield worker
