"""Each SQLSTATE that the driver knows, said by a real server: what passes is repeated.

A trigger refuses whatever writes a row of locks, with the name of the lock as the code.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from asyncpg import exceptions

from redisson_py._stores.postgres.codes import CLASSES, CODES, verdict_of
from redisson_py.errors import BackendError, ConnectionLostError, ReleaseFailedError
from redisson_py.postgres import Postgres
from tests.stores.postgres.scene import connected
from tests.stores.postgres.server import PostgresServer, running_postgres
from tests.support.waiting import until_async

#: Success, warnings and "no data" are no errors.
_NO_ERRORS = ("00", "01", "02")
_STATES = (getattr(each, "sqlstate", None) for each in vars(exceptions).values())
KNOWN = sorted({state for state in _STATES if isinstance(state, str)})
ERRORS = [code for code in KNOWN if not code.startswith(_NO_ERRORS)]
WRONG = [code for code in ERRORS if verdict_of(code) == "wrong"]
PASSING = [code for code in ERRORS if code not in WRONG]

_SICKNESS = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN
    PERFORM nextval('refusals_' || NEW.name);
    RAISE EXCEPTION USING ERRCODE = NEW.name, MESSAGE = 'the server is sick';
END $f$;
CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON redisson_py_locks FOR EACH ROW
    EXECUTE FUNCTION refuse();
"""


@pytest.fixture(scope="module")
def running() -> Iterator[PostgresServer]:
    with running_postgres() as each:
        yield each


@pytest.fixture
async def server(running: PostgresServer) -> AsyncIterator[PostgresServer]:
    """A server with a count for each code."""
    async with Postgres.from_url(running.url) as client, connected(running.url) as admin:
        await client.ping()
        for code in ERRORS:
            # A sequence counts on when its transaction is rolled back.
            await admin.execute(f'CREATE SEQUENCE "refusals_{code}"'.lower())
        yield running
        await admin.execute("DROP TABLE redisson_py_locks; DROP FUNCTION IF EXISTS refuse")
        for code in ERRORS:
            await admin.execute(f'DROP SEQUENCE "refusals_{code}"'.lower())


@asynccontextmanager
async def sick(server: PostgresServer) -> AsyncIterator[None]:
    """Have the server refuse all that is written about locks, for the time of a block."""
    async with connected(server.url) as admin:
        await admin.execute(_SICKNESS)
        yield
        await admin.execute("DROP TRIGGER refuse ON redisson_py_locks; DROP FUNCTION refuse")


async def refusals(server: PostgresServer) -> dict[str, int]:
    """Return how often each code was said."""
    async with connected(server.url) as admin:
        rows = await admin.fetch(
            "SELECT sequencename AS name, coalesce(last_value, 0) AS count FROM pg_sequences"
        )
    return {row["name"].removeprefix("refusals_").upper(): row["count"] for row in rows}


def test_each_code_that_the_driver_knows_is_classified() -> None:
    """By its class at least; and no entry is about nothing."""
    assert {code[:2] for code in ERRORS} == {*CLASSES}
    assert {*CODES} <= {*ERRORS}
    assert all(entry.source for entry in (*CLASSES.values(), *CODES.values()))
    for code, entry in CODES.items():
        assert entry.verdict != CLASSES[code[:2]].verdict, code


async def test_what_passes_is_waited_for(server: PostgresServer) -> None:
    async with Postgres.from_url(server.url) as client:
        async with sick(server):
            asking = {
                code: asyncio.create_task(client.get_lock(code).acquire(timeout=120))
                for code in PASSING
            }

            async def all_were_refused() -> bool:
                count = await refusals(server)
                return all(count[code] for code in PASSING)

            await until_async(all_were_refused)
            assert not [code for code, task in asking.items() if task.done()]
        for task in asking.values():
            await (await task).release()


async def test_what_passes_does_not_drop_a_release(server: PostgresServer) -> None:
    async with Postgres.from_url(server.url, command_timeout=2, lease_time=600) as client:
        leases = {code: await client.get_lock(code).acquire() for code in PASSING}
        async with sick(server):
            ended = await asyncio.gather(
                *(lease.release() for lease in leases.values()), return_exceptions=True
            )
            assert {type(each) for each in ended} == {ReleaseFailedError}
            assert all("until the lease ends" in str(each) for each in ended)

        async def all_are_free() -> bool:
            async with connected(server.url) as admin:
                held = await admin.fetchval(
                    "SELECT count(*) FROM redisson_py_locks WHERE owner IS NOT NULL"
                )
            return bool(held == 0)

        await until_async(all_are_free)


async def test_a_server_that_serves_nothing_is_logged_once(
    server: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "redisson_py")
    async with Postgres.from_url(server.url, command_timeout=1) as client:
        await client.ping()
        async with sick(server):
            for _ in range(2):
                with pytest.raises(ConnectionLostError, match="refused until the time was up"):
                    await client.get_lock("53200").acquire()
        async with client.get_lock("53200"):
            told = [each.getMessage() for each in caplog.records]
    (begins, ends) = told
    assert begins.endswith("cannot serve calls for now: the server is sick (53200)")
    assert begins.startswith("PostgreSQL at ")
    assert ends.startswith("connected to PostgreSQL")


async def test_what_is_wrong_is_told_at_once(server: PostgresServer) -> None:
    async with Postgres.from_url(server.url) as client, sick(server):
        ended = await asyncio.gather(
            *(client.get_lock(code).acquire(timeout=120) for code in WRONG),
            return_exceptions=True,
        )
        for code, error in zip(WRONG, ended, strict=True):
            assert isinstance(error, BackendError), code
            assert not isinstance(error, ConnectionLostError), code
        count = await refusals(server)
        assert {code: count[code] for code in WRONG if count[code] != 1} == {}
