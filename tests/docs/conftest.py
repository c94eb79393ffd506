"""The pages on synchronous code run their blocks in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from redisson_py.sync import _loop_thread
from redisson_py.testing import EmbeddedServer
from tests.docs.newcomer import Newcomers
from tests.docs.stores import StoreServers
from tests.fixtures.topologies import found


@pytest.fixture(scope="session", autouse=True)
def loop_thread() -> None:
    """Start the thread of all clients of threads: it stays, with its sockets."""
    _loop_thread.start()


@pytest.fixture(scope="session")
def stores() -> Iterator[StoreServers]:
    """The servers of other stores; each starts when it is needed."""
    servers = StoreServers()
    yield servers
    servers.close()


@pytest.fixture(scope="session")
def newcomers(tmp_path_factory: pytest.TempPathFactory) -> Newcomers:
    """Newcomers who type one line of a page into an empty environment."""
    return Newcomers(tmp_path_factory.mktemp("newcomers"))


@pytest.fixture(scope="module")
def server(server_choice: str) -> Iterator[EmbeddedServer]:
    """The newcomer's server: one that keeps its data."""
    with found(server_choice) as choice:
        own = EmbeddedServer(choice, appendonly=True)
    own.start_blocking()
    try:
        yield own
    finally:
        own.close_blocking()
