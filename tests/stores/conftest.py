"""Each store's server, once for all tests, and clients that must be left idle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from subprocess import CalledProcessError
from typing import Any

import pytest
import pytest_asyncio

from redisson_py import Redisson
from redisson_py._engine.context import Context
from tests.fixtures.backends import Running
from tests.stores import builds
from tests.stores.backends import BACKENDS, Backend
from tests.stores.traces import Loops, use
from tests.support.any_client import Client
from tests.support.waiting import set_safety_poll, until

NewClient = Callable[..., Client]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what tests need before the first begins: a compiler may take longer than a test."""
    needed = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    for fixture, build in (("go", builds.go), ("curator", builds.curator)):
        if not needed.isdisjoint({"theirs", fixture}):
            # The tests report what is missing or has failed.
            with suppress(builds.ProgramNotFoundError, CalledProcessError):
                build()


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, running_backend: Running) -> Backend:
    """One store after the other."""
    return running_backend(request.param)


@pytest.fixture
def loops(request: pytest.FixtureRequest) -> Loops:
    """Event loops for tests that are no coroutines."""
    if request.config.getoption("--loop") == "asyncio":
        return Loops(asyncio.new_event_loop)
    return Loops(pytest.importorskip("uvloop").new_event_loop)


@pytest.fixture
def used_before(backend: Backend, loops: Loops) -> None:
    """Have a client be used: what a driver makes once in a process is there."""

    async def once() -> None:
        client = backend.client()
        await use(client)
        await client.aclose()

    loops.run(once())


@pytest_asyncio.fixture
async def new_client(backend: Backend) -> AsyncIterator[NewClient]:
    """Make clients of the store; the test must leave them idle, or close them itself."""
    made: list[Client] = []

    def make(**options: Any) -> Client:
        made.append(backend.client(**options))
        return made[-1]

    yield make
    try:
        for client in made:
            if not client._life.closed:
                await assert_idle(client)
    finally:
        # What one keeps must not disturb the tests that follow.
        for client in made:
            await client.aclose()


@pytest_asyncio.fixture
async def client(new_client: NewClient) -> Client:
    """One client."""
    return new_client()


@pytest_asyncio.fixture
async def other(new_client: NewClient) -> Client:
    """Another client, as if in another process."""
    return new_client()


@pytest.fixture
def no_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have waiters asked again by nothing but what the store tells: a message missed is missed."""
    set_safety_poll(monkeypatch, 100_000.0)


async def assert_idle(client: Client) -> None:
    """Fail if the client still keeps anything: holds, waiters, requests.

    What a loss or a cancelled call has left is given back in the background.
    """
    context: Context = client._context
    assert not context.watchdog.holds
    assert not context.pending
    assert context.registry.waiting == 0
    assert client._context.bus.table.seats == 0
    if not isinstance(client, Redisson):
        queues = client._executor.carrier.queues
        await until(lambda: not queues)
