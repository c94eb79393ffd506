"""A database that takes no writes for longer than a call waits, as in a failover."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from redisson_py.errors import BackendError, ConnectionLostError, ReleaseFailedError
from tests.stores.backends import Backend
from tests.stores.conftest import NewClient
from tests.stores.databases import soon
from tests.stores.postgres.scene import connected
from tests.support.any_client import Client
from tests.support.waiting import until_async

pytestmark = pytest.mark.parametrize("backend", ["postgres", "mysql"], indirect=True)

#: Seconds that a call waits.
SHORT = 2.0


@asynccontextmanager
async def read_only(backend: Backend, client: Client) -> AsyncIterator[None]:
    """Have the server take no writes for the time of a block; the client has a connection."""
    if "mysql" in backend.url:
        async with backend.server.settings(read_only="1"):
            yield
        return
    connections = client._store._connections  # type: ignore[union-attr]

    async def is_noticed() -> bool:
        answer = await connections.fetch("SHOW default_transaction_read_only", (), soon())
        return bool(answer.value[0][0] == "on")

    async with connected(backend.url) as raw:
        await raw.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        await raw.execute("SELECT pg_reload_conf()")
        try:
            await until_async(is_noticed)
            yield
        finally:
            await raw.execute("ALTER SYSTEM RESET default_transaction_read_only")
            await raw.execute("SELECT pg_reload_conf()")


async def test_a_release_is_repeated_until_a_primary_is_there(
    backend: Backend, new_client: NewClient, other: Client
) -> None:
    client = new_client(command_timeout=SHORT, lease_time=300)
    await client.ping()
    lease = await client.get_lock("k").acquire()
    async with read_only(backend, client):
        with pytest.raises(ReleaseFailedError, match="is repeated until the lease ends"):
            await lease.release()
        store = client._store  # type: ignore[union-attr]
        with pytest.raises(ConnectionLostError, match="read-only"):
            await store.give_back("k", "a:1", False, soon(SHORT))

    async def is_free() -> bool:
        return not await other.get_lock("k").locked()

    await until_async(is_free)


async def test_an_acquire_is_told_why(backend: Backend, new_client: NewClient) -> None:
    client = new_client(command_timeout=SHORT)
    await client.ping()
    async with read_only(backend, client):
        with pytest.raises(BackendError, match="read-only"):
            await client.get_lock("k").acquire()
