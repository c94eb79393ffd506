"""The store in PostgreSQL, asked as the engine asks it, on a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from redisson_py._stores.contract import Granted, Store
from redisson_py._stores.postgres import PostgresStore, schema_sql
from redisson_py._time import now
from redisson_py.errors import BackendError, ClientClosedError, UnsupportedServerError
from redisson_py.testing import FaultProxy
from tests.stores.postgres.scene import (
    Bell,
    busy,
    connected,
    granted,
    id_of,
    renewal,
    row_of,
    soon,
    started,
    until,
    until_over,
    wish,
)
from tests.stores.postgres.server import HOST, PostgresServer, running_postgres

#: A token beyond the clock of any server, where each one is the last and one more.
FAR = 2**52


@pytest.fixture(scope="module", params=[18, 15])
def server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    with running_postgres(request.param) as each:
        yield each


async def test_a_hold_is_granted_once_and_given_back(server: PostgresServer) -> None:
    async with started(server.url) as one, started(server.url) as other:
        before = now()
        first = await granted(one, "pair", "a:1")
        assert before + 30 <= first.until <= now() + 30
        assert 0 < await busy(other, "pair", "b:1") <= 30
        assert not await other.give_back("pair", "b:1", False, soon())
        assert await one.give_back("pair", "a:1", False, soon())
        second = await granted(other, "pair", "b:2")
        assert second.token > first.token


async def test_asking_twice_changes_nothing(server: PostgresServer) -> None:
    async with started(server.url) as store:
        first = await granted(store, "twice", "a:1", lease=20)
        second = await granted(store, "twice", "a:1", lease=30)
        assert second.token == first.token
        # The lease of the first, each told as precisely as its answer was fast; not one of 30.
        assert abs(second.until - first.until) < 5


async def test_giving_back_twice_answers_the_same(server: PostgresServer) -> None:
    async with started(server.url) as store:
        await granted(store, "back twice", "a:1")
        assert await store.give_back("back twice", "a:1", False, soon())
        assert await store.give_back("back twice", "a:1", False, soon())
        await granted(store, "back twice", "b:1")
        assert await store.give_back("back twice", "a:1", False, soon())
        assert (await store.look("back twice", soon())).holder is not None
        assert not await store.give_back("back twice", "c:1", False, soon())


async def test_tokens_grow_by_what_was_taken(server: PostgresServer) -> None:
    async with started(server.url) as store, connected(server.url) as raw:
        await granted(store, "tokens", "a:1")
        await store.give_back("tokens", "a:1", False, soon())
        await raw.execute("UPDATE redisson_py_locks SET token = $1", FAR)
        answer = await store.ask(wish("tokens", "a:2", tokens=1000), soon())
        assert answer == Granted(answer.until, FAR + 1, 1000)  # type: ignore[union-attr]
        await store.give_back("tokens", "a:2", False, soon())
        assert (await granted(store, "tokens", "a:3")).token == FAR + 1001


async def test_free_rows_may_be_deleted(server: PostgresServer) -> None:
    async with started(server.url) as store, connected(server.url) as raw:
        first = await granted(store, "deleted", "a:1")
        await store.give_back("deleted", "a:1", False, soon())
        await raw.execute("DELETE FROM redisson_py_locks WHERE id = $1", id_of("deleted"))
        second = await granted(store, "deleted", "a:2")
        assert second.token > first.token
        await raw.execute("DELETE FROM redisson_py_locks WHERE expires < now()")
        assert (await store.look("deleted", soon())).holder is not None


async def test_a_lease_ends_by_the_clock_of_the_server(server: PostgresServer) -> None:
    async with started(server.url) as store, connected(server.url) as raw:
        first = await granted(store, "ends", "a:1", lease=2)
        assert await busy(store, "ends", "b:1") <= 2
        await until_over(raw, "ends")
        second = await granted(store, "ends", "b:1")
        assert second.token > first.token
        assert await store.renew([renewal("ends", "a:1", first.token, 30)], soon()) == [None]
        assert not await store.give_back("ends", "a:1", False, soon())
        assert (await store.look("ends", soon())).holder is not None


async def test_giving_back_after_the_end_says_so(server: PostgresServer) -> None:
    async with started(server.url) as store, connected(server.url) as raw:
        await granted(store, "over", "a:1")
        await raw.execute("UPDATE redisson_py_locks SET expires = now() - interval '1 s'")
        assert (await store.look("over", soon())).holder is None
        assert not await store.give_back("over", "a:1", False, soon())
        assert not await store.give_back("over", "a:1", False, soon())


async def test_a_batch_is_renewed_at_once(server: PostgresServer) -> None:
    async with started(server.url) as store, connected(server.url) as raw:
        holds = {name: await granted(store, name, f"{name}:1", lease=20) for name in "abcd"}
        token = {name: hold.token for name, hold in holds.items()}
        before = now()
        longer, shorter, exact, looked, stranger, none = await store.renew(
            [
                renewal("a", "a:1", token["a"], 40),
                renewal("b", "b:1", token["b"], 10),
                renewal("c", "c:1", token["c"], 10, exact=True),
                renewal("d", "d:1", token["d"], 0),
                renewal("d", "d:1", token["d"] + 1, 40),
                renewal("nobody's", "d:1", 1, 40),
            ],
            soon(),
        )
        assert longer is not None
        assert before + 39.9 < longer <= now() + 40
        assert shorter is not None
        assert shorter == pytest.approx(holds["b"].until, abs=9)
        assert exact is not None
        assert before + 9.9 < exact <= now() + 10
        assert looked is not None
        assert looked == pytest.approx(holds["d"].until, abs=9)
        assert stranger is None
        assert none is None
        version = (await row_of(raw, "d"))["expires"]
        await store.renew([renewal("d", "d:1", token["d"], 0)], soon())
        assert (await row_of(raw, "d"))["expires"] == version


async def test_a_look_shows_the_holder(server: PostgresServer) -> None:
    async with started(server.url) as store:
        empty = await store.look("looked at", soon())
        assert (empty.holder, empty.waiters) == (None, ())
        hold = await granted(store, "looked at", "a:1")
        state = await store.look("looked at", soon())
        assert state.holder is not None
        assert (state.holder.owner, state.holder.token) == ("a:1", hold.token)
        assert 10 < state.holder.remaining <= 30
        assert state.keys == (f"redisson_py_locks where id = '\\x{id_of('looked at').hex()}'",)


async def test_a_forced_release_ends_the_hold(server: PostgresServer) -> None:
    async with started(server.url) as store:
        hold = await granted(store, "forced", "a:1")
        assert await store.force_release("forced", soon())
        assert not await store.force_release("forced", soon())
        assert await store.renew([renewal("forced", "a:1", hold.token, 30)], soon()) == [None]
        assert not await store.give_back("forced", "a:1", False, soon())


async def test_long_names_that_differ_at_the_end(server: PostgresServer) -> None:
    name = "é" * 2047
    async with started(server.url) as store, connected(server.url) as raw:
        await granted(store, f"{name}a", "a:1")
        await granted(store, f"{name}b", "b:1")
        assert (await row_of(raw, f"{name}a"))["name"] == f"{name}a"


async def test_an_uncontended_pair_is_two_round_trips(server: PostgresServer) -> None:
    async with FaultProxy(HOST, server.port) as proxy:
        url = server.url_of("postgres", port=proxy.port)
        async with started(url, connections=1) as store:
            for number in range(2):
                before = proxy.up.chunks
                hold = await granted(store, "round trips", f"a:{number}")
                await store.renew([renewal("round trips", f"a:{number}", hold.token, 40)], soon())
                assert await store.give_back("round trips", f"a:{number}", False, soon())
            # The first time, each statement was prepared.
            assert proxy.up.chunks - before == 3


async def test_many_questions_share_few_connections(server: PostgresServer) -> None:
    async with started(server.url, connections=3) as store, connected(server.url) as raw:

        async def pair(number: int) -> None:
            await granted(store, f"many {number}", f"a:{number}")
            assert await store.give_back(f"many {number}", f"a:{number}", False, soon())

        await asyncio.gather(*(pair(number) for number in range(100)))
        count = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
        assert await raw.fetchval(count) <= 3 + 1


async def test_nothing_is_open_after_a_stop(server: PostgresServer) -> None:
    store = PostgresStore(server.url)
    with pytest.raises(ClientClosedError):
        await store.ping(soon())
    for _ in range(2):
        await store.start(Bell(), soon())
        await store.ping(soon())
        await granted(store, "stop", "a:1")
        await busy(store, "stop", "a:2", waits=True)
        await store.stop()
        with pytest.raises(ClientClosedError):
            await store.ping(soon())
    async with connected(server.url) as raw:
        count = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"

        async def alone() -> bool:
            return bool(await raw.fetchval(count) == 1)

        await until(alone)


async def test_creators_may_race(server: PostgresServer) -> None:
    async with connected(server.url) as raw:
        await raw.execute("CREATE DATABASE racing")
    stores = [PostgresStore(server.url_of("postgres", "racing")) for _ in range(8)]
    try:
        await asyncio.gather(*(store.start(Bell(), soon()) for store in stores))
        await granted(stores[0], "race", "a:1")
        await busy(stores[1], "race", "b:1")
    finally:
        await asyncio.gather(*(store.stop() for store in stores))


async def test_a_role_that_may_not_create_is_told_the_sql(server: PostgresServer) -> None:
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


async def test_a_table_that_goes_or_is_another_is_told(server: PostgresServer) -> None:
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


async def test_stricter_isolation_of_the_role_is_no_obstacle(server: PostgresServer) -> None:
    async with connected(server.url) as raw:
        await raw.execute("CREATE ROLE strict LOGIN SUPERUSER")
        await raw.execute("ALTER ROLE strict SET default_transaction_isolation = 'serializable'")
    async with started(server.url_of("strict")) as store:

        async def pairs(owner: str) -> None:
            for number in range(20):
                asked = wish("strict", f"{owner}:{number}")
                while not isinstance(await store.ask(asked, soon()), Granted):
                    pass
                assert await store.give_back("strict", asked.owner, False, soon())

        await asyncio.gather(*(pairs(owner) for owner in "abc"))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "secret",
        "redis://secret",
        "postgresql:/secret",
        "postgresql://user:sec:ret/x",
        "postgresql://user:secret@h:0",
        "postgresql://user:secret@h:123456",
        "postgresql://user:secret@h@h",
        "postgresql://user:secr/et@h",
        "postgresql://user:secr#et@h",
        "postgresql://user:secr?et@h",
        "postgresql://user:[secret@h",
        "postgresql://user:secret@h/d/e",
        "postgresql://user:secret@h/d?secret",
        "postgresql://user:secret@h/d?sec-ret=1",
        "postgresql://user:secret@h/d?sslmode=secret",
        "postgresql://user:secret@h/d?sslmode=verify-ca&sslrootcert=/secret/ca.pem",
        "postgresql://user:sec\nret@h",
        "postgresql://user:secret@h,:x",
    ],
)
def test_a_bad_url_is_refused_and_never_quoted(url: str) -> None:
    with pytest.raises(ValueError, match="URL") as caught:
        PostgresStore(url)
    assert "secret" not in str(caught.value).replace("user name or password", "")
    assert caught.value.__context__ is None


def test_addresses_are_told_without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
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
    with pytest.raises(TypeError):
        where(b"postgresql://")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="connections"):
        PostgresStore("postgresql://", connections=0)


async def test_an_address_of_the_environment_is_told(
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
