"""The MySQL store when requests come late, and when the server does not serve them at once."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from asyncmy.errors import MySQLError

from redisson_py._stores.contract import Granted
from redisson_py._stores.mysql import MySQLStore, sql
from redisson_py.errors import BackendError, ConnectionLostError
from redisson_py.testing import FaultProxy
from tests.stores.databases import busy, granted, holder, new_name, owner, soon, wish
from tests.stores.mysql.scene import count
from tests.stores.mysql.server import MariaDB
from tests.support.waiting import until_async


async def test_owners_that_never_give_back_are_not_kept_for_ever(
    store: MySQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their leases ended in an outage, and the engine sends no more releases."""
    monkeypatch.setattr("redisson_py._stores.remembered.MOST", 2)
    name, owners = new_name(), [owner() for _ in range(5)]

    async def lose(*_: object, **__: object) -> object:
        raise ConnectionLostError("lost", maybe_held=True)

    with monkeypatch.context() as failing:
        failing.setattr(store, "_run", lose)
        for who in owners:
            with pytest.raises(ConnectionLostError):
                await store.ask(wish(name, who), soon())
            with pytest.raises(ConnectionLostError):
                await store.give_back(name, who, True, soon())
    assert list(store._uncertain) == owners[-2:]
    await store.give_back(name, owners[-1], False, soon())
    assert list(store._uncertain) == owners[-2:-1]
    await busy(store, name, owners[-1])


@pytest.mark.parametrize("given_up", [False, True])
@pytest.mark.parametrize("known", [False, True])
async def test_a_late_request_is_refused_after_an_unsure_release(
    server: MariaDB,
    store: MySQLStore,
    victim: MySQLStore,
    proxy: FaultProxy,
    known: bool,
    given_up: bool,
) -> None:
    """And is granted without one."""
    name, who = new_name(), owner()
    if known:  # the row of the name is there already
        other = owner()
        await granted(store, name, other)
        await store.give_back(name, other, False, soon())
    proxy.hold()
    with pytest.raises(ConnectionLostError) as caught:
        await victim.ask(wish(name, who), soon(1))
    assert caught.value.maybe_held
    if given_up:
        assert not await store.give_back(name, who, True, soon())
    # The second statement of the request: the first one has been carried out then.
    before = await count(server, "Com_select")
    proxy.release_held()

    async def is_carried_out() -> bool:
        return await count(server, "Com_select") > before

    await until_async(is_carried_out)
    if not given_up:
        assert await holder(store, name) == who
        return
    await busy(store, name, who)
    # Nobody else is refused.
    await granted(store, name, owner())


async def test_the_list_of_refused_owners_is_bounded(server: MariaDB, store: MySQLStore) -> None:
    name, who = new_name(), owner()
    await store.give_back(name, owner(), True, soon())
    await server.sql(
        f"UPDATE {sql.TABLE} SET refused = REPEAT('x', 65535),"
        f" released = CONCAT(' ', REPEAT('y', 1023)) WHERE id = {sql.key(name)}"
    )
    await store.give_back(name, who, True, soon())
    await busy(store, name, who)
    other = owner()
    await granted(store, name, other)
    assert await store.give_back(name, other, True, soon())
    assert await store.give_back(name, other, False, soon())


async def test_a_refusal_after_an_unanswered_request_is_unsure(
    store: MySQLStore, server: MariaDB, victim: MySQLStore, proxy: FaultProxy
) -> None:
    name, who = new_name(), owner()

    async def is_held() -> bool:
        return await holder(store, name) == who

    try:
        proxy.black_hole("down")
        asking = asyncio.create_task(victim.ask(wish(name, who), soon()))
        await until_async(is_held)
        await server.sql("ALTER USER app ACCOUNT LOCK")
        proxy.pass_through()
        proxy.cut()
        with pytest.raises(ConnectionLostError) as caught:
            await asking
        assert caught.value.maybe_held
        with pytest.raises(BackendError) as refused:
            await victim.ping(soon())
        assert not isinstance(refused.value, ConnectionLostError)
    finally:
        await server.sql("ALTER USER app ACCOUNT UNLOCK")


async def test_a_locked_row_or_table_is_waited_for(server: MariaDB, store: MySQLStore) -> None:
    for lock in (
        f"SELECT * FROM {sql.TABLE} FOR UPDATE",
        f"LOCK TABLES {sql.TABLE} WRITE",
    ):
        name, who = new_name(), owner()
        await granted(store, name, who)
        await store.give_back(name, who, False, soon())
        async with server.admin() as cursor:
            await cursor.execute("BEGIN")
            await cursor.execute(lock)
            before = await count(server, "Com_insert")
            task = asyncio.create_task(store.ask(wish(name, owner()), soon(60)))

            async def is_asked_again(before: int = before) -> bool:
                return await count(server, "Com_insert") >= before + 2

            await until_async(is_asked_again)
            await cursor.execute("ROLLBACK")
            await cursor.execute("UNLOCK TABLES")
        assert isinstance(await task, Granted)
        # The server had given up by itself: no request is under way any more.
        assert not store._uncertain


async def test_a_killed_query_is_sent_again(server: MariaDB, store: MySQLStore) -> None:
    name, first = new_name(), owner()
    await granted(store, name, first)
    async with server.admin() as cursor:
        await cursor.execute("BEGIN")
        await cursor.execute(f"SELECT 1 FROM {sql.TABLE} WHERE id = {sql.key(name)} FOR UPDATE")
        task = asyncio.create_task(store.give_back(name, first, False, soon()))
        waits = (
            "SELECT trx_mysql_thread_id FROM information_schema.innodb_trx"
            " WHERE trx_state = 'LOCK WAIT'"
        )

        async def is_killed() -> bool:
            # InnoDB renews this list only when nobody has read it for 0.1 seconds.
            await asyncio.sleep(0.2)
            for (each,) in await server.sql(waits):
                with suppress(MySQLError):  # the list may be older than the statement
                    await server.sql(f"KILL QUERY {each}")
                    return True
            return False

        await until_async(is_killed)
        await cursor.execute("ROLLBACK")
    assert await task == 1
