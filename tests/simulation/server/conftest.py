"""A real Valkey, and the simulated server beside it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from redisson_py.testing import EmbeddedServer, ServerNotFoundError
from tests.fixtures.redis_server import unavailable
from tests.simulation.server.twins import Twins


@pytest.fixture(scope="module")
def valkey_url() -> Iterator[str]:
    """The URL of a Valkey, whatever server the other tests of the session have.

    Replies of other servers and versions differ in their texts, and time within a transaction
    stands still on newer ones only.
    """
    server = EmbeddedServer("valkey")
    try:
        server.start_blocking()
    except ServerNotFoundError as error:
        unavailable(str(error))
    try:
        yield server.url
    finally:
        server.close_blocking()


@pytest.fixture
def twins(valkey_url: str) -> Iterator[Twins]:
    """Both servers, empty."""
    twins = Twins(valkey_url)
    yield twins
    twins.close()
