"""What a URL of PostgreSQL says, and what is told of it."""

from __future__ import annotations

from typing import Any

import pytest

from redisson_py import MultiLock
from redisson_py._stores.contract import Store
from redisson_py._stores.postgres import PostgresStore
from redisson_py.postgres import Postgres
from tests.stores.databases import soon
from tests.stores.postgres.scene import connected, started
from tests.stores.postgres.server import HOST, PostgresServer, running_postgres


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


def test_addresses_are_reported_without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("PGHOST", "PGPORT"):
        monkeypatch.delenv(variable, raising=False)

    def where(url: str) -> str:
        store: Store = PostgresStore(url)
        return store.where

    assert where("postgresql://") == "localhost:5432"
    assert where("postgres://u:p@h/d?sslmode=disable") == "h:5432"
    assert where("postgresql://u:p%40@h:1,[::1]:2/d") == "h:1, [::1]:2"
    assert where("postgresql:///d?host=/run/x") == "/run/x:5432"
    assert where("postgresql:///d?host=x,y&port=1,2") == "x:1, y:2"
    assert where("postgresql:///d?host=x,y&port=7") == "x:7, y:7"
    assert where("postgresql:///d?port=7") == "localhost:7"
    with pytest.raises(ValueError, match="one port for each host"):
        where("postgresql:///d?host=x&port=1,2")
    with pytest.raises(ValueError, match="connections"):
        PostgresStore("postgresql://", connections=0)


async def test_an_address_of_the_environment_is_reported(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGHOST", HOST)
    monkeypatch.setenv("PGPORT", str(server.port))
    for url in ("postgresql://postgres@/postgres", f"postgresql://postgres@{HOST}/postgres"):
        async with started(url) as store:
            assert store.where == f"{HOST}:{server.port}"
    assert PostgresStore("postgresql://h:7").where == "h:7"
    assert PostgresStore("postgresql://?host=h").where == f"h:{server.port}"


@pytest.mark.parametrize("option", ["connections", "statement_cache_size"])
@pytest.mark.parametrize(
    ("value", "error"),
    [(-1, ValueError), (2.5, TypeError), (True, TypeError), ("4", TypeError), (None, TypeError)],
)
def test_numbers_are_checked_before_anything_connects(
    option: str, value: Any, error: type[Exception]
) -> None:
    with pytest.raises(error, match=f"{option} must be"):
        PostgresStore("postgresql://", **{option: value})


async def test_of_several_hosts_the_first_that_is_there_counts(server: PostgresServer) -> None:
    async with started(server.url.replace(f"@{HOST}", f"@{HOST}:1,{HOST}")) as store:
        await store.ping(soon())
