"""Clients for threads, and a plain one to look at the server with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis as redis_py

from redisson_py.sync import Redisson, _loop_thread
from redisson_py.sync.postgres import Postgres
from tests.fixtures.backends import Running
from tests.stores.backends import Backend
from tests.sync.stores import new_client
from tests.sync.threads import ClientFactory
from tests.sync.users import USERS, User


@pytest.fixture(scope="session", autouse=True)
def loop_thread() -> None:
    """Start the thread of all clients: it stays, with its sockets, when a test is over."""
    _loop_thread.start()


@pytest.fixture
def clients(server_url: str, client_options: dict[str, Any]) -> Iterator[ClientFactory]:
    """Make clients, `clients(lease_time=3)`; the fixture closes them.

    A test must leave them idle; one that closes a client itself may leave what it likes in it.
    """
    made: list[Redisson] = []

    def make(url: str = server_url, **options: Any) -> Redisson:
        client = Redisson.from_url(url, **{**client_options, **options})
        made.append(client)
        return client

    yield make
    try:
        for client in made:
            if not client._working._life.closed:
                statistics = client.statistics()
                assert (statistics.waiters, statistics.held_leases) == (0, 0)
    finally:
        # What one keeps must not disturb the tests that follow.
        for client in made:
            client.close()


@pytest.fixture
def client(clients: ClientFactory) -> Redisson:
    """One client with default options."""
    return clients()


@pytest.fixture
def look(server_url: str) -> Iterator[redis_py.Redis]:
    """A plain client, to look and to meddle."""
    with redis_py.Redis.from_url(server_url) as client:
        yield client


@pytest.fixture
def backend(running_backend: Running) -> Backend:
    """PostgreSQL."""
    return running_backend("postgres")


@pytest.fixture(params=USERS)
def user(request: pytest.FixtureRequest, backend: Backend) -> Iterator[User]:
    """A connection of a user's to it, of each kind."""
    made = USERS[request.param](backend.url)
    yield made
    made.close()


@pytest.fixture
def store(backend: Backend) -> Iterator[Postgres]:
    """A client of it."""
    with new_client("postgres", backend) as client:
        yield client


@pytest.fixture
def other(backend: Backend) -> Iterator[Postgres]:
    """A client as if of another process."""
    with new_client("postgres", backend) as client:
        yield client
