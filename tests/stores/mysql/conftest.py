"""MariaDB, once for each file of tests, and stores with and without faults."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from redisson_py._stores.mysql import MySQLStore
from redisson_py.testing import FaultProxy
from tests.fixtures.redis_server import unavailable
from tests.stores.databases import Bell
from tests.stores.mysql.scene import started
from tests.stores.mysql.server import MariaDB, MariaDBNotFoundError, running_mariadb


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDB]:
    try:
        with running_mariadb() as running:
            yield running
    except MariaDBNotFoundError as error:
        unavailable(str(error))


@pytest_asyncio.fixture
async def store(server: MariaDB) -> AsyncIterator[MySQLStore]:
    """A store that nothing disturbs."""
    async with started(server.url()) as one:
        yield one


@pytest_asyncio.fixture
async def proxy(server: MariaDB) -> AsyncIterator[FaultProxy]:
    async with FaultProxy("127.0.0.1", server.port, raw=True) as one:
        yield one


@pytest_asyncio.fixture
async def bell() -> Bell:
    return Bell()


@pytest_asyncio.fixture
async def victim(server: MariaDB, proxy: FaultProxy, bell: Bell) -> AsyncIterator[MySQLStore]:
    """A store behind the proxy, with a connection."""
    async with started(server.url(port=proxy.port), bell) as one:
        yield one
        proxy.pass_through()
