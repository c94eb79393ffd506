"""Many clients that want one name: they stand in a queue in its row, and its first two poll."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from redisson_py._stores.contract import Busy, Granted
from redisson_py._stores.mysql import MySQLStore, polling, sql
from redisson_py.mysql import MySQL
from tests.stores.databases import busy, granted, new_name, owner, soon, waiters, wish
from tests.stores.mysql.scene import count, started
from tests.stores.mysql.server import MariaDB
from tests.support.waiting import until_async

#: A few less than the connections that the server takes by default.
_MANY = 128
_COUNTED = ("Com_insert", "Com_update", "Com_delete", "Com_select", "Com_begin", "Com_commit")


async def queue_of(server: MariaDB, name: str) -> str | None:
    """Return the column with the queue and the tombstones, as it is."""
    rows = await server.sql(f"SELECT refused FROM {sql.TABLE} WHERE id = {sql.key(name)}")
    found: str | None = rows[0][0]
    return found


async def goes_first(server: MariaDB, name: str, who: str) -> None:
    """Return when nobody that comes goes before an owner."""

    async def is_so() -> bool:
        ((_, _, position, open_for),) = await server.sql(sql.poll(name, who, 0.2))
        return bool(position == 0 and open_for <= 0)

    await until_async(is_so)


async def test_a_pair_that_nobody_waits_for_is_three_statements(
    server: MariaDB, store: MySQLStore
) -> None:
    """Each commits on its own."""
    name, me = new_name(), owner()
    before = [await count(server, each) for each in _COUNTED]
    await store.ask(wish(name, me, waits=True), soon())
    await store.give_back(name, me, False, soon())
    after = [await count(server, each) for each in _COUNTED]
    assert [late - early for early, late in zip(before, after, strict=True)] == [1, 1, 0, 1, 0, 0]


async def test_first_come_first_served(
    server: MariaDB, store: MySQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling, "_PATIENCE_SECONDS", 60.0)
    name, holds, newcomer = new_name(), owner(), owner()
    queued = [owner() for _ in range(4)]
    await granted(store, name, holds)
    async with started(server.url()) as other:
        for who in queued:
            await busy(other, name, who, waits=True)
        assert await waiters(store, name) == tuple(queued)
        await store.give_back(name, holds, False, soon())
        for number, first in enumerate(queued):
            await goes_first(server, name, first)
            # It is free, and kept for the first: neither for the others nor for who comes now.
            for who in queued[number + 1 :]:
                await busy(other, name, who, waits=True)
            await busy(store, name, newcomer)
            answer = await other.ask(wish(name, first, waits=True), soon())
            assert isinstance(answer, Granted)
            again = await granted(other, name, first)
            assert again.token == answer.token
            assert await waiters(store, name) == tuple(queued[number + 1 :])
            await other.give_back(name, first, False, soon())
    assert await queue_of(server, name) is None
    await granted(store, name, newcomer)


@pytest.mark.parametrize("unsure", [False, True])
@pytest.mark.parametrize("which", [0, 1, 2])
async def test_who_leaves_leaves_no_entry(
    server: MariaDB, store: MySQLStore, which: int, unsure: bool
) -> None:
    name, queued = new_name(), [owner() for _ in range(3)]
    await granted(store, name, owner())
    for who in queued:
        await busy(store, name, who, waits=True)
    left = queued.pop(which)
    before = await count(server, "Com_update"), await count(server, "Com_select")
    assert await store.give_back(name, left, unsure, soon()) == 0
    if not unsure:
        after = await count(server, "Com_update"), await count(server, "Com_select")
        assert after == (before[0] + 1, before[1])
    assert await waiters(store, name) == tuple(queued)
    assert await store.give_back(name, left, unsure, soon()) == 0
    assert await waiters(store, name) == tuple(queued)
    # Its first leaving failed, so the store has forgotten it.
    async with started(server.url()) as other:
        assert await other.give_back(name, queued[0], False, soon()) == 0
    assert await waiters(store, name) == (queued[1],)


async def test_many_that_come_at_once_are_all_served(server: MariaDB) -> None:
    """With the pools and the limit of connections that a user has."""
    served: list[int] = []

    async def want(who: int, client: MySQL) -> None:
        async with client.get_lock("many"):
            served.append(who)
            await asyncio.sleep(0.002)

    async with AsyncExitStack() as stack, asyncio.timeout(300):
        made = [await stack.enter_async_context(MySQL.from_url(server.url())) for _ in range(_MANY)]
        await asyncio.gather(*(want(who, client) for who, client in enumerate(made)))
    assert sorted(served) == list(range(_MANY))
    assert await queue_of(server, "many") is None


@pytest.mark.parametrize("end", ["held", "free"])
async def test_one_that_is_not_next_does_not_wait_for_the_row(
    server: MariaDB, store: MySQLStore, end: str
) -> None:
    """Many that wait for one row stand in each other's way, and in that of the holder."""
    name, holds, first, waiter = new_name(), owner(), owner(), owner()
    await granted(store, name, holds)
    await busy(store, name, first, waits=True)
    await busy(store, name, waiter, waits=True)
    # Its entry must be written, as it has none.
    await server.sql(sql.leave(name, waiter))
    if end == "free":
        await store.give_back(name, holds, False, soon())
    async with server.admin() as cursor:
        await cursor.execute("BEGIN")
        await cursor.execute(f"SELECT 1 FROM {sql.TABLE} WHERE id = {sql.key(name)} FOR UPDATE")
        # With a deadline that is long before the server gives up.
        answer = await store.ask(wish(name, waiter, waits=True), soon(0.9))
        assert isinstance(answer, Busy)
        await cursor.execute("ROLLBACK")
    assert await waiters(store, name) == (first,)
    await busy(store, name, waiter, waits=True)
    assert await waiters(store, name) == (first, waiter)


async def test_nothing_is_remembered_of_owners_that_are_done(store: MySQLStore) -> None:
    name, first, second = new_name(), owner(), owner()
    await granted(store, name, first)
    await busy(store, name, second, waits=True)
    await store.give_back(name, first, False, soon())
    await granted(store, name, second)
    await store.give_back(name, second, False, soon())
    assert not store._polls._waiters
    assert not store._crowded
    assert not store._uncertain
