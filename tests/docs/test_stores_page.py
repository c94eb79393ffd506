"""What README.md and docs/stores.md say of other stores is true on their real servers."""

from __future__ import annotations

import asyncio
import re
import tomllib
from importlib import import_module

import asyncpg
import pytest

from redisson_py._stores.client import StoreClient
from redisson_py.mysql import MySQL
from redisson_py.mysql import schema_sql as mysql_schema
from redisson_py.postgres import Postgres
from redisson_py.postgres import schema_sql as postgres_schema
from tests.docs.pages import DOCS, PAGES, blocks_of
from tests.docs.stores import URLS, StoreServers
from tests.support import repository

PAGE = DOCS / "stores.md"
ROW = re.compile(
    r"^\| (?P<store>[^|]+) \| `redisson_py\.(?P<module>\w+)\.(?P<name>\w+)` \| `(?P<url>[^`]+)`"
    r" \|[^|]+\| (?P<wakes>[^|]+) \|$",
    re.MULTILINE,
)
ROWS = [found.groupdict() for found in ROW.finditer(PAGES[0].read_text("utf-8"))]


def blocks(language: str) -> list[str]:
    """Return the blocks of the page in a language."""
    return [each.code.strip() for each in blocks_of(PAGE) if each.language == language]


def test_readme_has_a_row_for_each_store() -> None:
    assert [row["url"] for row in ROWS] == list(URLS)
    extras = tomllib.loads((repository.ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert {row["module"] for row in ROWS} <= set(extras["optional-dependencies"])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row["module"]))
async def test_a_row_is_true_on_a_real_server(row: dict[str, str], stores: StoreServers) -> None:
    kind = getattr(import_module(f"redisson_py.{row['module']}"), row["name"])
    url = stores.in_code(row["url"])
    async with kind.from_url(url) as one, kind.from_url(url) as other:
        assert isinstance(one, StoreClient)

        async def wait() -> int:
            async with other.get_fenced_lock("readme") as lease:
                return int(lease.token)

        async with one.get_fenced_lock("readme") as first:
            assert await other.get_lock("readme").try_acquire() is None
            waiting = asyncio.create_task(wait())
            if "fair" in row["wakes"]:
                async with asyncio.timeout(60):
                    # The order is in the store: it knows the waiters.
                    while not (await one.get_lock("readme").inspect()).waiters:
                        await asyncio.sleep(0.01)
        assert await waiting > first.token
        for name in ("get_semaphore", "get_fair_lock", "get_multi_lock"):
            assert hasattr(one, name) == (name == "get_semaphore" and isinstance(one, Postgres))


async def test_sql_for_postgres_runs(stores: StoreServers) -> None:
    server = stores.backend("postgres").server
    schema, *others = blocks("postgresql")
    assert postgres_schema().startswith(f"{schema}\nCOMMENT ON TABLE")
    async with Postgres.from_url(server.url) as store:
        async with store.get_semaphore("made", 1), store.get_once("made"):
            pass
        connection = await asyncpg.connect(server.url)
        try:
            await connection.execute("CREATE ROLE app LOGIN")
            for statement in (schema, *others):
                await connection.execute(statement)
            # Least privileges: they are enough.
            async with Postgres.from_url(server.url_of("app")) as app:
                lock, semaphore = app.get_lock("least privileges"), app.get_semaphore("s", 2)
                async with lock, semaphore, app.get_read_write_lock("rw").write_lock():
                    held, shared = [await connection.fetch(each) for each in others[3:5]]
                assert [each["name"] for each in held] == ["least privileges"]
                assert {(each["name"], each["mode"]) for each in shared} == {
                    ("s", "p"),
                    ("rw", "w"),
                }
                async with app.get_once("privileges") as once:
                    await once.complete(b"enough")
                assert (await app.get_once("privileges").inspect()).done
        finally:
            await connection.close()


async def test_sql_for_mysql_runs(stores: StoreServers) -> None:
    server = stores.backend("mysql").server
    statements = blocks("mysql")
    async with MySQL.from_url(server.url()) as store, store.get_lock("looked at"):
        rows = await server.sql(mysql_schema(), *statements)
        assert [row[0] for row in rows] == ["looked at"]
