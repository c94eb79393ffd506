"""Another role's objects run in no statement of ours, wherever on the search_path they are.

A role that everybody lets create objects, as `public` of PostgreSQL 14 does, sets a trap for each
name that our statements use. Then the whole store is used, with all of that found first. A trap
writes `TRAP` into the log of the server when it runs; rolling back does not undo that.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator

import pytest

from redisson_py._stores.contract import Renewal
from redisson_py._stores.postgres import (
    PostgresStore,
    listening,
    once,
    schema_sql,
    shared_sql,
    sql,
)
from redisson_py._stores.postgres.table import in_schema
from redisson_py.errors import BackendError, LeaseLostError
from redisson_py.postgres import Postgres
from tests.stores.databases import Bell, granted, soon
from tests.stores.postgres.scene import connected, started
from tests.stores.postgres.server import PostgresServer, running_postgres
from tests.stores.postgres.test_names import STATEMENTS, names, unqualified
from tests.support.waiting import until_async, until_waiting

#: The log of the server, entry by entry: the role, and the text.
_ENTRY = re.compile(r"^@@(\w*)@@ (.*?)(?=^@@|\Z)", re.MULTILINE | re.DOTALL)
_STATEMENT = re.compile(r"LOG:  (?:execute [^:]+|statement): (.*)", re.DOTALL)


#: The types of our statements, and what PostgreSQL makes of literals in them. `sly` is the
#: intruder's own: it alone may have casts to and from the types of PostgreSQL.
_TYPES = (
    *("bool", "bytea", "float8", "int2", "int4", "int8", "interval", "jsonb", "name", "numeric"),
    *("oid", "regclass", "text", "timestamptz"),
)

_SET = """
CREATE FUNCTION {schema}.sprung(what pg_catalog.text) RETURNS pg_catalog.bool LANGUAGE plpgsql AS
    $f$ BEGIN RAISE LOG 'TRAP: %', what; RETURN true; END $f$;
CREATE TYPE {schema}.sly AS (what pg_catalog.text);
CREATE FUNCTION {schema}.to_sly(pg_catalog.text) RETURNS {schema}.sly LANGUAGE plpgsql AS
    $f$ BEGIN RAISE LOG 'TRAP: cast to sly'; RETURN ROW($1); END $f$;
CREATE FUNCTION {schema}.from_sly({schema}.sly) RETURNS pg_catalog.text LANGUAGE plpgsql AS
    $f$ BEGIN RAISE LOG 'TRAP: cast from sly'; RETURN $1.what; END $f$;
CREATE CAST (pg_catalog.text AS {schema}.sly) WITH FUNCTION {schema}.to_sly AS IMPLICIT;
CREATE CAST ({schema}.sly AS pg_catalog.text) WITH FUNCTION {schema}.from_sly AS IMPLICIT;
DO $do$
DECLARE
    body CONSTANT text := 'LANGUAGE plpgsql AS $f$ BEGIN RAISE LOG ''TRAP: %% %%'', %L, %L;'
        ' RETURN NULL; END $f$';
    types text[] := ARRAY[{types}] || '{schema}.sly'::text;
    a text; b text; own record; called text; result text; count int := 0;
BEGIN
    FOREACH called IN ARRAY ARRAY[{operators}] LOOP
        FOREACH a IN ARRAY types LOOP
            FOREACH b IN ARRAY types LOOP
                SELECT coalesce(max(oprresult::regtype::text),
                    CASE WHEN called ~ '[=<>?]' THEN 'bool' ELSE a END) INTO result
                FROM pg_operator WHERE oprname = called AND oprleft = to_regtype(a)
                    AND oprright = to_regtype(b) AND oprnamespace = 'pg_catalog'::regnamespace;
                count := count + 1;
                EXECUTE format('CREATE FUNCTION {schema}.trap_%s(%s, %s) RETURNS %s ',
                    count, a, b, result) || format(body, called, a || ' ' || b);
                EXECUTE format('CREATE OPERATOR {schema}.%s (FUNCTION = {schema}.trap_%s,'
                    ' LEFTARG = %s, RIGHTARG = %s)', called, count, a, b);
            END LOOP;
        END LOOP;
    END LOOP;
    FOREACH called IN ARRAY ARRAY[{functions}] LOOP
        FOR own IN SELECT oidvectortypes(proargtypes) AS arguments,
            prorettype::regtype::text AS result FROM pg_proc
            WHERE proname = called AND pronamespace = 'pg_catalog'::regnamespace LOOP
            result := CASE own.result WHEN 'void' THEN 'bool' ELSE own.result END;
            BEGIN
                EXECUTE format('CREATE FUNCTION {schema}.%I(%s) RETURNS %s ',
                    called, own.arguments, result) || format(body, called, 'itself');
            EXCEPTION WHEN feature_not_supported THEN
                -- PL/pgSQL takes no "any". The traps below take all that is meant by it here.
                NULL;
            END;
        END LOOP;
        FOREACH a IN ARRAY types LOOP
            FOR b IN SELECT '' UNION ALL SELECT ', ' || each FROM unnest(types) AS each LOOP
                CONTINUE WHEN to_regprocedure(
                    format('{schema}.%I(%s%s)', called, a, b)) IS NOT NULL;
                EXECUTE format('CREATE FUNCTION {schema}.%I(%s%s) RETURNS %s ', called, a, b,
                    CASE WHEN result ~ 'any|record' THEN 'bool' ELSE result END)
                    || format(body, called, a || b);
            END LOOP;
        END LOOP;
    END LOOP;
    FOREACH a IN ARRAY ARRAY[{types}] LOOP
        EXECUTE format('CREATE DOMAIN {schema}.%I AS pg_catalog.%I CHECK ({schema}.sprung(%L))',
            a, a, 'type ' || a);
    END LOOP;
END $do$
"""

#: A table with our name that runs code of its owner's as whoever uses it.
_TABLE = """
{table}
GRANT ALL ON {schema}.redisson_py_locks TO PUBLIC;
ALTER TABLE {schema}.redisson_py_locks ALTER owner SET DEFAULT {schema}.sprung('default')::text;
CREATE FUNCTION {schema}.on_write() RETURNS trigger LANGUAGE plpgsql AS
    $f$ BEGIN RAISE LOG 'TRAP: trigger'; RETURN NEW; END $f$;
CREATE TRIGGER trap BEFORE INSERT OR UPDATE ON {schema}.redisson_py_locks
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.on_write();
CREATE POLICY trap ON {schema}.redisson_py_locks USING ({schema}.sprung('policy'));
ALTER TABLE {schema}.redisson_py_locks ENABLE ROW LEVEL SECURITY;
"""


def traps(schema: str, operators: Iterable[str], functions: Iterable[str]) -> str:
    """Return the SQL that sets traps in a schema: types, casts, operators, functions.

    Operators and functions take every mix of two types, and functions also what PostgreSQL's own
    take.
    """
    return _SET.format(
        schema=schema,
        types=_array(_TYPES),
        operators=_array(operators),
        functions=_array(functions),
    )


def trap_table(schema: str) -> str:
    """Return the SQL that sets a trap in the place of a table."""
    return _TABLE.format(schema=schema, table=in_schema(sql.schema_sql(), schema))


def _array(values: Iterable[str]) -> str:
    return ", ".join(f"'{each}'" for each in sorted(values))


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


async def use_elections(server: PostgresServer, url: str) -> None:
    """The table is as it was made before there were any."""
    async with connected(url) as raw:
        await raw.execute(f"ALTER TABLE early.{sql.TABLE} DROP COLUMN value")
    async with Postgres.from_url(url) as one, Postgres.from_url(url) as other:
        async with one.get_election("e").campaign("first") as leadership:
            await leadership.proclaim("again")
            waiting = asyncio.create_task(other.get_election("e").acquire("second"))
            await until_waiting(other, 1)

            async def queues() -> bool:
                return bool((await one.get_election("e").inspect()).waiters)

            await until_async(queues)
        leading = await waiting
        found = await one.get_election("e").leader()
        assert found is not None
        assert found.text == "second"
        await leading.release()


async def use_everything(server: PostgresServer, url: str) -> None:
    """Have each statement of the store run, most of them by the public API."""
    await use_elections(server, url)
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
    await use_what_is_shared(url)
    await use_what_is_done_once(url)


async def use_what_is_done_once(url: str) -> None:
    """Have each statement about what is done once run."""
    async with Postgres.from_url(url) as client, connected(url) as raw:
        once = client.get_once("o")
        async with once as running, raw.transaction():
            await running.complete(b"done", connection=raw)
        async with client.get_once("p") as running:
            await running.complete("done")
        assert (await once.inspect()).done
        async with once as later:
            assert later.result == b"done"
        assert await once.forget()


async def use_what_is_shared(url: str) -> None:
    """Have each statement about read-write locks and semaphores run."""
    async with Postgres.from_url(url) as one, Postgres.from_url(url) as other:
        lock, theirs = one.get_read_write_lock("k"), other.get_read_write_lock("k")
        async with lock.write_lock() as lease:
            async with lock.read_lock():
                waiting = asyncio.create_task(theirs.read_lock().acquire())
                await until_waiting(other, 1)
                await lease.extend(60)
                await lease.extend(20)
        second = await waiting
        assert await lock.read_lock().force_release()
        with pytest.raises(LeaseLostError):
            await second.release()
        semaphore = one.get_semaphore("s", 3)
        permit = await semaphore.acquire(2)
        await semaphore.add_permits(1)
        await semaphore.release(1)
        assert (await semaphore.inspect()).available == 3
        await permit.release()
        assert await semaphore.delete()


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
    monkeypatch.setattr(listening, "_INTERVAL_SECONDS", 0.05)
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
        assert in_schema(statement, "early").strip() in ran, name
    for made in (sql.locks_sql(), shared_sql.CREATE, once.CREATE):
        assert in_schema(made, "early") in ran
    # What the driver sends by itself is among these.
    assert {each: unqualified(each) for each in ran if unqualified(each)} == {}


async def test_a_table_of_a_stranger_is_not_used(server: PostgresServer) -> None:
    """It stands before ours: a store that runs keeps to its own, and none starts with it."""
    await set_traps(server)
    url = server.url_of("app")
    async with connected(server.url_of("app")) as app:
        await app.execute("CREATE SCHEMA locks")
        await app.execute(in_schema(schema_sql(), "locks"))
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
