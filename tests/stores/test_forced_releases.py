"""Forced releases that are sent twice, arrive late or overtake an answer, on real servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from redisson_py import Redisson
from redisson_py._stores.contract import State
from redisson_py._stores.mysql import MySQLStore
from redisson_py._stores.mysql.connections import Answer as MySQLAnswer
from redisson_py._stores.mysql.connections import Connections as MySQLConnections
from redisson_py._stores.postgres import PostgresStore, sql
from tests.fixtures.redis_server import unavailable
from tests.stores.backends import Client
from tests.stores.conftest import NewClient
from tests.stores.faults_scene import SOON
from tests.stores.mysql import scene as mysql_scene
from tests.stores.mysql.server import MariaDB, MariaDBNotFoundError, running_mariadb
from tests.stores.postgres import scene as postgres_scene
from tests.stores.postgres.scene import connected, id_of, row_of, soon, until_blocked
from tests.stores.postgres.server import PostgresServer, running_postgres


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with running_postgres() as running:
        yield running


@pytest.fixture(scope="module")
def mariadb() -> Iterator[MariaDB]:
    try:
        with running_mariadb() as running:
            yield running
    except MariaDBNotFoundError as error:
        unavailable(str(error))


@pytest_asyncio.fixture
async def in_postgres(postgres: PostgresServer) -> AsyncIterator[PostgresStore]:
    async with postgres_scene.started(postgres.url) as store:
        yield store


@pytest_asyncio.fixture
async def in_mysql(mariadb: MariaDB) -> AsyncIterator[MySQLStore]:
    async with mysql_scene.started(mariadb.url()) as store:
        yield store


@pytest.mark.parametrize("same", ["token", "owner"])
async def test_postgres_ends_no_later_hold(
    postgres: PostgresServer, in_postgres: PostgresStore, same: str
) -> None:
    """The bytes of a request arrive after the hold was given back, and granted again."""
    late = await postgres_scene.granted(in_postgres, "late", "a:1")
    await in_postgres.give_back("late", "a:1", False, soon())
    later = await postgres_scene.granted(in_postgres, "late", "b:1")
    arguments = {"token": ("a:1", later.token), "owner": ("b:1", late.token)}[same]
    async with connected(postgres.url) as connection:
        await connection.fetch(sql.FORCE_RELEASE, id_of("late"), "channel", *arguments)
        assert (await row_of(connection, "late"))["owner"] == "b:1"
        await in_postgres.force_release("late", soon())
        assert (await row_of(connection, "late"))["owner"] is None


async def test_postgres_tells_that_it_was_held_though_sent_twice(
    postgres: PostgresServer, in_postgres: PostgresStore
) -> None:
    """Somebody has locked the row for longer than a connection has to answer."""
    await postgres_scene.granted(in_postgres, "twice", "a:1")
    async with connected(postgres.url) as user, connected(postgres.url) as watching:
        async with user.transaction():
            await user.fetch(f"SELECT * FROM {sql.TABLE} FOR UPDATE")
            forced = asyncio.create_task(in_postgres.force_release("twice", soon(6.0)))
            await until_blocked(watching, 2)
        assert await forced
        assert (await row_of(watching, "twice"))["owner"] is None


@pytest.mark.parametrize("kind", ["postgres", "mysql"])
async def test_one_of_two_at_once_ended_the_hold(
    in_mysql: MySQLStore, in_postgres: PostgresStore, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "mysql":
        await mysql_scene.granted(in_mysql, "two", mysql_scene.owner())
    else:
        await postgres_scene.granted(in_postgres, "two", "a:1")
    store = in_mysql if kind == "mysql" else in_postgres
    look, looked = store.look, asyncio.Barrier(2)

    async def look_together(name: str, deadline: float) -> State:
        state = await look(name, deadline)
        await looked.wait()
        return state

    monkeypatch.setattr(type(store), "look", staticmethod(look_together))
    answers = await asyncio.gather(*(store.force_release("two", soon()) for _ in range(2)))
    assert sorted(answers) == [False, True]


async def test_mysql_tells_that_it_was_held_though_sent_twice(
    in_mysql: MySQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first sending had no answer, and was carried out."""
    run = MySQLConnections.run

    async def run_twice(
        self: MySQLConnections, query: str, deadline: float, about: str, **options: Any
    ) -> MySQLAnswer:
        first = await run(self, query, deadline, about, **options)
        if not query.lstrip().startswith("UPDATE"):
            return first
        second = await run(self, query, deadline, about, **options)
        assert (first.changed, second.changed) == (1, 0)
        return MySQLAnswer(second.changed, second.rows, second.before, resent=True)

    await mysql_scene.granted(in_mysql, "twice", mysql_scene.owner())
    monkeypatch.setattr(MySQLConnections, "run", run_twice)
    assert await in_mysql.force_release("twice", soon())
    monkeypatch.undo()
    assert not await in_mysql.force_release("twice", soon())


async def test_a_forced_release_finds_a_grant_whose_answer_is_under_way(
    new_client: NewClient, other: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With several connections answers come in another order than the requests were served."""
    # No renewal is due before the end of the test.
    client = new_client(lease_time=4 * SOON)
    granted, may_come = asyncio.Event(), asyncio.Event()
    if isinstance(client, Redisson):
        pytest.skip("one connection: the answers keep their order")
    store = client._executor.carrier.store
    ask = store.ask

    async def ask_slowly(*arguments: Any, **options: Any) -> Any:
        answer = await ask(*arguments, **options)
        granted.set()
        await may_come.wait()
        return answer

    async with client.get_lock("first"):
        pass
    monkeypatch.setattr(store, "ask", ask_slowly)
    acquiring = asyncio.create_task(client.get_lock("k").acquire())
    await granted.wait()
    assert await client.get_lock("k").force_release()
    taken = await other.get_lock("k").acquire(timeout=SOON)
    may_come.set()
    lease = await acquiring
    async with asyncio.timeout(SOON):
        await lease.wait_lost()
    await taken.release()
