"""Whose table is used in a schema in which everybody may create objects, as `public` once was."""

from __future__ import annotations

import pytest

from redisson_py._stores.postgres import PostgresStore, schema_sql, sql
from redisson_py.errors import BackendError
from tests.stores.postgres.scene import Bell, connected, granted, soon, started
from tests.stores.postgres.server import PostgresServer

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
            await admin.execute(sql.in_schema(schema_sql(), schema))
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


async def test_where_few_may_create_all_owners_are_trusted(urls: dict[str, str]) -> None:
    await give(urls, "shut", "stranger")
    async with started(f"{urls['app']}?search_path=shut,open") as store:
        await granted(store, "k", "a:01")


async def test_a_clients_with_all_rights_trusts_no_group(urls: dict[str, str]) -> None:
    """It has the rights of every role, so that says nothing."""
    await give(urls, "open", "group_of_app")
    with pytest.raises(BackendError, match="everybody may create objects in the schema 'open'"):
        await PostgresStore(f"{urls['postgres']}?search_path=open").start(Bell(), soon())
