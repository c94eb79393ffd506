"""The MySQL store when replies are lost, or requests come late, on a real MariaDB."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from redisson_py import _time
from redisson_py._stores.contract import Busy, Granted, Renewal
from redisson_py._stores.mysql import MySQLStore, sql
from redisson_py.errors import BackendError, ConnectionLostError
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
    wish,
)
from tests.stores.mysql.server import MariaDB

Call = Callable[[MySQLStore, str, str, int], Coroutine[Any, Any, object]]


async def _lose_reply(
    proxy: FaultProxy, call: Coroutine[Any, Any, Any], done: Callable[[], Coroutine[Any, Any, bool]]
) -> Any:
    """Make a call, lose its reply when the server has carried it out, and break the connection."""
    proxy.black_hole("down")
    task = asyncio.create_task(call)
    await eventually(done)
    received = proxy.down.chunks
    assert received
    proxy.pass_through()
    proxy.cut()
    return await task


async def test_a_grant_whose_reply_is_lost_is_found_again(
    store: MySQLStore, victim: MySQLStore, proxy: FaultProxy, bell: CountingBell
) -> None:
    name, who = new_name(), owner()

    async def is_held() -> bool:
        return await holder(store, name) == who

    got = await _lose_reply(proxy, victim.ask(wish(name, who), soon()), is_held)
    assert isinstance(got, Granted)
    state = await store.look(name, soon())
    assert state.holder is not None
    assert got.token == state.holder.token
    assert got.until <= _time.now() + state.holder.remaining + 0.5
    assert bell.all_rung == 1
    # The first request may still arrive: the release leaves a tombstone without being told to.
    assert await victim.give_back(name, who, False, soon())
    await busy(store, name, who)


async def test_owners_that_never_give_back_are_not_kept_for_ever(
    store: MySQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their leases ended in an outage, and the engine sends no more releases."""
    monkeypatch.setattr("redisson_py._stores.mysql.store._REMEMBERED", 2)
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


async def test_a_name_that_is_busy_now_may_still_be_granted_late(
    store: MySQLStore, victim: MySQLStore, proxy: FaultProxy
) -> None:
    """A caller that does not wait would not give back; one that waits does."""
    for waits in (False, True):
        name, who, other = new_name(), owner(), owner()

        async def is_lost(name: str = name, who: str = who, other: str = other) -> bool:
            if await holder(store, name) != who:
                return False
            await store.force_release(name, soon())
            await granted(store, name, other)
            return True

        asked = _lose_reply(proxy, victim.ask(wish(name, who, waits=waits), soon()), is_lost)
        if waits:
            assert isinstance(await asked, Busy)
            assert who in victim._uncertain
        else:
            with pytest.raises(ConnectionLostError) as caught:
                await asked
            assert caught.value.maybe_held


async def test_a_release_whose_reply_is_lost_answers_that_it_held(
    store: MySQLStore, victim: MySQLStore, proxy: FaultProxy
) -> None:
    for unsure in (False, True):
        name, who, next_one = new_name(), owner(), owner()
        await granted(victim, name, who)

        async def is_free(name: str = name, next_one: str = next_one) -> bool:
            # Another holder comes and goes before the release is sent again.
            answer = await store.ask(wish(name, next_one), soon())
            if isinstance(answer, Granted):
                await store.give_back(name, next_one, False, soon())
            return isinstance(answer, Granted)

        assert await _lose_reply(proxy, victim.give_back(name, who, unsure, soon()), is_free)


async def test_a_renewal_whose_reply_is_lost_is_made_again(
    store: MySQLStore, victim: MySQLStore, proxy: FaultProxy
) -> None:
    name, who = new_name(), owner()
    got = await granted(victim, name, who, lease=10)

    async def is_renewed() -> bool:
        state = await store.look(name, soon())
        return state.holder is not None and state.holder.remaining > 20

    renewal = victim.renew([Renewal(name, who, got.token, 60)], soon())
    (until,) = await _lose_reply(proxy, renewal, is_renewed)
    assert until == pytest.approx(_time.now() + 60, abs=15)


async def _let_it_come_late(
    server: MariaDB, proxy: FaultProxy, victim: MySQLStore, name: str, who: str
) -> Callable[[], Coroutine[Any, Any, None]]:
    """Have a request time out on its way; return how to let it arrive."""
    proxy.hold()
    with pytest.raises(ConnectionLostError) as caught:
        await victim.ask(wish(name, who), soon(1))
    assert caught.value.maybe_held
    assert proxy.held

    async def arrive() -> None:
        # The second statement of the request: the first one has been carried out then.
        before = await count(server, "Com_select")
        proxy.release_held()

        async def is_carried_out() -> bool:
            return await count(server, "Com_select") > before

        await eventually(is_carried_out)

    return arrive


async def test_a_late_request_would_be_granted(
    server: MariaDB, store: MySQLStore, victim: MySQLStore, proxy: FaultProxy
) -> None:
    name, who = new_name(), owner()
    arrive = await _let_it_come_late(server, proxy, victim, name, who)
    await arrive()
    assert await holder(store, name) == who


@pytest.mark.parametrize("known", [False, True])
async def test_a_late_request_is_refused_after_an_unsure_release(
    server: MariaDB, store: MySQLStore, victim: MySQLStore, proxy: FaultProxy, known: bool
) -> None:
    name, who = new_name(), owner()
    if known:  # the row of the name is there already
        other = owner()
        await granted(store, name, other)
        await store.give_back(name, other, False, soon())
    arrive = await _let_it_come_late(server, proxy, victim, name, who)
    assert not await store.give_back(name, who, True, soon())
    await arrive()
    await busy(store, name, who)
    # Nobody else is refused.
    await granted(store, name, owner())


async def test_a_tombstone_stays_for_a_minute_and_is_swept(
    server: MariaDB, store: MySQLStore
) -> None:
    name, who, other = new_name(), owner(), owner()
    await store.give_back(name, who, True, soon())
    row = f"FROM {sql.TABLE} WHERE id = {sql.key(name)}"
    ((until,),) = await server.sql(f"SELECT refused_until - {sql._NOW} {row}")
    assert 55e6 < until <= 60e6
    await store.give_back(name, other, True, soon())
    await busy(store, name, who)
    await busy(store, name, other)
    await server.sql(f"UPDATE {sql.TABLE} SET refused_until = 1 WHERE id = {sql.key(name)}")
    await store.ask(wish(name, owner()), soon())
    assert await server.sql(f"SELECT refused {row}") == ((None,),)


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
        held = await holder(store, name) == who
        if held:
            await server.sql("ALTER USER app ACCOUNT LOCK")
        return held

    try:
        with pytest.raises(ConnectionLostError) as caught:
            await _lose_reply(proxy, victim.ask(wish(name, who), soon()), is_held)
        assert caught.value.maybe_held
        with pytest.raises(BackendError) as refused:
            await victim.ping(soon())
        assert not isinstance(refused.value, ConnectionLostError)
    finally:
        await server.sql("ALTER USER app ACCOUNT UNLOCK")
