"""What other users of the database can put in the way of our statements, and users with odd names.

MySQL has no operators of users, and takes its own function for a name before a stored one: our
statements write none with a space behind its name. So what is left is the table's name.
"""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest

from redisson_py._stores.contract import Renewal
from redisson_py._stores.mysql import MySQLStore, sql
from redisson_py.errors import BackendError
from tests.stores.databases import Bell, granted, owner, soon, wish
from tests.stores.mysql.scene import started
from tests.stores.mysql.server import DATABASE, PASSWORD, MariaDB

_TRAP = """
CREATE OR REPLACE FUNCTION {name}({arguments}) RETURNS {result} SQL SECURITY INVOKER
DETERMINISTIC MODIFIES SQL DATA
BEGIN INSERT INTO caught VALUES ('{name}', CURRENT_USER()); RETURN 1; END
"""
#: What our statements call: words with a parenthesis behind, but for what is syntax.
_CALLED = re.compile(r"\b([A-Z_]+)\(")
_SYNTAX = {"IN", "VALUES"}


def statements() -> list[str]:
    hold = Renewal("k", owner(), 1, 30.0)
    return [
        sql.ask("k", owner(), 30.0, 1),
        sql.ask_in_queue("k", owner(), 30.0, 1, (0.1, 0.6)),
        sql.give_back("k", owner()),
        sql.give_back_unsure("k", owner()),
        sql.poll("k", owner(), 0.1),
        sql.leave_or_released("k", owner()),
        sql.renew([hold]),
        sql.set_lease(hold, 1),
        sql.look("k"),
        sql.force_release("k", owner(), 1),
        sql.CHECK,
        sql.IS_VIEW,
        sql.SETTINGS,
    ]


def test_no_function_of_ours_has_a_space_behind_its_name() -> None:
    """With one, MySQL takes a stored function of that name."""
    words = re.findall(r"\b(\w+)\s+\(", " ;\n".join(statements()))
    assert {*words} <= {"redisson_py_locks", "VALUES", "IN", "AND"}


async def test_stored_functions_with_names_of_mysql_do_not_run(server: MariaDB) -> None:
    called = {each for text in statements() for each in _CALLED.findall(text)} - _SYNTAX
    assert len(called) > 8
    async with server.admin() as admin:
        await admin.execute("CREATE TABLE caught (what TEXT, who TEXT) ENGINE=MyISAM")
        for name in called:
            trap = _TRAP.format(name=f"`{name}`", arguments="a INT", result="INT")
            await admin.execute(trap)
        # It runs where it is meant.
        await admin.execute(f"SELECT {DATABASE}.`LOCATE`(1)")
        await admin.execute("SELECT what FROM caught")
        assert await admin.fetchall() == (("`LOCATE`",),)
        await admin.execute("DELETE FROM caught")
    async with started(server.url()) as store:
        who = owner()
        hold = await granted(store, "k", who)
        for exact in (False, True):
            assert await store.renew([Renewal("k", who, hold.token, 30.0, exact)], soon()) != [None]
        assert await store.force_release("k", soon())
        assert await store.give_back("k", who, True, soon()) == 0
        assert await store.give_back("k", who, False, soon()) == 0
    assert await server.sql("SELECT * FROM caught") == ()
    await server.sql("DROP TABLE caught", *(f"DROP FUNCTION `{name}`" for name in called))


async def test_a_view_instead_of_the_table_is_refused(server: MariaDB) -> None:
    """Its function would run with our rights: it does for whoever reads a row of it."""
    async with started(server.url()) as store:
        await granted(store, "k", owner())
    await server.sql(
        f"RENAME TABLE {sql.TABLE} TO theirs",
        "CREATE TABLE caught (what TEXT, who TEXT) ENGINE=MyISAM",
        _TRAP.format(name="trap", arguments="", result="INT"),
        f"CREATE SQL SECURITY INVOKER VIEW {sql.TABLE} AS SELECT * FROM theirs WHERE trap() = 1",
    )
    try:
        store = MySQLStore.from_url(server.url())
        with pytest.raises(BackendError, match="is a view, not a table"):
            await store.start(Bell(), soon())
        assert await server.sql("SELECT * FROM caught") == ()
        # As an administrator, who has all rights.
        assert await server.sql(f"SELECT 1 FROM {sql.TABLE}", "SELECT who FROM caught")
    finally:
        await server.sql(
            f"DROP VIEW {sql.TABLE}",
            f"RENAME TABLE theirs TO {sql.TABLE}",
            "DROP FUNCTION trap",
            "DROP TABLE caught",
        )


@pytest.mark.parametrize(
    "user",
    ["o'hidden", "the user 'hidden'@'yonder'", "hidden' for table 'yonder", "hidden 'max_yonder'"],
)
async def test_no_part_of_a_users_name_is_reported(server: MariaDB, user: str) -> None:
    """Wherever the server names it: at a login, a right that is missing, and a limit."""
    literal = "'{}'@'%'".format(user.replace("'", "''"))
    async with started(server.url()):
        pass
    password = quote(PASSWORD, safe="")
    url = f"mysql://{quote(user, safe='')}:{password}@127.0.0.1:{server.port}/{DATABASE}"
    texts: list[str] = []

    async def fail() -> None:
        with pytest.raises(BackendError) as caught:
            async with started(url) as store:
                for _ in range(10):
                    await store.ask(wish("k", owner()), soon(1))
        texts.append(str(caught.value))

    await fail()
    await server.sql(f"CREATE USER {literal} IDENTIFIED BY '{PASSWORD}'")
    try:
        await fail()
        await server.sql(f"GRANT SELECT ON {DATABASE}.* TO {literal}")
        await fail()
        await server.sql(f"GRANT ALL ON {DATABASE}.* TO {literal} WITH MAX_UPDATES_PER_HOUR 1")
        await fail()
    finally:
        await server.sql(f"DROP USER {literal}")
    for text, code in zip(texts, ("1045", "1044", "1142", "1226"), strict=True):
        assert code in text
        assert "hidden" not in text
        assert "yonder" not in text
