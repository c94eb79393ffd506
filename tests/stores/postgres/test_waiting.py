"""Waiting for a hold in PostgreSQL: no release is missed, and nobody is told of one for nothing."""

from __future__ import annotations

import asyncio

import pytest

from redisson_py._stores.contract import Busy, Granted
from redisson_py._stores.postgres import PostgresStore, queue, sql
from redisson_py._stores.postgres.listening import channel_of
from redisson_py._stores.postgres.store import LOCKED_SECONDS
from redisson_py.testing import FaultProxy
from tests.stores.databases import Bell, busy, granted, soon, wish
from tests.stores.postgres.scene import connected, id_of, started, until_blocked
from tests.stores.postgres.server import (
    HOST,
    PostgresServer,
)
from tests.support.waiting import until


async def test_a_release_rings_for_those_that_wait(server: PostgresServer) -> None:
    bell = Bell()
    async with started(server.url) as one, started(server.url, bell) as other:
        await granted(one, "rings", "a:01")
        # A waiter that a message can wake does not poll.
        assert await busy(other, "rings", "b:01", waits=True) > 1
        assert await one.give_back("rings", "a:01", False, soon())
        await bell.wait()
        assert bell.names == ["rings"]
        await granted(other, "rings", "b:01", waits=True)
        await other.give_back("rings", "b:01", False, soon())
        await granted(one, "rings", "a:02")
        await busy(other, "rings", "b:02", waits=True)
        assert await one.force_release("rings", soon())
        await bell.wait()
        assert bell.names == ["rings", "rings"]


async def test_a_message_is_sent_only_if_somebody_waits(server: PostgresServer) -> None:
    heard: list[str] = []
    async with started(server.url) as store, connected(server.url) as raw:

        def hear(_connection: object, _pid: int, _channel: str, payload: str) -> None:
            heard.append(payload)

        async def pair(owner: str) -> None:
            await granted(store, "quiet", owner)
            assert await store.give_back("quiet", owner, False, soon())
            await raw.execute(f"NOTIFY {channel}, '{owner}'")
            await until(lambda: owner in heard)

        await granted(store, "else", "a:01")
        await busy(store, "else", "b:01", waits=True)
        assert store._listening is not None
        channel = f"{queue.CHANNEL}{store._listening.station}"
        await raw.add_listener(channel, hear)
        # Clients of older versions hear their own channel.
        await raw.add_listener(channel_of("quiet"), hear)
        await pair("a:01")
        assert heard == ["a:01"]
        await granted(store, "quiet", "a:02")
        await busy(store, "quiet", "b:01", waits=True)
        await store.give_back("quiet", "a:02", False, soon())
        await granted(store, "quiet", "b:01", waits=True)
        await store.give_back("quiet", "b:01", False, soon())
        # What the waiter left behind does not outlive the release.
        await pair("a:03")
        call = queue.ASK_NOW + id_of("quiet").hex()
        assert heard == ["a:01", call, "a:03"]
        await raw.remove_listener(channel, hear)
        await raw.remove_listener(channel_of("quiet"), hear)


async def test_a_waiter_sees_a_release_that_commits_meanwhile(server: PostgresServer) -> None:
    """The snapshot of its statement is older than the release, its answer must not be."""
    async with (
        started(server.url) as store,
        connected(server.url) as raw,
        connected(server.url) as look,
    ):
        await granted(store, "stale", "a:01")
        await busy(store, "stale", "b:01", waits=True)
        # It listens already, but does not count as waiting any more.
        await raw.execute("UPDATE redisson_py_locks SET refused = NULL")
        transaction = raw.transaction()
        await transaction.start()
        await raw.fetch(sql.GIVE_BACK, id_of("stale"), channel_of("stale"), "a:01")
        asking = asyncio.create_task(store.ask(wish("stale", "b:01", waits=True), soon()))
        await until_blocked(look)
        await transaction.commit()
        assert isinstance(await asking, Granted)


async def test_a_release_that_a_waiter_does_not_see_rings(server: PostgresServer) -> None:
    """It waits for the release for a moment, and then asks once more."""
    bell = Bell()
    async with started(server.url, bell) as store, connected(server.url) as raw:
        await granted(store, "unseen", "a:01")
        await busy(store, "unseen", "b:01", waits=True)
        transaction = raw.transaction()
        await transaction.start()
        await raw.fetch(sql.GIVE_BACK, id_of("unseen"), channel_of("unseen"), "a:01")
        assert await busy(store, "unseen", "b:01", waits=True) == LOCKED_SECONDS
        assert bell.names == []
        await transaction.commit()
        await bell.wait()
        await granted(store, "unseen", "b:01", waits=True)


async def test_a_release_sees_a_waiter_that_commits_meanwhile(server: PostgresServer) -> None:
    async with started(server.url) as store, connected(server.url) as raw:
        await granted(store, "registers", "a:01")
        heard = asyncio.Event()
        async with connected(server.url) as look:
            await look.add_listener(f"{queue.CHANNEL}5", lambda *_: heard.set())
            transaction = raw.transaction()
            await transaction.start()
            arguments = (id_of("registers"), "registers", "b:01", 30.0, 1, "5", False)
            (row,) = await raw.fetch(sql.ASK, *arguments)
            assert not row["granted"]
            back = asyncio.create_task(store.give_back("registers", "a:01", False, soon()))
            await until_blocked(look)
            await transaction.commit()
            assert await back
            await until(lambda: heard.is_set())


@pytest.mark.parametrize("clients", [2, 5])
async def test_no_wake_up_is_lost_under_contention(server: PostgresServer, clients: int) -> None:
    """Nobody falls back to asking by the clock, which takes many seconds here."""
    counter, fallbacks = 0, 0

    async def increments(store: PostgresStore, bell: Bell, owner: str) -> None:
        nonlocal counter, fallbacks
        for number in range(120 // clients):
            asked = wish("increments", f"{owner}:{number}", waits=True)
            while True:
                answer = await store.ask(asked, soon(20))
                if isinstance(answer, Granted):
                    break
                assert isinstance(answer, Busy)
                # Free, but being changed at this moment: rare, and not a wake-up that was lost.
                brief = answer.retry_in == LOCKED_SECONDS
                try:
                    await bell.wait(answer.retry_in or 0)
                except TimeoutError:
                    fallbacks += not brief
            seen = counter
            await asyncio.sleep(0)
            counter = seen + 1
            assert await store.give_back("increments", asked.owner, False, soon())

    bells = [Bell() for _ in range(clients)]
    stores = [PostgresStore(server.url, connections=1) for _ in bells]
    for store, bell in zip(stores, bells, strict=True):
        await store.start(bell, soon())
    await asyncio.gather(
        *(
            increments(store, bell, f"client-{index}")
            for index, (store, bell) in enumerate(zip(stores, bells, strict=True))
        )
    )
    await asyncio.gather(*(store.stop() for store in stores))
    assert (counter, fallbacks) == (120 // clients * clients, 0)


async def test_a_user_that_locks_the_row_blocks_nobody(server: PostgresServer) -> None:
    async with started(server.url) as store, connected(server.url) as raw:
        await granted(store, "row lock", "a:01")
        async with raw.transaction():
            await raw.execute("SELECT FROM redisson_py_locks FOR UPDATE")
            assert await busy(store, "row lock", "b:01") > 1
            assert await busy(store, "row lock", "b:01", waits=True) == LOCKED_SECONDS
        assert await busy(store, "row lock", "b:01", waits=True) > 1
        await store.give_back("row lock", "a:01", False, soon())
        async with raw.transaction():
            await raw.execute("SELECT FROM redisson_py_locks FOR UPDATE")
            assert await busy(store, "row lock", "b:01") == LOCKED_SECONDS
            assert await busy(store, "row lock", "b:01", waits=True) == LOCKED_SECONDS


async def test_waiters_ask_again_after_listening_was_cut(server: PostgresServer) -> None:
    bell = Bell()
    async with FaultProxy(HOST, server.port) as proxy:
        url = server.url_of("postgres", port=proxy.port)
        async with started(server.url) as one, started(url, bell) as other:
            await granted(one, "cut", "a:01")
            await busy(other, "cut", "b:01", waits=True)
            proxy.refuse()
            assert proxy.cut() == 2
            # Nobody heard this.
            await one.give_back("cut", "a:01", False, soon())
            assert bell.names == []
            proxy.pass_through()
            await bell.wait()
            assert bell.all >= 1
            await granted(other, "cut", "b:01", waits=True)
            await granted(one, "cut 2", "a:01")
            await busy(other, "cut 2", "b:01", waits=True)
            await one.give_back("cut 2", "a:01", False, soon())
            await until(lambda: bell.names == ["cut 2"])
