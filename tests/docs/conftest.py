"""The pages on synchronous code run their blocks in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from redisson_py.sync import _loop_thread
from tests.docs.stores import StoreServers


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
