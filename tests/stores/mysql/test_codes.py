"""Each error number that is classified, said by a real server: what passes is repeated.

A trigger refuses whatever writes a row of locks, with the name of the lock as the number.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from asyncmy.constants import ER

from redisson_py._stores.mysql import sql
from redisson_py._stores.mysql.codes import CODES, NOT_WRITTEN, verdict_of
from redisson_py.errors import BackendError, ConnectionLostError, ReleaseFailedError
from redisson_py.mysql import MySQL
from tests.stores.mysql.server import MariaDB
from tests.support.waiting import until_async

KNOWN = {name: value for name, value in vars(ER).items() if isinstance(value, int)}
#: Names that sound as if the server might say something else soon, or another server.
_PASSING = re.compile(
    "MEM|FULL$|TIMEOUT|SHUTDOWN|CON_COUNT|USER_CONN|LIMIT_REACHED|DISK|ABORT|KILL|READ_?ONLY|^NET_"
    "|RESOURCE|DEADLOCK|CANT_LOCK|CREATE_THREAD|OPEN_FILE|CHECKREAD|GET_ERRNO|GET_.*ERRMSG|ON_WRITE"
    "|ON_READ$|INTERRUPTED|DURING_(COMMIT|ROLLBACK)|HOST_IS_BLOCKED|TOO_LARGE$"
)
#: Those that sound so, and are about SQL, or are of the XA transactions that we do not use.
_OTHER = {
    "DELAYED_CANT_CHANGE_LOCK",
    "XA_RBTIMEOUT",
    "XA_RBDEADLOCK",
}
SAID = [code for code in CODES if code < 2000 or code >= 3000]
PASSING = [code for code in SAID if verdict_of(code) != "wrong"]
#: Numbers of SQL and of rights, and those that only look as if they passed.
WRONG = [code for code in SAID if verdict_of(code) == "wrong"] + [
    1054,
    1064,
    1142,
    1146,
    1406,
    1644,
]


@asynccontextmanager
async def sick(server: MariaDB) -> AsyncIterator[None]:
    """Have the server refuse all that is written about locks, for the time of a block."""
    body = (
        "FOR EACH ROW BEGIN DECLARE code INT DEFAULT NEW.name;"
        " UPDATE refusals SET count = count + 1 WHERE refusals.code = code;"
        " SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = code, MESSAGE_TEXT = 'the server is sick'; END"
    )
    await server.sql(
        # What such a table says is not rolled back.
        "CREATE TABLE refusals (code INT PRIMARY KEY, count INT DEFAULT 0) ENGINE=MyISAM",
        f"INSERT INTO refusals (code) VALUES {', '.join(f'({code})' for code in PASSING + WRONG)}",
        *(
            f"CREATE TRIGGER sick_{event} BEFORE {event} ON {sql.TABLE} {body}"
            for event in ("INSERT", "UPDATE")
        ),
    )
    try:
        yield
    finally:
        await server.sql("DROP TRIGGER sick_INSERT", "DROP TRIGGER sick_UPDATE")
        await server.sql("DROP TABLE refusals")


@pytest.fixture
async def sound(server: MariaDB) -> AsyncIterator[MariaDB]:
    """A server with the table, and nothing in it."""
    async with MySQL.from_url(server.url()) as client:
        await client.ping()
    yield server
    await server.sql(f"DELETE FROM {sql.TABLE}")


async def refusals(server: MariaDB) -> dict[int, int]:
    """Return how often each number was said."""
    return {row[0]: row[1] for row in await server.sql("SELECT code, count FROM refusals")}


def test_each_number_that_may_pass_is_classified() -> None:
    """What is not in the table is wrong, so what is there says why."""
    sounding = {name for name in KNOWN if _PASSING.search(name)} - _OTHER
    assert {name for name in sounding if KNOWN[name] not in CODES} == set()
    assert all(entry.source for entry in CODES.values())
    assert NOT_WRITTEN not in CODES


@pytest.mark.parametrize("code", [code for code in CODES if CODES[code].source.startswith("M ")])
def test_a_source_names_the_number(code: int) -> None:
    """The driver has the names of MariaDB up to some version."""
    name = CODES[code].source.removeprefix("M ").partition(":")[0]
    assert KNOWN.get(name, code) == code


async def test_what_passes_is_waited_for(sound: MariaDB) -> None:
    async with MySQL.from_url(sound.url()) as client:
        async with sick(sound):
            asking = {
                code: asyncio.create_task(client.get_lock(str(code)).acquire(timeout=120))
                for code in PASSING
            }

            async def all_were_refused() -> bool:
                count = await refusals(sound)
                return all(count[code] for code in PASSING)

            await until_async(all_were_refused)
            assert not [code for code, task in asking.items() if task.done()]
        for task in asking.values():
            await (await task).release()


async def test_what_passes_does_not_drop_a_release(sound: MariaDB) -> None:
    async with MySQL.from_url(sound.url(), command_timeout=2, lease_time=600) as client:
        leases = {code: await client.get_lock(str(code)).acquire() for code in PASSING}
        async with sick(sound):
            ended = await asyncio.gather(
                *(lease.release() for lease in leases.values()), return_exceptions=True
            )
            assert {type(each) for each in ended} == {ReleaseFailedError}
            assert all("until the lease ends" in str(each) for each in ended)

        async def all_are_free() -> bool:
            return await sound.sql(f"SELECT 1 FROM {sql.TABLE} WHERE owner IS NOT NULL") == ()

        await until_async(all_are_free)


async def test_what_is_wrong_is_told_at_once(sound: MariaDB) -> None:
    async with MySQL.from_url(sound.url()) as client:
        await client.ping()
        async with sick(sound):
            ended = await asyncio.gather(
                *(client.get_lock(str(code)).acquire(timeout=120) for code in WRONG),
                return_exceptions=True,
            )
            for code, error in zip(WRONG, ended, strict=True):
                assert isinstance(error, BackendError), code
                assert not isinstance(error, ConnectionLostError), code
            count = await refusals(sound)
            assert {code: count[code] for code in WRONG if count[code] != 1} == {}
