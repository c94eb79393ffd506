"""Names for which nobody waits: a pair is two short statements, and contention is seen in them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from redisson_py._stores.postgres import sql
from redisson_py._stores.postgres.listening import channel_of
from redisson_py._stores.postgres.table import in_schema
from redisson_py.errors import ConnectionLostError
from tests.stores.databases import busy, granted, soon, wish
from tests.stores.postgres.scene import connected, id_of, row_of, started, until_blocked
from tests.stores.postgres.server import PostgresServer


async def last_statement(raw: Any, name: str) -> str:
    """Return what the only connection of a store has sent last."""
    found: str = await raw.fetchval(
        "SELECT query FROM pg_stat_activity WHERE application_name = $1", name
    )
    return found


async def test_a_crowded_name_is_plain_again_when_nobody_waits(server: PostgresServer) -> None:
    url = f"{server.url}?application_name=plain"
    plain = in_schema(sql.ASK_PLAIN, "public"), in_schema(sql.GIVE_BACK_PLAIN, "public")
    async with (
        started(url, connections=1) as store,
        started(server.url) as other,
        connected(server.url) as raw,
    ):

        async def pair() -> tuple[bool, bool]:
            """Return whether a pair needed one plain statement each."""
            await granted(store, "again", "a:01")
            asked = await last_statement(raw, "plain")
            assert await store.give_back("again", "a:01", False, soon())
            released = await last_statement(raw, "plain")
            return plain[0].startswith(asked), plain[1].startswith(released)

        assert await pair() == (True, True)
        await granted(store, "again", "a:01")
        await busy(other, "again", "b:01", waits=True)
        assert await store.give_back("again", "a:01", False, soon())
        assert not plain[1].startswith(await last_statement(raw, "plain"))
        await granted(other, "again", "b:01", waits=True)
        assert await other.give_back("again", "b:01", False, soon())
        assert await pair() == (False, False)
        assert await pair() == (True, True)


async def test_a_second_statement_that_fails_hides_no_lost_first_one(
    server: PostgresServer,
) -> None:
    """What was asked before may still be carried out: the caller gives it back."""
    async with started(server.url) as store, connected(server.url) as raw:
        store._repeated["a:01"] = None  # as after a lost answer
        await raw.execute("ALTER TABLE redisson_py_locks RENAME TO away")
        try:
            with pytest.raises(ConnectionLostError) as caught:
                await store.ask(wish("lost", "a:01"), soon())
            assert caught.value.maybe_held
        finally:
            await raw.execute("ALTER TABLE away RENAME TO redisson_py_locks")


@pytest.mark.parametrize("late", ["ask", "release"])
async def test_a_plain_statement_decides_on_the_newest_row(
    server: PostgresServer, late: str
) -> None:
    """Its snapshot shows no queue: it is older than the one who joins."""
    async with (
        started(server.url) as store,
        connected(server.url) as raw,
        connected(server.url) as plain,
        connected(server.url) as look,
    ):
        key = id_of(late)
        await granted(store, late, "a:01")
        transaction = raw.transaction()
        await transaction.start()
        await raw.fetch(sql.ASK, key, late, "b:01", 30.0, 1, "5", False)
        if late == "ask":
            # Called, and kept for it.
            await raw.fetch(sql.GIVE_BACK, key, channel_of(late), "a:01")
            assert not await plain.fetchval(sql.ASK_PLAIN, key, late, "c:01", 30.0, 1)
            await transaction.commit()
            assert await plain.fetch(sql.ASK_PLAIN, key, late, "c:01", 30.0, 1) == []
        else:
            asking = asyncio.create_task(plain.fetch(sql.GIVE_BACK_PLAIN, key, "a:01"))
            await until_blocked(look)
            await transaction.commit()
            assert await asking == []
            assert (await row_of(raw, late))["owner"] == "a:01"
