"""Many clients that want one name: a release calls the first of their queue, and no other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from redisson_py._stores.contract import Busy, Renewal
from redisson_py._stores.postgres import sql
from redisson_py._stores.postgres.listening import channel_of
from redisson_py._stores.postgres.queue import POLL_SECONDS
from tests.stores.databases import Bell, busy, granted, soon, wish
from tests.stores.postgres import older
from tests.stores.postgres.scene import connected, id_of, row_of, started, until_ended
from tests.stores.postgres.server import PostgresServer
from tests.support.waiting import until_async


async def test_only_the_first_is_called_and_the_second_looks_later(server: PostgresServer) -> None:
    bells = [Bell() for _ in range(3)]
    async with (
        started(server.url) as one,
        started(server.url, bells[0]) as first,
        started(server.url, bells[1]) as second,
        started(server.url, bells[2]) as third,
    ):
        await granted(one, "order", "a:01")
        for number, store in enumerate((first, second, third)):
            await busy(store, "order", f"w{number}:01", waits=True)
        assert (await one.look("order", soon())).waiters == ("w0:01", "w1:01", "w2:01")
        assert await one.give_back("order", "a:01", False, soon())
        await bells[0].wait()
        # Neither a newcomer nor the others take what waits for the first.
        granted_to_first = await granted(first, "order", "w0:01", waits=True)
        await bells[1].wait()
        assert await busy(second, "order", "w1:01", waits=True) > 1
        assert await first.force_release("order", soon())
        await bells[1].wait()
        token = (await granted(second, "order", "w1:01", waits=True)).token
        assert token > granted_to_first.token
        # Its lease gets shorter than the third was told.
        await second.renew([Renewal("order", "w1:01", token, 300, exact=True)], soon())
        await second.renew([Renewal("order", "w1:01", token, 20, exact=True)], soon())
        await bells[2].wait()
        assert bells[0].names == ["order"]
        assert bells[1].names == ["order", "order"]


def filled(statement: str, *values: object) -> str:
    """Return a statement with its arguments in it: several in one message have one moment."""
    for number, value in enumerate(values, 1):
        text = f"'\\x{value.hex()}'" if isinstance(value, bytes) else f"'{value}'"
        statement = statement.replace(f"${number}::", f"{'null' if value is None else text}::")
    return statement


@pytest.mark.parametrize("barges", [False, True])
async def test_a_free_name_is_kept_for_the_one_that_was_called(
    server: PostgresServer, barges: bool
) -> None:
    """Who hears no calls does not queue, and takes what it finds."""
    name = f"kept {barges}"
    async with started(server.url) as store, connected(server.url) as raw:
        await granted(store, name, "a:01")
        await busy(store, name, "b:01", waits=True)
        back = filled(sql.GIVE_BACK, id_of(name), channel_of(name), "a:01")
        ask = filled(sql.ASK, id_of(name), name, "c:01", 30.0, 1, None, barges)
        await raw.execute(f"{back}; {ask}")
        assert (await row_of(raw, name))["owner"] == ("c:01" if barges else None)
        if not barges:
            await granted(store, name, "b:01", waits=True)


@pytest.mark.parametrize("leaves", ["the first", "the first, called", "the second", "unsure"])
async def test_who_leaves_wakes_the_next(server: PostgresServer, leaves: str) -> None:
    bell = Bell()
    async with started(server.url) as one, started(server.url, bell) as other:
        await granted(one, leaves, "a:01")
        await busy(one, leaves, "b:01", waits=True)
        await busy(other, leaves, "c:01", waits=True)
        called = leaves == "the first, called"
        if called:
            assert await one.give_back(leaves, "a:01", False, soon())
        owner = "c:01" if leaves == "the second" else "b:01"
        unsure = leaves == "unsure"
        assert not await one.give_back(leaves, owner, unsure, soon())
        if leaves == "the second":
            assert bell.names == []
        else:
            await bell.wait()
            left = "granted" if called else "busy"
            answer = await other.ask(wish(leaves, "c:01", waits=True), soon())
            assert isinstance(answer, Busy) == (left == "busy")
            await other.give_back(leaves, "c:01", False, soon())
        waiters = (await one.look(leaves, soon())).waiters
        assert waiters == (("b:01",) if leaves == "the second" else ())


async def test_dead_waiters_are_passed_over(server: PostgresServer) -> None:
    """Nobody hears what is sent to them, as if they were dead, or the messages lost."""
    bell = Bell()
    async with started(server.url) as one, started(server.url, bell) as other:
        await granted(one, "dead", "a:01")
        async with connected(server.url) as raw:
            for number in range(4):
                arguments = id_of("dead"), "dead", f"dead:0{number}", 30.0, 1
                await raw.fetch(sql.ASK, *arguments, "nobody", False)
        asked = wish("dead", "b:01", waits=True)
        await other.ask(asked, soon())
        await one.give_back("dead", "a:01", False, soon())

        async def is_free() -> bool:
            """It is free for whoever asks after the first, which was called, was silent."""
            return not isinstance(await other.ask(asked, soon()), Busy)

        await until_async(is_free)
        assert len((await one.look("dead", soon())).waiters or ()) == 3
        # The others end like tombstones.
        async with connected(server.url) as raw:
            await raw.execute(
                "UPDATE redisson_py_locks SET refused = (SELECT jsonb_object_agg(key, 1)"
                " FROM jsonb_each(refused)) WHERE name = 'dead'"
            )
            assert (await one.look("dead", soon())).waiters == ()
            await other.give_back("dead", "b:01", False, soon())
            assert (await row_of(raw, "dead"))["refused"] is None


# Beside clients of the version before.


async def ask_as_older(raw: Any, name: str, owner: str, waits: bool = True) -> Any:
    (row,) = await raw.fetch(older.ASK, id_of(name), name, owner, 30.0, 1, waits)
    return row


async def test_an_older_client_keeps_the_queue(server: PostgresServer) -> None:
    """It polls no queue, and what it writes leaves all entries there."""
    bell = Bell()
    async with started(server.url, bell) as store, connected(server.url) as raw:
        assert (await ask_as_older(raw, "older", "old:1"))["granted"]
        # Its release calls nobody: the first two look often.
        for owner in ("b:01", "c:01"):
            assert await busy(store, "older", owner, waits=True) <= POLL_SECONDS
        assert await busy(store, "older", "d:01", waits=True) > 1
        assert not (await ask_as_older(raw, "older", "old:2"))["granted"]
        await raw.fetch(older.GIVE_BACK_UNSURE, id_of("older"), channel_of("older"), "x:1", "older")
        (row,) = await raw.fetch(older.GIVE_BACK, id_of("older"), channel_of("older"), "old:1")
        assert row["held"]
        assert (await store.look("older", soon())).waiters == ("b:01", "c:01", "d:01")
        await granted(store, "older", "c:01", waits=True)
        assert not (await ask_as_older(raw, "older", "old:2"))["granted"]
        await store.give_back("older", "c:01", False, soon())
        assert (await ask_as_older(raw, "older", "old:2"))["granted"]
        # The one that was called comes too late, and keeps its place.
        await bell.wait()
        assert await busy(store, "older", "b:01", waits=True) <= POLL_SECONDS
        assert (await store.look("older", soon())).waiters == ("b:01", "d:01")
        await raw.fetch(older.GIVE_BACK, id_of("older"), channel_of("older"), "old:2")
        await granted(store, "older", "b:01", waits=True)


@pytest.mark.parametrize("end", ["release", "undo", "forced release", "shorter lease"])
async def test_an_older_client_is_rung_for(server: PostgresServer, end: str) -> None:
    rang = asyncio.Event()
    async with started(server.url) as store, connected(server.url) as raw:
        await raw.add_listener(channel_of(end), lambda *_: rang.set())
        hold = await granted(store, end, "a:01")
        assert not (await ask_as_older(raw, end, "old:1"))["granted"]
        match end:
            case "release":
                # It yields to what it cannot call.
                assert await store.give_back(end, "a:01", False, soon()) == 2
            case "undo":
                assert await store.give_back(end, "a:01", True, soon())
            case "forced release":
                assert await store.force_release(end, soon())
            case _:
                await store.renew([Renewal(end, "a:01", hold.token, 20, exact=True)], soon())
        async with asyncio.timeout(20):
            await rang.wait()


async def test_a_lease_that_ended_wakes_the_first_two_only(server: PostgresServer) -> None:
    async with started(server.url) as store, connected(server.url) as raw:
        await granted(store, "ended", "a:01", lease=5)
        for owner in ("b:01", "c:01"):
            assert await busy(store, "ended", owner, waits=True) <= 5
        assert await busy(store, "ended", "d:01", waits=True) > 5
        await until_ended(raw, "ended")
        await granted(store, "ended", "c:01", waits=True)
        assert (await store.look("ended", soon())).waiters == ("b:01", "d:01")
