"""The MySQL store on servers with odd settings, little rights and TLS; and its URLs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

from redisson_py._stores.contract import Renewal
from redisson_py._stores.mysql import MySQLStore, schema_sql, sql
from redisson_py._stores.mysql.address import read_url
from redisson_py.errors import BackendError, ConnectionLostError
from tests.fixtures.redis_server import unavailable
from tests.stores.databases import Bell, busy, granted, holder, new_name, owner, soon
from tests.stores.mysql.scene import started
from tests.stores.mysql.server import DATABASE, PASSWORD, POOR_USER, MariaDB, MariaDBNotFoundError
from tests.stores.mysql.server import running_mariadb as running
from tests.support.certificates import Certificates, make_certificates
from tests.support.waiting import until_async

_IN_SCHEMA = (
    f"FROM information_schema.tables WHERE table_schema = '{DATABASE}'"
    f" AND table_name = '{sql.TABLE}'"
)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("tls") / "files", "IP:127.0.0.1")


@pytest.fixture(scope="module")
def server(certificates: Certificates) -> Iterator[MariaDB]:
    tls = (f"--ssl-cert={certificates.certificate}", f"--ssl-key={certificates.key}")
    try:
        with running(*tls) as one:
            yield one
    except MariaDBNotFoundError as error:
        unavailable(str(error))


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("sql_mode", "''"),
        ("sql_mode", "'TRADITIONAL,ANSI_QUOTES,NO_BACKSLASH_ESCAPES,SIMULTANEOUS_ASSIGNMENT'"),
        (
            "sql_mode",
            "'ORACLE,PAD_CHAR_TO_FULL_LENGTH,NO_UNSIGNED_SUBTRACTION,EMPTY_STRING_IS_NULL'",
        ),
        ("sql_mode", "'EMPTY_STRING_IS_NULL'"),
        ("autocommit", "0"),
        ("tx_isolation", "'READ-UNCOMMITTED'"),
        ("tx_isolation", "'READ-COMMITTED'"),
        ("tx_isolation", "'SERIALIZABLE'"),
        ("time_zone", "'+05:45'"),
        ("time_zone", "'-12:00'"),
        ("collation_server", "'latin1_german2_ci'"),
        ("sql_select_limit", "0"),
        ("completion_type", "'RELEASE'"),
        ("binlog_format", "'ROW'"),
        ("sql_safe_updates", "1"),
        ("tx_read_only", "1"),
        ("default_storage_engine", "'MyISAM'"),
        ("init_connect", "'SET NAMES binary'"),
        ("init_connect", "'SET character_set_results = utf16'"),
    ],
)
async def test_a_setting_of_the_server_changes_nothing(
    server: MariaDB, setting: str, value: str
) -> None:
    await server.sql(f"DROP TABLE IF EXISTS {sql.TABLE}")
    async with server.settings(**{setting: value}):
        async with started(server.url()) as store, started(server.url()) as other:
            name, first, second = "ä'\\" + new_name(), owner(), owner()
            got = await granted(store, name, first, tokens=2)
            assert got.token / 1e6 == pytest.approx(time.time(), abs=30)
            await busy(other, name, second)
            assert None not in await store.renew([Renewal(name, first, got.token, 60)], soon())
            assert await store.give_back(name, first, True, soon())
            await busy(store, name, first)
            assert await _engine(server) == "InnoDB"
            taken = await granted(other, name, second, lease=0.05)
            assert taken.token > got.token + 1

            async def is_free() -> bool:
                return await holder(store, name) is None

            await until_async(is_free)
            # Nothing is left uncommitted, so nothing is locked either.
            ((transactions,),) = await server.sql(
                "SELECT COUNT(*) FROM information_schema.innodb_trx"
                " WHERE trx_mysql_thread_id <> CONNECTION_ID()"
            )
            assert transactions == 0


async def _engine(server: MariaDB) -> str:
    ((engine,),) = await server.sql(f"SELECT engine {_IN_SCHEMA}")
    return str(engine)


async def test_clocks_that_are_set_back_in_autumn_do_no_harm(server: MariaDB) -> None:
    """`NOW()` has the same value twice in this night: `UTC_TIMESTAMP` does not."""
    change = datetime(2026, 10, 25, 1, 0, tzinfo=UTC).timestamp()
    async with server.admin() as cursor:
        moments = []
        for at in (change - 1800, change + 1800):
            await cursor.execute(f"SET time_zone = 'SYSTEM', timestamp = {at}")
            await cursor.execute(f"SELECT {sql._NOW}, NOW()")
            moments += await cursor.fetchall()
        (first, local), (second, local_again) = moments
    assert local == local_again
    assert (first, second) == ((change - 1800) * 1e6, (change + 1800) * 1e6)


async def test_one_that_may_not_make_the_table_is_shown_the_sql(server: MariaDB) -> None:
    await server.sql(f"DROP TABLE IF EXISTS {sql.TABLE}")
    poor = server.url(user=POOR_USER)
    with pytest.raises(BackendError) as caught:
        async with started(poor):
            pass
    assert schema_sql() in str(caught.value)
    assert POOR_USER not in str(caught.value)
    assert not isinstance(caught.value, ConnectionLostError)
    await server.sql(schema_sql(), schema_sql())
    async with started(poor) as store:
        name, who = new_name(), owner()
        await granted(store, name, who)
        assert await store.give_back(name, who, True, soon())


async def test_too_many_connections_are_waited_for(server: MariaDB) -> None:
    store = MySQLStore.from_url(server.url())
    async with server.settings(max_connections="10"), AsyncExitStack() as stack:
        # The tenth is the administrator's, in the settings above.
        for _ in range(9):
            await stack.enter_async_context(started(server.url()))
        with pytest.raises(ConnectionLostError, match="1040") as caught:
            await store.start(Bell(), soon(2))
        assert not caught.value.maybe_held
        task = asyncio.create_task(store.start(Bell(), soon(60)))
        await stack.aclose()
        await task
        await store.stop()


async def test_a_limit_of_the_user_is_waited_for(server: MariaDB) -> None:
    """It may have fewer connections than the URL says; requests share those."""
    try:
        await server.sql("ALTER USER app WITH MAX_USER_CONNECTIONS 1")
        async with started(server.url()) as store:
            await asyncio.gather(*(granted(store, new_name(), owner()) for _ in range(5)))
            with pytest.raises(ConnectionLostError, match="max_user_connections") as caught:
                await MySQLStore.from_url(server.url()).start(Bell(), soon(2))
            assert not caught.value.maybe_held
            assert "app" not in str(caught.value)
    finally:
        await server.sql("ALTER USER app WITH MAX_USER_CONNECTIONS 0")


async def test_a_refused_init_connect_does_not_name_the_user(server: MariaDB) -> None:
    async with server.settings(init_connect="'SET NAMES utf16'"):
        with pytest.raises(ConnectionLostError, match="init_connect command failed") as caught:
            await MySQLStore.from_url(server.url()).start(Bell(), soon(2))
    assert "app" not in str(caught.value)


@pytest.mark.parametrize(
    ("user", "password", "database"),
    [("app", "secret", DATABASE), ("nobody", "secret", DATABASE), ("app", None, "elsewhere")],
)
async def test_a_refused_login_tells_no_secret(
    server: MariaDB, user: str, password: str | None, database: str
) -> None:
    url = server.url(user=user).replace(f"/{DATABASE}", f"/{database}")
    if password is not None:
        url = f"mysql://{user}:{password}@127.0.0.1:{server.port}/{database}"
    store = MySQLStore.from_url(url)
    with pytest.raises(BackendError) as caught:
        await store.start(Bell(), soon())
    assert not isinstance(caught.value, ConnectionLostError)
    for text in (str(caught.value), repr(store)):
        assert "secret" not in text
        assert PASSWORD not in text
        assert user not in text.replace("MySQLStore", "")


async def test_tls_checks_the_certificate(
    server: MariaDB, certificates: Certificates, tmp_path: Path
) -> None:
    right = f"?ssl=true&ssl_ca_certs={certificates.authority}"
    async with started(server.url(right)) as store:
        await granted(store, new_name(), owner())
        assert store._connections is not None
        (connection,) = store._connections._idle
        assert connection._driver._transport.get_extra_info("ssl_object") is not None
    other = make_certificates(tmp_path / "other", "IP:127.0.0.1")
    for wrong in (f"?ssl=true&ssl_ca_certs={other.authority}", "?ssl=true"):
        with pytest.raises(BackendError, match="certificate") as caught:
            async with started(server.url(wrong)):
                pass
        assert not isinstance(caught.value, ConnectionLostError)


def test_a_url_says_it_all() -> None:
    target = read_url(
        "mariadb://us%40er:p%C3%A4ss@[::1]:3307/my%20db?connections=3&poll_interval=2"
    )
    assert (target.host, target.port, target.user) == ("::1", 3307, "us@er")
    assert (target.password, target.database) == ("päss".encode(), "my db")
    assert (target.connections, target.poll_interval, target.tls) == (3, 2.0, None)
    assert target.where == "[::1]:3307/my db"
    assert repr(target) == "<Target [::1]:3307/my db>"
    plain = read_url("mysql://u@h/d")
    assert (plain.port, plain.password, plain.poll_interval) == (3306, b"", 0.5)
