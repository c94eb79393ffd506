"""etcd, once for each file of tests or that of the contract; its clients, and Go's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from redisson_py.etcd import Election
from tests.fixtures.backends import Running
from tests.fixtures.redis_server import unavailable
from tests.stores import workers
from tests.stores.backends import Backend
from tests.stores.builds import ProgramNotFoundError
from tests.stores.election_support import election_of
from tests.stores.etcd.client import (
    Client,
)
from tests.stores.etcd.server import EtcdServer
from tests.stores.workers import Worker


@pytest.fixture(scope="module")
def server() -> Iterator[EtcdServer]:
    with EtcdServer() as started:
        yield started


@pytest.fixture
def go(backend: Backend) -> Iterator[Worker]:
    try:
        worker = workers.theirs("etcd", backend)
    except ProgramNotFoundError as error:
        unavailable(str(error))
    with worker:
        yield worker


@pytest.fixture
def backend(running_backend: Running) -> Backend:
    return running_backend("etcd")


@pytest_asyncio.fixture
async def one(server: EtcdServer) -> AsyncIterator[Client]:
    async with Client(server.url) as client:
        yield client


@pytest.fixture
def election(client: Any, name: str) -> Election:
    return election_of(client, name)


@pytest_asyncio.fixture
async def two(server: EtcdServer) -> AsyncIterator[Client]:
    async with Client(server.url) as client:
        yield client


@pytest.fixture
def others(other: Any, name: str) -> Election:
    """The same election, of another client."""
    return election_of(other, name)
