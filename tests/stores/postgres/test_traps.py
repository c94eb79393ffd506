"""Another role's objects run in no statement of ours, wherever on the search_path they are.

A role that everybody lets create objects, as `public` of PostgreSQL 14 does, sets a trap for each
name that our statements use. Then the whole store is used, with all of that found first.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

import pytest

from redisson_py._stores.contract import Renewal
from redisson_py._stores.postgres import PostgresStore, listening, schema_sql, sql
from redisson_py.errors import BackendError, LeaseLostError
from redisson_py.postgres import Postgres
from tests.stores.databases import Bell, granted, soon
from tests.stores.postgres.scene import connected, started
from tests.stores.postgres.server import PostgresServer, running_postgres
from tests.stores.postgres.test_names import STATEMENTS, names, unqualified
from tests.stores.postgres.traps import trap_table, traps
from tests.support.waiting import until_async, until_waiting

#: The log of the server, entry by entry: the role, and the text.
_ENTRY = re.compile(r"^@@(\w*)@@ (.*?)(?=^@@|\Z)", re.MULTILINE | re.DOTALL)
_STATEMENT = re.compile(r"LOG:  (?:execute [^:]+|statement): (.*)", re.DOTALL)


@pytest.fixture(params=[18, 15])
def server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    settings = {"log_statement": "all", "log_line_prefix": "@@%u@@ "}
    with running_postgres(request.param, **settings) as each:
        yield each


async def set_traps(server: PostgresServer) -> None:
    """Let roles with traps before PostgreSQL's own names use the server."""
    pairs = [names(each) for each in STATEMENTS.values()]
    operators = set[str]().union(*(each for each, _ in pairs))
    functions = set[str]().union(*(each for _, each in pairs))
    async with connected(server.url) as admin:
        await admin.execute(
            "CREATE ROLE intruder LOGIN; CREATE ROLE app LOGIN; CREATE SCHEMA early;"
            "GRANT CREATE, USAGE ON SCHEMA early, public TO PUBLIC;"
            "GRANT CREATE ON DATABASE postgres TO app;"
            "ALTER ROLE app SET search_path = early, locks, public, pg_catalog"
        )
    async with connected(server.url_of("intruder")) as intruder:
        for schema in ("early", "public"):
            await intruder.execute(traps(schema, operators, functions))


def entries(server: PostgresServer) -> list[tuple[str, str]]:
    """Return what the server has logged."""
    text = server.log_text().replace("\n\t", "\n")
    return [(found[1], found[2].strip()) for found in _ENTRY.finditer(text)]


def sprung(server: PostgresServer) -> list[str]:
    """Return the traps that ran."""
    return [text for _, text in entries(server) if text.startswith("LOG:  TRAP")]


def executed(server: PostgresServer) -> set[str]:
    """Return the statements of the role with the locks."""
    found = (_STATEMENT.match(text) for role, text in entries(server) if role == "app")
    return {each[1].strip() for each in found if each is not None}


async def use_everything(server: PostgresServer, url: str) -> None:
    """Have each statement of the store run, most of them by the public API."""
    async with (
        Postgres.from_url(url) as one,
        Postgres.from_url(url) as other,
        connected(url) as raw,
    ):
        await one.ping()
        lock = one.get_lock("k")
        async with lock as lease:
            async with lock, raw.transaction():
                await lease.guard(raw)
            await lease.extend(60)
            assert await other.get_lock("k").try_acquire() is None
            assert await other.get_lock("k").locked()
            waiting = asyncio.create_task(other.get_fenced_lock("k").acquire())
            await until_waiting(other, 1)

            async def is_listening() -> bool:
                return sql.IS_CROWDED in executed(server)

            await until_async(is_listening)
        second = await waiting
        assert (await one.get_lock("k").inspect()).holders
        assert await one.get_lock("k").force_release()
        with pytest.raises(LeaseLostError):
            await second.release()
    async with started(url) as store:
        hold = await granted(store, "k", "a:01")
        for lease_time, exact in ((0.0, False), (40.0, False), (20.0, True)):
            kept = await store.renew(
                [Renewal("k", "a:01", hold.token, lease_time, exact=exact)], soon()
            )
            assert kept != [None]
        assert await store.give_back("k", "a:01", True, soon())
        assert await store.give_back("made", "a:02", True, soon()) == 0


async def test_the_traps_work(server: PostgresServer) -> None:
    """Each kind of trap catches a bare name."""
    await set_traps(server)
    async with connected(server.url_of("app")) as app:
        for bare in (
            "SELECT 1 * 2::pg_catalog.numeric",
            "SELECT '1'::pg_catalog.bytea = '2'::pg_catalog.bytea",
            "SELECT floor(1.5)",
            "SELECT statement_timestamp()",
            "SELECT 'a'::text",
            "SELECT early.from_sly('a'::pg_catalog.text)",
        ):
            before = len(sprung(server))
            await app.execute(bare)

            async def is_sprung(before: int = before) -> bool:
                return len(sprung(server)) > before

            await until_async(is_sprung)


async def test_no_trap_runs_in_any_statement(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first client makes the table, in the first schema; a table like it is behind."""
    monkeypatch.setattr(listening, "_INTERVAL", 0.05)
    await set_traps(server)
    url = server.url_of("app")
    async with started(url):
        pass
    async with connected(server.url_of("intruder")) as intruder:
        await intruder.execute(trap_table("public"))
    await use_everything(server, url)
    await all_is_logged(server)
    assert sprung(server) == []
    ran = executed(server)
    for name, statement in STATEMENTS.items():
        assert sql.in_schema(statement, "early").strip() in ran, name
    assert sql.in_schema(schema_sql(), "early") in ran
    # What the driver sends by itself is among these.
    assert {each: unqualified(each) for each in ran if unqualified(each)} == {}


async def test_a_table_of_a_stranger_is_not_used(server: PostgresServer) -> None:
    """It stands before ours: a store that runs keeps to its own, and none starts with it."""
    await set_traps(server)
    url = server.url_of("app")
    async with connected(server.url_of("app")) as app:
        await app.execute("CREATE SCHEMA locks")
        await app.execute(sql.in_schema(schema_sql(), "locks"))
    async with started(url) as store:
        async with connected(server.url_of("intruder")) as intruder:
            await intruder.execute(trap_table("early"))
        hold = await granted(store, "k", "a:01")
        async with connected(url) as raw, raw.transaction():
            # A temporary table is found before all others.
            await raw.execute("CREATE TEMPORARY TABLE redisson_py_locks (id pg_catalog.bytea)")
            assert await store.guard(raw, "k", "a:01", hold.token)
        assert await store.give_back("k", "a:01", False, soon())
        with pytest.raises(BackendError, match=r"the role 'intruder'.*owns the table"):
            await PostgresStore(url).start(Bell(), soon())
        async with started(f"{url}?search_path=locks,public") as chosen:
            assert (await granted(chosen, "k", "a:02")).token > hold.token
    await all_is_logged(server)
    assert sprung(server) == []


async def all_is_logged(server: PostgresServer) -> None:
    """Return when the log has all that was done before."""
    async with connected(server.url) as admin:
        await admin.execute("SELECT 'the end'")

    async def has_end() -> bool:
        return any("the end" in text for _, text in entries(server))

    await until_async(has_end)
