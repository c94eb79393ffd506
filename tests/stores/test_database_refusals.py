"""What a database refuses: by each of its codes, read-only, and without its table.

A trigger refuses whatever writes a row of locks, with the name of the lock as the code.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio
from asyncmy.constants import ER
from asyncpg import exceptions

from redisson_py import BackendError, ConnectionLostError, LeaseLostError, ReleaseFailedError
from redisson_py._stores.mysql import codes as mysql
from redisson_py._stores.postgres import codes as postgres
from tests.fixtures.backends import Running
from tests.stores.backends import DatabaseBackend
from tests.stores.conftest import NewClient
from tests.stores.databases import soon
from tests.support.any_client import Client
from tests.support.waiting import until, until_async

TABLE = "redisson_py_locks"

_STATES = {getattr(each, "sqlstate", None) for each in vars(exceptions).values()}
#: Those that the driver knows. Success, warnings and "no data" are no errors.
STATES = sorted(each for each in _STATES if isinstance(each, str) and each[:2] > "02")
KNOWN = {name: value for name, value in vars(ER).items() if isinstance(value, int)}
#: Names that sound as if the server might say something else soon, or another server.
_PASSING = re.compile(
    "MEM|FULL$|TIMEOUT|SHUTDOWN|CON_COUNT|USER_CONN|LIMIT_REACHED|DISK|ABORT|KILL|READ_?ONLY|^NET_"
    "|RESOURCE|DEADLOCK|CANT_LOCK|CREATE_THREAD|OPEN_FILE|CHECKREAD|GET_ERRNO|GET_.*ERRMSG|ON_WRITE"
    "|ON_READ$|INTERRUPTED|DURING_(COMMIT|ROLLBACK)|HOST_IS_BLOCKED|TOO_LARGE$"
)
#: Those that sound so, and are about SQL, or are of the XA transactions that we do not use.
_OTHER = {"DELAYED_CANT_CHANGE_LOCK", "XA_RBTIMEOUT", "XA_RBDEADLOCK"}
_SAID = [code for code in mysql.CODES if code < 2000 or code >= 3000]
#: Numbers of SQL and of rights.
_OF_SQL = [1054, 1064, 1142, 1146, 1406, 1644]

PASSING = {
    "postgres": [code for code in STATES if postgres.verdict_of(code) != "wrong"],
    "mysql": [str(code) for code in _SAID if mysql.verdict_of(code) != "wrong"],
}
WRONG = {
    "postgres": [code for code in STATES if postgres.verdict_of(code) == "wrong"],
    "mysql": [str(code) for code in _SAID if mysql.verdict_of(code) == "wrong"]
    + [str(code) for code in _OF_SQL],
}


class Sickness:
    """Has a server refuse all that is written about locks, and counts that by its codes."""

    def __init__(self, backend: DatabaseBackend, kind: str) -> None:
        self._backend = backend
        self._is_postgres = kind == "postgres"
        self.passing, self.wrong = PASSING[kind], WRONG[kind]

    @asynccontextmanager
    async def sick(self) -> AsyncGenerator[None]:
        """Make it so for the time of a block."""
        codes = self.passing + self.wrong
        if self._is_postgres:
            # A sequence counts on when its transaction is rolled back.
            setting = [f"CREATE SEQUENCE refusals_{code}".lower() for code in codes] + [
                "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN"
                " PERFORM nextval('refusals_' || NEW.name); RAISE EXCEPTION USING"
                " ERRCODE = NEW.name, MESSAGE = 'the server is sick'; END $f$",
                f"CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON {TABLE} FOR EACH ROW"
                " EXECUTE FUNCTION refuse()",
            ]
            ending = [f"DROP TRIGGER refuse ON {TABLE}", "DROP FUNCTION refuse"]
            ending += [f"DROP SEQUENCE refusals_{code}".lower() for code in codes]
        else:
            body = (
                "FOR EACH ROW BEGIN DECLARE code INT DEFAULT NEW.name;"
                " UPDATE refusals SET count = count + 1 WHERE refusals.code = code; SIGNAL SQLSTATE"
                " '45000' SET MYSQL_ERRNO = code, MESSAGE_TEXT = 'the server is sick'; END"
            )
            setting = [
                # What such a table says is not rolled back.
                "CREATE TABLE refusals (code INT PRIMARY KEY, count INT DEFAULT 0) ENGINE=MyISAM",
                f"INSERT INTO refusals (code) VALUES {', '.join(f'({code})' for code in codes)}",
                f"CREATE TRIGGER sick_insert BEFORE INSERT ON {TABLE} {body}",
                f"CREATE TRIGGER sick_update BEFORE UPDATE ON {TABLE} {body}",
            ]
            ending = ["DROP TRIGGER sick_insert", "DROP TRIGGER sick_update", "DROP TABLE refusals"]
        await self._backend.sql(*setting)
        try:
            yield
        finally:
            await self._backend.sql(*ending)

    async def refusals(self) -> dict[str, int]:
        """Return how often each code was said."""
        if not self._is_postgres:
            rows = await self._backend.sql("SELECT code, count FROM refusals")
            return {str(code): count for code, count in rows}
        rows = await self._backend.sql(
            "SELECT sequencename, coalesce(last_value, 0) FROM pg_sequences"
        )
        return {name.removeprefix("refusals_").upper(): count for name, count in rows}


@pytest.fixture(params=["postgres", "mysql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest_asyncio.fixture
async def backend(kind: str, running_backend: Running) -> AsyncIterator[Any]:
    """Its table is made by the first client, and gone at the end."""
    backend: Any = running_backend(kind)
    async with backend.client() as client:
        await client.ping()
    yield backend
    await backend.sql(f"DROP TABLE IF EXISTS {TABLE}")


@pytest.fixture
def server(backend: DatabaseBackend, kind: str) -> Sickness:
    return Sickness(backend, kind)


def test_each_code_that_postgresql_may_say_is_classified() -> None:
    """By its class at least; and no entry is about nothing."""
    assert {code[:2] for code in STATES} == {*postgres.CLASSES}
    assert {*postgres.CODES} <= {*STATES}
    assert all(entry.source for entry in (*postgres.CLASSES.values(), *postgres.CODES.values()))
    for code, entry in postgres.CODES.items():
        assert entry.verdict != postgres.CLASSES[code[:2]].verdict, code


def test_each_number_of_mysql_that_may_pass_is_classified() -> None:
    """What is not in the table is wrong, so what is there says why."""
    sounding = {name for name in KNOWN if _PASSING.search(name)} - _OTHER
    assert {name for name in sounding if KNOWN[name] not in mysql.CODES} == set()
    assert mysql.NOT_WRITTEN not in mysql.CODES
    for code, entry in mysql.CODES.items():
        assert entry.source
        if entry.source.startswith("M "):
            # The driver has the names of MariaDB up to some version.
            assert KNOWN.get(entry.source[2:].partition(":")[0], code) == code


async def test_what_passes_is_waited_for(client: Client, server: Sickness) -> None:
    async with server.sick():
        asking = {
            code: asyncio.create_task(client.get_lock(code).acquire(timeout=120))
            for code in server.passing
        }

        async def all_were_refused() -> bool:
            count = await server.refusals()
            return all(count[code] for code in server.passing)

        await until_async(all_were_refused, seconds=60)
        assert not [code for code, task in asking.items() if task.done()]
    for task in asking.values():
        await (await task).release()


async def test_what_passes_does_not_drop_a_release(
    new_client: NewClient, backend: DatabaseBackend, server: Sickness
) -> None:
    client = new_client(command_timeout=2, lease_time=600)
    leases = {code: await client.get_lock(code).acquire() for code in server.passing}
    async with server.sick():
        ended = await asyncio.gather(
            *(lease.release() for lease in leases.values()), return_exceptions=True
        )
        assert {type(each) for each in ended} == {ReleaseFailedError}
        assert all("until the lease ends" in str(each) for each in ended)

    async def all_are_free() -> bool:
        return not await backend.sql(f"SELECT 1 FROM {TABLE} WHERE owner IS NOT NULL")

    await until_async(all_are_free, seconds=60)


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
async def test_a_server_that_serves_nothing_is_logged_once(
    new_client: NewClient, server: Sickness, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "redisson_py")
    client = new_client(command_timeout=1)
    await client.ping()
    async with server.sick():
        for _ in range(2):
            with pytest.raises(ConnectionLostError, match="refused until the time was up"):
                await client.get_lock("53200").acquire()
    async with client.get_lock("53200"):
        # An undo that the sick server refuses, and a moment later does not, blames its bell.
        texts = [each.getMessage() for each in caplog.records]
        (begins, ends) = [each for each in texts if "refuses NOTIFY" not in each]
    assert begins.startswith("PostgreSQL at ")
    assert begins.endswith("cannot serve calls for now: the server is sick (53200)")
    assert ends.startswith("connected to PostgreSQL")


async def test_what_is_wrong_is_reported_at_once(client: Client, server: Sickness) -> None:
    await client.ping()
    async with server.sick():
        ended = await asyncio.gather(
            *(client.get_lock(code).acquire(timeout=120) for code in server.wrong),
            return_exceptions=True,
        )
        for code, error in zip(server.wrong, ended, strict=True):
            assert isinstance(error, BackendError), code
            assert not isinstance(error, ConnectionLostError), code
        count = await server.refusals()
        assert {code: count[code] for code in server.wrong if count[code] != 1} == {}


@asynccontextmanager
async def read_only(backend: DatabaseBackend, client: Any) -> AsyncGenerator[None]:
    """Have the server take no writes for the time of a block; the client has a connection."""
    if "mysql" in backend.url:
        async with backend.server.settings(read_only="1"):
            yield
        return

    async def is_noticed() -> bool:
        fetch = client._store._connections.fetch
        answer = await fetch("SHOW default_transaction_read_only", (), soon())
        return bool(answer.value[0][0] == "on")

    reload = "SELECT pg_reload_conf()"
    await backend.sql("ALTER SYSTEM SET default_transaction_read_only = on", reload)
    try:
        await until_async(is_noticed)
        yield
    finally:
        await backend.sql("ALTER SYSTEM RESET default_transaction_read_only", reload)


async def test_a_read_only_server_is_reported_and_a_release_repeated_until_a_primary_is_there(
    backend: DatabaseBackend, new_client: NewClient, other: Client
) -> None:
    """As in a failover, for longer than a call waits."""
    client = new_client(command_timeout=2.0, lease_time=300)
    await client.ping()
    lease = await client.get_lock("k").acquire()
    async with read_only(backend, client):
        with pytest.raises(ReleaseFailedError, match="is repeated until the lease ends"):
            await lease.release()
        with pytest.raises(BackendError, match="read-only"):
            await client.get_lock("another").acquire()
        patient = asyncio.create_task(client.get_lock("patient").acquire(timeout=60))
        with pytest.raises(ConnectionLostError, match="read-only"):
            await client._store.give_back("k", "a:1", False, soon(2.0))  # type: ignore[union-attr]
        assert not patient.done()
    await (await patient).release()

    async def is_free() -> bool:
        return not await other.get_lock("k").locked()

    await until_async(is_free)


@pytest.mark.parametrize(
    "change", [f"DROP TABLE {TABLE}", f"ALTER TABLE {TABLE} DROP COLUMN expires"]
)
async def test_a_table_that_is_gone_takes_one_row_to_say(
    backend: DatabaseBackend,
    new_client: NewClient,
    change: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And what to do."""
    client = new_client()
    lease = await client.get_lock("held").acquire()
    await backend.sql(change)
    await until(lambda: any("refused to renew" in each.message for each in caplog.records))
    texts = [each.message for each in caplog.records if each.levelno >= logging.WARNING]
    with pytest.raises(BackendError) as refused:
        await client.get_lock("another").acquire()
    assert not isinstance(refused.value, ConnectionLostError)
    with pytest.raises((ReleaseFailedError, LeaseLostError, BackendError)) as failed:
        await lease.release()
    for row in (*texts, str(refused.value), str(failed.value)):
        assert "\n" not in row
        assert TABLE in row
        assert "schema_sql()" in row
