"""Each store's server, once for all tests, and clients that must be left idle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import pytest_asyncio

from redisson_py import Redisson
from redisson_py._engine.context import Context
from tests.stores.backends import BACKENDS, Backend, Client, started
from tests.stores.traces import Loops
from tests.support.waiting import until

NewClient = Callable[..., Client]


@pytest.fixture(scope="session")
def servers() -> Iterator[dict[str, Backend]]:
    """The stores whose servers run."""
    found: dict[str, Backend] = {}
    yield found
    for backend in found.values():
        backend.close()


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, servers: dict[str, Backend]) -> Backend:
    """One store after the other."""
    return running(servers, request.param)


def running(servers: dict[str, Backend], name: str) -> Backend:
    """Return a store, whose server is started if it does not run yet."""
    if name not in servers:
        servers[name] = started(name)
    return servers[name]


@pytest.fixture
def loops(request: pytest.FixtureRequest) -> Loops:
    """Event loops for tests that are no coroutines."""
    if request.config.getoption("--loop") == "asyncio":
        return Loops(asyncio.new_event_loop)
    return Loops(pytest.importorskip("uvloop").new_event_loop)


@pytest_asyncio.fixture
async def new_client(backend: Backend) -> AsyncIterator[NewClient]:
    """Make clients of the store; the test must leave them idle, or close them itself."""
    made: list[Client] = []

    def make(**options: Any) -> Client:
        made.append(backend.client(**options))
        return made[-1]

    yield make
    for client in made:
        if not client._closed:
            await assert_idle(client)
        await client.aclose()


@pytest_asyncio.fixture
async def client(new_client: NewClient) -> Client:
    """One client."""
    return new_client()


@pytest_asyncio.fixture
async def other(new_client: NewClient) -> Client:
    """Another client, as if in another process."""
    return new_client()


async def assert_idle(client: Client) -> None:
    """Fail if the client still keeps anything: holds, waiters, requests.

    What a loss or a cancelled call has left is given back in the background.
    """
    context: Context = client._context
    assert not context.watchdog.holds
    assert not context.pending
    assert context.registry.waiting == 0
    assert client._table.seats == 0
    if not isinstance(client, Redisson):
        lines = client._executor.carrier.lines
        await until(lambda: not lines)
