"""Whose table is used in a schema in which everybody may create objects, as `public` once was."""

from __future__ import annotations

import asyncio

import pytest

from redisson_py._stores.postgres import PostgresStore, schema_sql
from redisson_py._stores.postgres.table import in_schema
from redisson_py.errors import BackendError, ConnectionLostError, UnsupportedServerError
from redisson_py.postgres import Postgres, once_schema_sql
from tests.stores.databases import Bell, granted, soon, wish
from tests.stores.postgres.scene import connected, started, until_blocked
from tests.stores.postgres.server import PostgresServer, running_postgres

_ROLES = {
    "app": "",
    "group_of_app": "",
    "owner_of_schema": "",
    "owner_of_database": "",
    "boss": "SUPERUSER",
    "stranger": "",
}


@pytest.fixture
async def urls(server: PostgresServer) -> dict[str, str]:
    """Two clients: one of the role `app`, and one that may do everything."""
    async with connected(server.url) as admin:
        if not await admin.fetchval("SELECT 1 FROM pg_roles WHERE rolname = 'app'"):
            for role, rights in _ROLES.items():
                await admin.execute(f"CREATE ROLE {role} LOGIN {rights}")
            await admin.execute("GRANT group_of_app TO app")
            await admin.execute("CREATE DATABASE theirs OWNER owner_of_database")
    async with connected(server.url_of("postgres", "theirs")) as admin:
        await admin.execute(
            "DROP SCHEMA IF EXISTS open, shut CASCADE;"
            "CREATE SCHEMA open AUTHORIZATION owner_of_schema; CREATE SCHEMA shut;"
            "GRANT CREATE, USAGE ON SCHEMA open TO PUBLIC; GRANT USAGE ON SCHEMA shut TO PUBLIC"
        )
        for schema in ("open", "shut"):
            await admin.execute(in_schema(schema_sql(), schema))
            await admin.execute(f"GRANT ALL ON {schema}.redisson_py_locks TO PUBLIC")
    return {user: server.url_of(user, "theirs") for user in ("app", "postgres")}


async def give(urls: dict[str, str], schema: str, owner: str) -> None:
    async with connected(urls["postgres"]) as admin:
        await admin.execute(f"ALTER TABLE {schema}.redisson_py_locks OWNER TO {owner}")


@pytest.mark.parametrize("owner", [role for role in _ROLES if role != "stranger"])
async def test_who_may_be_trusted_may_own_the_table(urls: dict[str, str], owner: str) -> None:
    await give(urls, "open", owner)
    async with started(f"{urls['app']}?search_path=open") as store:
        await granted(store, "k", "a:01")


@pytest.mark.parametrize("user", ["app", "postgres"])
async def test_a_stranger_may_not(urls: dict[str, str], user: str) -> None:
    """Nor for a client that may do everything, whose rights are the ones to catch."""
    await give(urls, "open", "stranger")
    with pytest.raises(BackendError, match="the role 'stranger' owns the table"):
        await PostgresStore(f"{urls[user]}?search_path=open").start(Bell(), soon())


async def test_all_tables_are_beside_that_of_locks(urls: dict[str, str]) -> None:
    """Others of their names stand before them on the search_path."""
    async with connected(urls["postgres"]) as admin:
        await admin.execute("DROP SCHEMA IF EXISTS early CASCADE; CREATE SCHEMA early")
        await admin.execute("GRANT CREATE, USAGE ON SCHEMA early, shut TO app")
        await admin.execute("DROP TABLE shut.redisson_py_shared")
        for statement in (once_schema_sql(), schema_sql()):
            await admin.execute(in_schema(statement, "early"))
        await admin.execute("DROP TABLE early.redisson_py_locks")
        async with Postgres.from_url(f"{urls['app']}?search_path=early,shut") as client:
            async with client.get_once("k") as once, client.get_semaphore("k", 1):
                await once.complete(b"done")
        for table in ("redisson_py_once", "redisson_py_shared"):
            assert await admin.fetchval(f"SELECT count(*) FROM shut.{table}") == 1
            assert await admin.fetchval(f"SELECT count(*) FROM early.{table}") == 0


async def test_where_few_may_create_all_owners_are_trusted(urls: dict[str, str]) -> None:
    await give(urls, "shut", "stranger")
    async with started(f"{urls['app']}?search_path=shut,open") as store:
        await granted(store, "k", "a:01")


async def test_a_clients_with_all_rights_trusts_no_group(urls: dict[str, str]) -> None:
    """It has the rights of every role, so that says nothing."""
    await give(urls, "open", "group_of_app")
    with pytest.raises(BackendError, match="everybody may create objects in the schema 'open'"):
        await PostgresStore(f"{urls['postgres']}?search_path=open").start(Bell(), soon())


async def test_a_role_that_may_not_create_is_shown_the_sql(server: PostgresServer) -> None:
    async with connected(server.url) as raw:
        await raw.execute("CREATE ROLE poor LOGIN")
        await raw.execute("CREATE DATABASE poor")
        url = server.url_of("poor", "poor")
        with pytest.raises(BackendError, match="CREATE TABLE IF NOT EXISTS redisson_py_locks"):
            await PostgresStore(url).start(Bell(), soon())
    async with connected(server.url_of("postgres", "poor")) as raw:
        await raw.execute(schema_sql())
        with pytest.raises(BackendError, match="SELECT, INSERT and UPDATE"):
            await PostgresStore(url).start(Bell(), soon())
        await raw.execute("GRANT SELECT, INSERT, UPDATE ON redisson_py_locks TO poor")
        async with started(url) as store:
            await granted(store, "poor", "a:1")
            assert await store.give_back("poor", "a:1", False, soon())
        comment = await raw.fetchval("SELECT obj_description('redisson_py_locks'::regclass)")
        assert "may be deleted at any time" in comment


async def test_a_table_that_goes_or_is_another_is_reported(server: PostgresServer) -> None:
    async with connected(server.url) as raw:
        await raw.execute("CREATE DATABASE other")
    url = server.url_of("postgres", "other")
    async with connected(url) as raw, started(url) as store:
        await raw.execute("DROP TABLE redisson_py_locks")
        with pytest.raises(BackendError, match="schema_sql"):
            await store.ask(wish("gone", "a:1"), soon())
        await raw.execute("CREATE TABLE redisson_py_locks (id bytea)")
        with pytest.raises(UnsupportedServerError, match="drop it"):
            await PostgresStore(url).start(Bell(), soon())


async def test_refused_credentials_are_not_repeated(server: PostgresServer) -> None:
    async with connected(server.url) as raw:
        await raw.execute("CREATE ROLE secretive LOGIN PASSWORD 'right'")
    for url in (
        server.url_of("secretive:hunter2"),
        server.url_of("secretive:right", "nowhere"),
    ):
        store = PostgresStore(url)
        with pytest.raises(BackendError, match=r"user or the password|does not exist") as caught:
            await store.start(Bell(), soon())
        for shown in (str(caught.value), repr(store), store.where):
            for part in ("hunter2", "right", "secretive", "nowhere"):
                assert part not in shown


async def test_one_locked_out_while_it_waits_is_not_named() -> None:
    """Its request may be carried out; the next connection is refused."""
    with running_postgres() as server:
        async with connected(server.url) as admin, connected(server.url) as watching:
            await admin.execute("CREATE ROLE secretive LOGIN SUPERUSER PASSWORD 'before'")
            async with started(server.url_of("secretive:before")) as store:
                await granted(store, "k", "a:01")
                async with admin.transaction():
                    await admin.fetch("SELECT * FROM redisson_py_locks FOR UPDATE")
                    release = asyncio.create_task(store.give_back("k", "a:01", False, soon()))
                    await until_blocked(watching)
                    await watching.execute("ALTER ROLE secretive PASSWORD 'after'")
                    await watching.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                        " WHERE usename = 'secretive'"
                    )
                    with pytest.raises(ConnectionLostError, match="rejects the user") as caught:
                        await release
                assert caught.value.maybe_held
                assert "secretive" not in str(caught.value)
