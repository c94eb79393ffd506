"""The MySQL store when its server is silent, slow, or killed, on a real MariaDB."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest
from asyncmy.errors import MySQLError

from redisson_py import _time
from redisson_py._stores.contract import Granted, Renewal
from redisson_py._stores.mysql import MySQLStore, sql
from redisson_py.errors import ConnectionLostError
from redisson_py.testing import FaultProxy
from tests.stores.mysql.scene import (
    CountingBell,
    busy,
    count,
    eventually,
    granted,
    holder,
    new_name,
    owner,
    soon,
    started,
    wish,
)
from tests.stores.mysql.server import MariaDB

Call = Callable[[MySQLStore, str, str, int], Coroutine[Any, Any, object]]


async def _call_ask(store: MySQLStore, name: str, who: str, token: int) -> object:
    return await store.ask(wish(name, who), soon(1))


async def _call_give_back(store: MySQLStore, name: str, who: str, token: int) -> object:
    return await store.give_back(name, who, False, soon(1))


async def _call_renew(store: MySQLStore, name: str, who: str, token: int) -> object:
    return await store.renew([Renewal(name, who, token, 30)], soon(1))


async def _call_look(store: MySQLStore, name: str, who: str, token: int) -> object:
    return await store.look(name, soon(1))


@pytest.mark.parametrize("call", [_call_ask, _call_give_back, _call_renew, _call_look])
async def test_a_dead_peer_is_noticed_by_the_deadline(
    victim: MySQLStore, proxy: FaultProxy, bell: CountingBell, call: Call
) -> None:
    name, who = new_name(), owner()
    got = await granted(victim, name, who)
    await asyncio.gather(*(victim.ping(soon()) for _ in range(3)))
    assert victim._connections is not None
    assert len(victim._connections._idle) > 1
    proxy.black_hole()
    async with asyncio.timeout(60):
        with pytest.raises(ConnectionLostError) as caught:
            await call(victim, name, who, got.token)
        assert caught.value.maybe_held
        # The other connections are not trusted either, and a new one gets nowhere.
        assert not victim._connections._idle
        with pytest.raises(ConnectionLostError) as caught:
            await call(victim, name, who, got.token)
        assert not caught.value.maybe_held
    proxy.pass_through()
    await granted(victim, name, who)
    assert bell.all_rung == 1


async def test_a_silent_connection_is_left_for_a_new_one(
    victim: MySQLStore, proxy: FaultProxy
) -> None:
    name, who = new_name(), owner()
    proxy.black_hole()
    task = asyncio.create_task(victim.ask(wish(name, who), soon(5)))
    sent = proxy.up.chunks
    await proxy.wait_until(lambda each: each.up.chunks > sent)
    proxy.pass_through()  # what was lost stays lost
    assert isinstance(await task, Granted)


async def test_a_stopped_server_answers_when_it_goes_on(server: MariaDB, store: MySQLStore) -> None:
    name, who = new_name(), owner()
    server.pause()
    try:
        with pytest.raises(ConnectionLostError) as caught:
            await store.ask(wish(name, who), soon(1))
        assert caught.value.maybe_held
    finally:
        server.resume()
    await store.give_back(name, who, True, soon())
    await busy(store, name, who)
    await granted(store, name, owner())


@pytest.mark.parametrize("by", ["the server's wait_timeout", "KILL"])
async def test_a_closed_connection_is_replaced_silently(server: MariaDB, by: str) -> None:
    timeout = "28800" if by == "KILL" else "1"
    async with server.settings(wait_timeout=timeout):
        async with started(server.url(), bell := CountingBell()) as store:
            assert store._connections is not None
            (connection,) = store._connections._idle
            if by == "KILL":
                ((number,),) = await server.sql(
                    "SELECT id FROM information_schema.processlist WHERE user = 'app'"
                )
                await server.sql(f"KILL {number}")

            async def is_closed() -> bool:
                return not connection.usable

            await eventually(is_closed)
            await granted(store, new_name(), owner())
            assert not store._uncertain
            assert bell.all_rung == 1


async def test_a_cancelled_call_leaves_nothing_behind(server: MariaDB, store: MySQLStore) -> None:
    name, first, second = new_name(), owner(), owner()
    await granted(store, name, first)
    async with server.admin() as cursor:
        await cursor.execute("BEGIN")
        await cursor.execute(f"SELECT 1 FROM {sql.TABLE} WHERE id = {sql.key(name)} FOR UPDATE")
        task = asyncio.create_task(store.ask(wish(name, second), soon()))
        waits = "SELECT 1 FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"

        async def is_waiting() -> bool:
            return bool(await server.sql(waits))

        await eventually(is_waiting)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert store._connections is not None
        assert not store._connections._idle
        assert not store._connections._used
        await cursor.execute("ROLLBACK")
    # Neither call reads the answer to the one before.
    assert await holder(store, name) == first
    assert await store.give_back(name, first, False, soon())


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

            await eventually(is_asked_again)
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

        await eventually(is_killed)
        await cursor.execute("ROLLBACK")
    assert await task == 1


async def test_a_hold_survives_a_killed_server(server: MariaDB) -> None:
    bell = CountingBell()
    async with started(server.url(), bell) as store:
        name, who = new_name(), owner()
        got = await granted(store, name, who, lease=300)
        server.kill()
        with pytest.raises(ConnectionLostError):
            await store.ping(soon(0.2))
        with pytest.raises(ConnectionLostError) as caught:
            await store.ask(wish(name, owner()), soon(0.2))
        assert not caught.value.maybe_held
        task = asyncio.create_task(store.renew([Renewal(name, who, got.token, 600)], soon(60)))
        await asyncio.to_thread(server.start)
        (until,) = await task
        assert until == pytest.approx(_time.now() + 600, abs=30)
        assert bell.all_rung == 1
        assert await store.give_back(name, who, False, soon())
        assert (await granted(store, name, owner())).token > got.token
