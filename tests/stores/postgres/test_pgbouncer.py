"""Behind PgBouncer in transaction mode, which refuses what it does not know."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from redisson_py._stores.contract import Busy
from redisson_py._stores.postgres import PostgresStore
from redisson_py._stores.postgres.queue import POLL_SECONDS
from redisson_py.errors import BackendError, ConnectionLostError
from tests.stores.databases import Bell, busy, granted, soon, wish
from tests.stores.postgres.scene import connected, id_of, started
from tests.stores.postgres.server import DATABASE, LOCKED, PostgresServer, running_pgbouncer


@pytest.fixture(scope="module")
def port(server: PostgresServer) -> Iterator[int]:
    with running_pgbouncer(server) as port:
        yield port


async def test_a_search_path_in_the_url_names_the_schema(server: PostgresServer, port: int) -> None:
    async with connected(server.url) as raw:
        await raw.execute('CREATE SCHEMA "Locks, ours"')
        for at in (port, server.port):
            url = server.url_of("postgres", port=at)
            path = "%22Locks%2C+ours%22,public"
            async with started(f"{url}?search_path={path}", statement_cache_size=0) as store:
                await granted(store, f"k{at}", "a:01")
            owner = 'SELECT owner FROM "Locks, ours".redisson_py_locks WHERE id = $1'
            assert await raw.fetchval(owner, id_of(f"k{at}")) == "a:01"
        async with started(server.url_of("postgres", port=port), statement_cache_size=0):
            assert await raw.fetchval("SELECT to_regclass('public.redisson_py_locks')")


@pytest.mark.parametrize(
    ("database", "arguments", "expected"),
    [
        (DATABASE, "?statement_timeout=500", "unsupported startup parameter: statement_timeout"),
        (DATABASE, "?options=-c%20search_path%3Dlocks", "unsupported startup parameter: options"),
        ("nowhere", "", "does not know the database"),
    ],
)
async def test_what_it_refuses_is_reported_at_once(
    server: PostgresServer, port: int, database: str, arguments: str, expected: str
) -> None:
    url = server.url_of("secretive", database, port)
    with pytest.raises(BackendError, match=expected) as caught:
        await PostgresStore(url + arguments).start(Bell(), soon())
    assert not isinstance(caught.value, ConnectionLostError)
    for secret in ("secretive", "nowhere"):
        assert secret not in str(caught.value)


async def test_no_user_of_it_is_reported(server: PostgresServer, port: int) -> None:
    """It repeats what PostgreSQL says of the user as whom it logs in."""
    async with connected(server.url) as admin:
        await admin.execute("CREATE ROLE secretive LOGIN PASSWORD 'unknown to it'")
    with pytest.raises(ConnectionLostError, match="password authentication failed") as caught:
        await PostgresStore(server.url_of("app", LOCKED, port)).start(Bell(), soon(2))
    assert "secretive" not in str(caught.value)


async def test_a_schema_that_is_not_there_is_reported(server: PostgresServer) -> None:
    with pytest.raises(BackendError, match="no schema of the search_path exists"):
        await PostgresStore(f"{server.url}?search_path=nowhere").start(Bell(), soon())


async def test_behind_a_transaction_pooler_waiters_poll(server: PostgresServer) -> None:
    bell = Bell()
    with running_pgbouncer(server) as port:
        url = server.url_of("postgres", port=port)
        async with (
            started(url, statement_cache_size=0) as one,
            started(url, bell, statement_cache_size=0) as other,
        ):
            await granted(one, "pooled", "a:01")
            assert await busy(other, "pooled", "b:01", waits=True) <= POLL_SECONDS
            assert await busy(other, "pooled", "b:01", waits=True) <= POLL_SECONDS

            async def pairs(store: PostgresStore, owner: str) -> None:
                for number in range(10):
                    asked = wish("pooled pairs", f"{owner}:{number}", waits=True)
                    while isinstance(answer := await store.ask(asked, soon()), Busy):
                        assert answer.retry_in is not None
                        assert answer.retry_in <= POLL_SECONDS
                    assert await store.give_back("pooled pairs", asked.owner, False, soon())

            await asyncio.gather(
                *(
                    pairs(store, f"{id(store)}-{number}")
                    for store in (one, other)
                    for number in "abc"
                )
            )
            assert await one.give_back("pooled", "a:01", False, soon())
            await granted(other, "pooled", "b:01", waits=True)
