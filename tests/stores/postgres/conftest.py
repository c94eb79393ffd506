"""PostgreSQL, once for each file of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.stores.postgres.server import PostgresServer, running_postgres


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_postgres() as each:
        yield each
