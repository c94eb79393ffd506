"""The MySQL store keeps each rule of the contract, on a real MariaDB."""

from __future__ import annotations

import asyncio
import time

import pytest

from redisson_py import _time
from redisson_py._stores.contract import Granted, HolderState, Renewal
from redisson_py._stores.mysql import MySQLStore, sql
from redisson_py.errors import BackendError
from tests.stores.mysql.scene import (
    CountingBell,
    busy,
    eventually,
    granted,
    holder,
    new_name,
    owner,
    proxied,
    soon,
    started,
    wish,
)
from tests.stores.mysql.server import MariaDB


async def test_a_free_name_is_granted_and_then_busy(store: MySQLStore) -> None:
    name, first, second = new_name(), owner(), owner()
    before = _time.now()
    got = await granted(store, name, first, lease=30)
    assert before + 29 < got.until <= _time.now() + 30
    assert (await busy(store, name, second)).retry_in is not None
    assert await store.give_back(name, first, False, soon())
    assert (await granted(store, name, second)).token > got.token


async def test_a_second_request_answers_as_the_first(store: MySQLStore) -> None:
    name, who = new_name(), owner()
    first = await granted(store, name, who, tokens=3)
    second = await granted(store, name, who, lease=300, tokens=9)
    assert (second.token, second.tokens) == (first.token, 3)
    assert second.until == pytest.approx(first.until, abs=15)


async def test_until_never_lies_after_the_servers_moment(
    server: MariaDB, store: MySQLStore
) -> None:
    name, who = new_name(), owner()
    for _ in range(20):
        got = await granted(store, name, who, lease=5)
        (until,) = await store.renew([Renewal(name, who, got.token, 9)], soon())
        assert until is not None
        rows = await server.sql(
            f"SELECT expires - {sql._NOW} FROM {sql.TABLE} WHERE id = {sql.key(name)}"
        )
        # The server was asked before this moment.
        assert until <= _time.now() + rows[0][0] / 1e6
        await store.give_back(name, who, False, soon())


async def test_tokens_rise_and_blocks_do_not_overlap(store: MySQLStore) -> None:
    name = new_name()
    last = 0
    for size in (1, 1000, 1, 100_000_000, 5, 1):
        who = owner()
        got = await granted(store, name, who, tokens=size)
        assert got.tokens == size
        assert got.token > last
        last = got.token + got.tokens - 1
        assert await store.give_back(name, who, False, soon())


async def test_a_token_is_the_servers_clock(store: MySQLStore) -> None:
    got = await granted(store, new_name(), owner())
    assert got.token / 1e6 == pytest.approx(time.time(), abs=30)


async def test_tokens_rise_when_the_user_deletes_free_rows(
    server: MariaDB, store: MySQLStore
) -> None:
    name, first, second = new_name(), owner(), owner()
    got = await granted(store, name, first)
    await store.give_back(name, first, False, soon())
    rows = await server.sql(
        f"DELETE FROM {sql.TABLE} WHERE expires < UNIX_TIMESTAMP() * 1000000"
        " AND refused_until < UNIX_TIMESTAMP() * 1000000",
        f"SELECT COUNT(*) FROM {sql.TABLE} WHERE id = {sql.key(name)}",
    )
    assert rows == ((0,),)
    assert (await granted(store, name, second)).token > got.token


async def test_a_release_answers_twice_the_same(store: MySQLStore) -> None:
    name, first, second = new_name(), owner(), owner()
    await granted(store, name, first)
    assert not await store.give_back(name, second, False, soon())
    assert await store.give_back(name, first, False, soon())
    await granted(store, name, second)
    assert await store.give_back(name, first, False, soon())
    assert await holder(store, name) == second
    assert not await store.give_back(name, owner(), True, soon())
    assert await store.give_back(name, second, True, soon())
    assert await store.give_back(name, second, True, soon())


async def test_an_expired_hold_is_taken_with_a_greater_token(store: MySQLStore) -> None:
    name, first, second = new_name(), owner(), owner()
    got = await granted(store, name, first, lease=0.05)
    await eventually(lambda: _is_free(store, name))
    assert await store.renew([Renewal(name, first, got.token, 30)], soon()) == [None]
    taken = await granted(store, name, second)
    assert taken.token > got.token
    assert not await store.give_back(name, first, False, soon())
    assert await holder(store, name) == second


async def test_an_expired_hold_was_not_held_any_more(store: MySQLStore) -> None:
    for unsure in (False, True):
        name, who = new_name(), owner()
        await granted(store, name, who, lease=0.05)
        await eventually(lambda name=name: _is_free(store, name))  # type: ignore[misc]
        assert not await store.give_back(name, who, unsure, soon())


async def test_a_batch_renews_what_is_there_and_tells_the_rest(store: MySQLStore) -> None:
    name, other, who = new_name(), new_name(), owner()
    got, beside = await granted(store, name, who), await granted(store, other, who)
    batch = [
        Renewal(name, who, got.token, 60),
        Renewal(name, owner(), got.token, 60),
        Renewal(name, who, got.token + 1, 60),
        Renewal(new_name(), who, got.token, 60),
        Renewal(other, who, beside.token, 90),
    ]
    ends = await store.renew(batch, soon())
    assert [end is None for end in ends] == [False, True, True, True, False]
    assert ends[0] == pytest.approx(_time.now() + 60, abs=15)
    assert ends[4] == pytest.approx(_time.now() + 90, abs=15)
    assert await store.renew([], soon()) == []


async def test_a_renewal_shortens_only_if_it_is_exact(store: MySQLStore) -> None:
    name, who = new_name(), owner()
    got = await granted(store, name, who, lease=100)

    async def left(lease: float, exact: bool = False) -> float:
        (end,) = await store.renew([Renewal(name, who, got.token, lease, exact)], soon())
        assert end is not None
        return end - _time.now()

    assert await left(10) == pytest.approx(100, abs=15)
    assert await left(0) == pytest.approx(100, abs=15)
    assert await left(0, exact=True) == pytest.approx(100, abs=15)
    assert await left(10, exact=True) == pytest.approx(10, abs=8)
    assert await left(50) == pytest.approx(50, abs=15)


async def test_a_renewal_of_another_hold_changes_nothing(store: MySQLStore) -> None:
    name, who = new_name(), owner()
    got = await granted(store, name, who, lease=50)
    batch = [
        Renewal(name, owner(), got.token, 900),
        Renewal(name, owner(), got.token, 1, exact=True),
        Renewal(name, who, got.token + 1, 900),
        Renewal(name, who, got.token - 1, 1, exact=True),
    ]
    for some in (batch, *([each] for each in batch)):
        assert await store.renew(some, soon()) == [None] * len(some)
    holder = (await store.look(name, soon())).holder
    assert holder is not None
    assert holder.remaining == pytest.approx(50, abs=15)


async def test_five_hundred_holds_are_renewed(store: MySQLStore) -> None:
    who = owner()
    names = [new_name() for _ in range(500)]
    holds = await asyncio.gather(*(granted(store, name, who, lease=60) for name in names))
    batch = [Renewal(name, who, got.token, 600) for name, got in zip(names, holds, strict=True)]
    ends = await store.renew(batch, soon(20))
    assert all(end is not None and end > _time.now() + 500 for end in ends)


async def test_a_look_tells_the_holder_and_the_row(store: MySQLStore) -> None:
    name, who = new_name(), owner()
    assert (await store.look(name, soon())).holder is None
    got = await granted(store, name, who)
    state = await store.look(name, soon())
    assert state.holder is not None
    assert state.holder == HolderState(who, state.holder.remaining, got.token)
    assert state.holder.remaining == pytest.approx(30, abs=15)
    assert state.waiters == ()
    assert sql.TABLE in state.keys[0]


async def test_a_forced_release_ends_a_hold_and_rings(server: MariaDB) -> None:
    bell = CountingBell()
    async with started(server.url(), bell) as store:
        name, who = new_name(), owner()
        assert not await store.force_release(name, soon())
        got = await granted(store, name, who)
        assert await store.force_release(name, soon())
        assert bell.rung[-1] == name
        assert await holder(store, name) is None
        assert await store.renew([Renewal(name, who, got.token, 30)], soon()) == [None]
        assert not await store.give_back(name, who, False, soon())


@pytest.mark.parametrize("same_token", [False, True])
async def test_a_forced_release_that_comes_late_ends_no_other_hold(
    server: MariaDB, store: MySQLStore, same_token: bool
) -> None:
    """A token can repeat where a row was deleted and the clock set back."""
    name, first, second = new_name(), owner(), owner()
    got = await granted(store, name, first)
    late = sql.force_release(name, first, got.token)
    await store.give_back(name, first, False, soon())
    await granted(store, name, second)
    if same_token:
        await server.sql(f"UPDATE {sql.TABLE} SET token = {got.token} WHERE id = {sql.key(name)}")
    await server.sql(late)
    assert await holder(store, name) == second


@pytest.mark.parametrize("name", ["a'b\\'\"`--;%s", "ä€😀", "\x00\n", "n" * 4096, "😀" * 1024])
async def test_any_name_can_be_held(store: MySQLStore, name: str) -> None:
    who = owner()
    await granted(store, name, who)
    assert await holder(store, name) == who
    assert await store.give_back(name, who, True, soon())


async def test_names_that_look_alike_are_different(store: MySQLStore) -> None:
    for name in ("Straße", "STRASSE", "strasse", "strasse ", "strassé"):
        await granted(store, name, owner())


async def test_a_pair_is_two_round_trips_and_a_batch_one(server: MariaDB) -> None:
    async with proxied(server) as proxy:
        async with started(server.url(port=proxy.port)) as store:
            name, who = new_name(), owner()
            before = proxy.up.chunks
            got = await granted(store, name, who)
            assert proxy.up.chunks == before + 1
            await store.renew([Renewal(name, who, got.token, 60)] * 100, soon())
            assert proxy.up.chunks == before + 2
            assert await store.give_back(name, who, False, soon())
            assert proxy.up.chunks == before + 3


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


async def test_two_stores_exclude_each_other(server: MariaDB, store: MySQLStore) -> None:
    """120 increments, each a read and a write with a pause between them."""
    name = new_name()
    value = 0
    tokens: list[int] = []

    async def work(of: MySQLStore) -> None:
        nonlocal value
        for _ in range(10):
            who = owner()
            while not isinstance(
                got := await of.ask(wish(name, who, waits=True), soon(30)), Granted
            ):
                await asyncio.sleep(got.retry_in or 0)
            seen = value
            await asyncio.sleep(0.001)
            value = seen + 1
            tokens.append(got.token)
            assert await of.give_back(name, who, False, soon(30))

    async with started(server.url("?poll_interval=0.02")) as other:
        await asyncio.gather(*(work(each) for each in [store, other] * 6))
    assert value == 120
    assert tokens == sorted(set(tokens))


async def test_it_can_be_started_again_and_must_be(server: MariaDB) -> None:
    store = MySQLStore.from_url(server.url())
    for _ in range(2):
        with pytest.raises(BackendError, match="not started"):
            await store.ping(soon())
        await store.start(CountingBell(), soon())
        await store.ping(soon())
        await store.stop()
    assert store.where == f"127.0.0.1:{server.port}/locks"
    assert "rd" not in repr(store).partition("/locks")[0].replace("MySQLStore", "")


async def _is_free(store: MySQLStore, name: str) -> bool:
    return await holder(store, name) is None
