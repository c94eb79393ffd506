"""Two databases of one PostgreSQL: each has locks of its own. And a user that is locked out."""

from __future__ import annotations

import asyncio

import pytest

from redisson_py import MultiLock
from redisson_py._stores.postgres import PostgresStore
from redisson_py.errors import ConnectionLostError
from redisson_py.postgres import Postgres
from tests.stores.postgres.scene import connected, granted, soon, started, until_blocked
from tests.stores.postgres.server import running_postgres


async def test_one_name_in_two_databases_is_two_locks() -> None:
    with running_postgres() as server:
        async with connected(server.url) as user:
            await user.execute("CREATE DATABASE second")
        urls = server.url, server.url_of("postgres", "second")
        async with Postgres.from_url(urls[0]) as one, Postgres.from_url(urls[1]) as two:
            async with MultiLock(one.get_lock("same"), two.get_lock("same")):
                assert await one.get_lock("same").locked()
                assert await two.get_lock("same").locked()
            with pytest.raises(ValueError, match="the same lock in PostgreSQL"):
                MultiLock(two.get_lock("same"), two.get_fenced_lock("same"))
            by_default = Postgres.from_url(server.url.removesuffix("/postgres"))
            with pytest.raises(ValueError, match="the same lock in PostgreSQL"):
                MultiLock(one.get_lock("same"), by_default.get_lock("same"))


@pytest.mark.parametrize(
    ("url", "same"),
    [
        ("postgresql://u@h/d", "postgresql://u@h?dbname=d"),
        ("postgresql://u@h/d", "postgresql://h?user=v&database=d"),
        ("postgresql://u@h/%64", "postgresql://v:secret@h/d?sslmode=disable"),
        ("postgresql://u@h", "postgresql://h/u"),
        ("postgresql://%75:p@h/", "postgresql://h?user=u"),
    ],
)
def test_spellings_of_one_database_are_one(
    url: str, same: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("PGUSER", "PGDATABASE"):
        monkeypatch.delenv(variable, raising=False)
    assert PostgresStore(url).keys("k") == PostgresStore(same).keys("k")
    assert PostgresStore(url).keys("k") != PostgresStore("postgresql://h/other").keys("k")
    monkeypatch.setenv("PGDATABASE", "other")
    assert PostgresStore("postgresql://u@h").keys("k") == PostgresStore(
        "postgresql://h/other"
    ).keys("k")


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
