"""Lost replies, late requests, silence, restarts and cancellations, on a real PostgreSQL."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from redisson_py._stores.contract import Granted
from redisson_py._stores.postgres import PostgresStore, listening, queue, sql
from redisson_py._stores.postgres.listening import channel_of
from redisson_py._stores.postgres.store import LOCKED
from redisson_py._time import now
from redisson_py.errors import BackendError, ConnectionLostError
from redisson_py.testing import FaultProxy
from tests.stores.postgres.scene import (
    Bell,
    busy,
    connected,
    granted,
    id_of,
    renewal,
    row_of,
    soon,
    started,
    until,
    until_blocked,
    wish,
)
from tests.stores.postgres.server import HOST, PostgresServer

#: Seconds of a call that is meant to fail.
SHORT = 0.3


@pytest_asyncio.fixture
async def proxy(server: PostgresServer) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(HOST, server.port) as each:
        yield each


async def test_silence_ends_with_the_deadline(server: PostgresServer, proxy: FaultProxy) -> None:
    url = server.url_of("postgres", port=proxy.port)
    async with started(url) as store:
        await granted(store, "silence", "a:01")
        proxy.black_hole()
        deadline = soon(SHORT)
        with pytest.raises(ConnectionLostError) as caught:
            await store.ask(wish("silence", "b:01"), deadline)
        assert caught.value.maybe_held
        assert deadline - 0.01 <= now()
        # There is no connection any more, so nothing is sent.
        with pytest.raises(ConnectionLostError) as caught:
            await store.ask(wish("silence", "b:02"), soon(SHORT))
        assert not caught.value.maybe_held
        proxy.pass_through()
        assert await store.give_back("silence", "a:01", False, soon())


async def test_a_silent_connection_is_replaced_in_time(
    server: PostgresServer, proxy: FaultProxy
) -> None:
    """A firewall forgot the connection: another one gets through, within one call."""
    bell = Bell()
    url = server.url_of("postgres", port=proxy.port)
    async with started(url, bell, connections=1) as store:
        await store.ping(soon())
        proxy.black_hole()
        asking = asyncio.create_task(store.ask(wish("replaced", "a:01"), soon(4)))
        # It gives the first connection up before the call ends.
        await until(lambda: _is(proxy.accepted == 2))
        proxy.pass_through()
        assert isinstance(await asking, Granted)
        await bell.wait()
        assert bell.all == 1


async def test_a_silent_listener_is_replaced(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked after as soon as another connection was silent and is replaced."""
    monkeypatch.setattr(listening, "_SILENCE", 1.0)
    monkeypatch.setattr(listening, "_INTERVAL", 1000.0)
    bell = Bell()
    async with connected(server.url) as raw, started(server.url, bell, connections=1) as store:
        await granted(store, "deaf", "a:01")
        await busy(store, "deaf", "b:01", waits=True)
        backends = await raw.fetch(
            "SELECT pid FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        assert len(backends) == 2
        for row in backends:
            os.kill(row["pid"], signal.SIGSTOP)
        try:
            with pytest.raises(ConnectionLostError):
                await store.ping(soon(SHORT))
            await store.ping(soon())
            # Once because of each of the two.
            await until(lambda: _is(bell.all == 2))
            assert await store.give_back("deaf", "a:01", False, soon())
            await until(lambda: _is(bell.names == ["deaf"]))
        finally:
            for row in backends:
                os.kill(row["pid"], signal.SIGCONT)


async def test_a_lost_grant_is_asked_for_again(server: PostgresServer, proxy: FaultProxy) -> None:
    url = server.url_of("postgres", port=proxy.port)
    async with started(url, connections=1) as store, connected(server.url) as raw:

        async def executed() -> bool:
            return bool((await row_of(raw, "lost grant"))["owner"] == "a:01")

        # The first time, a statement is prepared before it is executed.
        await granted(store, "lost grant", "b:01")
        assert await store.give_back("lost grant", "b:01", False, soon())
        proxy.black_hole("down")
        asking = asyncio.create_task(store.ask(wish("lost grant", "a:01"), soon()))
        await until(executed)
        before = (await row_of(raw, "lost grant"))["token"]
        proxy.cut()
        proxy.pass_through()
        answer = await asking
        assert isinstance(answer, Granted)
        assert answer.token == before
        # The first copy might come late, so what gives back makes it be refused.
        assert await store.give_back("lost grant", "a:01", False, soon())
        with pytest.raises(BackendError, match="cannot ask again"):
            await store.ask(wish("lost grant", "a:01"), soon())


async def test_a_release_whose_answer_is_lost_is_a_release(
    server: PostgresServer, proxy: FaultProxy
) -> None:
    url = server.url_of("postgres", port=proxy.port)
    async with started(url, connections=1) as store, connected(server.url) as raw:
        await granted(store, "lost release", "a:01")
        assert await store.give_back("lost release", "a:01", False, soon())
        await granted(store, "lost release", "a:02")
        proxy.black_hole("down")
        giving = asyncio.create_task(store.give_back("lost release", "a:02", False, soon()))
        await until(lambda: _freed(raw, "lost release"))
        proxy.cut()
        proxy.pass_through()
        assert await giving


async def test_a_release_without_an_answer_may_be_forgotten(
    server: PostgresServer, proxy: FaultProxy
) -> None:
    """Another owner has held it since: nothing tells what the first copy of the release did."""
    url, name = server.url_of("postgres", port=proxy.port), "forgotten release"
    async with (
        started(url, connections=1) as store,
        started(server.url) as other,
        connected(server.url) as raw,
    ):
        await granted(store, name, "a:01")
        assert await store.give_back(name, "a:01", False, soon())
        await granted(store, name, "a:02")
        proxy.black_hole("down")
        giving = asyncio.create_task(store.give_back(name, "a:02", False, soon()))
        await until(lambda: _freed(raw, name))
        await granted(other, name, "b:01")
        assert await other.give_back(name, "b:01", False, soon())
        proxy.cut()
        proxy.pass_through()
        assert await giving is None


async def test_a_refused_owner_stays_refused_and_no_other(server: PostgresServer) -> None:
    async with started(server.url) as store:
        for name in ("never asked", "asked"):
            if name == "asked":
                await granted(store, name, "a:01")
            assert await store.give_back(name, "a:01", True, soon()) == (name == "asked")
            assert not await store.give_back(name, "a:02", True, soon())
            await granted(store, name, "b:01")
            assert not await store.give_back(name, "a:03", True, soon())
            assert (await store.look(name, soon())).holder is not None
            assert await store.give_back(name, "b:01", False, soon())
            for owner in ("a:01", "a:02", "a:03"):
                with pytest.raises(BackendError, match="cannot ask again"):
                    await store.ask(wish(name, owner), soon())
            await granted(store, name, "b:02")


async def test_tombstones_go_when_they_are_old(server: PostgresServer) -> None:
    async with started(server.url) as store, connected(server.url) as raw:
        await store.give_back("old", "a:01", True, soon())
        await store.give_back("old", "a:02", True, soon())
        age = "UPDATE redisson_py_locks SET refused = jsonb_set(refused, '{a:01}', '1') WHERE id=$1"
        await raw.execute(age, id_of("old"))
        await granted(store, "old", "b:01")
        assert await store.give_back("old", "b:01", False, soon())
        assert "a:01" not in (await row_of(raw, "old"))["refused"]
        assert "a:02" in (await row_of(raw, "old"))["refused"]
        await raw.execute(age.replace("a:01", "a:02"), id_of("old"))
        await granted(store, "old", "b:02")
        assert await store.give_back("old", "b:02", False, soon())
        assert (await row_of(raw, "old"))["refused"] is None


@pytest.mark.parametrize("known", [False, True], ids=["new name", "known name"])
async def test_a_grant_that_commits_late_is_taken_back(server: PostgresServer, known: bool) -> None:
    """Its connection is dead, but its transaction is still open when the owner gives up."""
    name, rang = f"late grant {known}", asyncio.Event()
    async with (
        started(server.url) as store,
        connected(server.url) as late,
        connected(server.url) as look,
    ):
        if known:
            await granted(store, name, "b:01")
            await store.give_back(name, "b:01", False, soon())
        transaction = late.transaction()
        await transaction.start()
        (row,) = await late.fetch(sql.ASK, id_of(name), name, "a:01", 30.0, 1, None, False)
        assert row["granted"]
        # A waiter that is known with that grant is told of its end.
        (row,) = await late.fetch(sql.ASK, id_of(name), name, "w:01", 30.0, 1, "5", False)
        assert not row["granted"]
        await look.add_listener(f"{queue.CHANNEL}5", lambda *_: rang.set())
        giving = asyncio.create_task(store.give_back(name, "a:01", True, soon()))
        await until_blocked(look)
        await transaction.commit()
        await giving
        await until(lambda: _is(rang.is_set()))
        await granted(store, name, "b:02")


@pytest.mark.parametrize("known", [False, True], ids=["new name", "known name"])
async def test_a_request_older_than_the_tombstone_is_refused(
    server: PostgresServer, known: bool
) -> None:
    """Its snapshot does not show the tombstone: it was taken before."""
    name = f"late request {known}"
    async with (
        started(server.url) as store,
        connected(server.url) as giving,
        connected(server.url) as look,
    ):
        if known:
            await granted(store, name, "b:01")
            await store.give_back(name, "b:01", False, soon())
        transaction = giving.transaction()
        await transaction.start()
        await giving.fetch(sql.GIVE_BACK_UNSURE, id_of(name), channel_of(name), "a:01", name)
        if known:
            # It waits for the row for a moment, and is not granted it.
            assert await busy(store, name, "a:01") == LOCKED
            await transaction.commit()
        else:
            asking = asyncio.create_task(store.ask(wish(name, "a:01"), soon()))
            await until_blocked(look)
            await transaction.commit()
            with pytest.raises(BackendError, match="cannot ask again"):
                await asking
        with pytest.raises(BackendError, match="cannot ask again"):
            await store.ask(wish(name, "a:01"), soon())
        assert (await store.look(name, soon())).holder is None


async def test_a_stopped_server_carries_nothing_out_late(server: PostgresServer) -> None:
    async with started(server.url) as store:
        await granted(store, "stopped", "b:01")
        assert await store.give_back("stopped", "b:01", False, soon())
        server.pause()
        try:
            with pytest.raises(ConnectionLostError) as caught:
                await store.ask(wish("stopped", "a:01"), soon(SHORT))
        finally:
            server.resume()
        # The request lies in the server's socket, and is executed when the server goes on.
        assert caught.value.maybe_held
        await store.give_back("stopped", "a:01", True, soon())
        with pytest.raises(BackendError, match="cannot ask again"):
            await store.ask(wish("stopped", "a:01"), soon())
        await granted(store, "stopped", "b:02")


async def test_a_cancelled_call_leaves_nothing_behind(server: PostgresServer) -> None:
    async with started(server.url, connections=1) as store:
        await granted(store, "cancelled", "a:01")
        await busy(store, "cancelled", "b:01", waits=True)
        server.pause()
        try:
            calls = [
                asyncio.create_task(store.ask(wish("cancelled", "b:01", waits=True), soon())),
                asyncio.create_task(store.give_back("cancelled", "c:01", False, soon())),
                asyncio.create_task(store.ping(soon())),
            ]
            await asyncio.sleep(0)
            for call in calls:
                call.cancel()
            assert all(
                isinstance(each, asyncio.CancelledError)
                for each in await asyncio.gather(*calls, return_exceptions=True)
            )
            assert store._connections is not None
            assert len(store._connections) == 0
        finally:
            server.resume()
        assert await store.give_back("cancelled", "a:01", False, soon())
        await granted(store, "cancelled", "b:01", waits=True)


async def test_a_restart_is_survived_within_one_call(server: PostgresServer) -> None:
    bell = Bell()
    async with started(server.url, bell) as store:
        hold = await granted(store, "restart", "a:01", lease=100)
        await busy(store, "restart", "b:01", waits=True)
        server.kill()
        calls = [
            asyncio.create_task(store.ask(wish("restart 2", "a:02"), soon(60))),
            asyncio.create_task(
                store.renew([renewal("restart", "a:01", hold.token, 60)], soon(60))
            ),
        ]
        await asyncio.sleep(0.1)
        await asyncio.to_thread(server.start)
        asked, renewed = await asyncio.gather(*calls)
        assert isinstance(asked, Granted)
        assert renewed != [None]
        await bell.wait()
        assert bell.all >= 1
        bell.names.clear()
        await busy(store, "restart", "b:01", waits=True)
        assert await store.give_back("restart", "a:01", False, soon())
        await until(lambda: _is(bell.names == ["restart"]))


async def test_a_connection_that_ended_unused_is_missed(server: PostgresServer) -> None:
    """The server may have been another one meanwhile, without the latest holds."""
    bell = Bell()
    async with connected(server.url) as raw, started(server.url, bell) as store:
        await raw.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        await store.ping(soon())
        await bell.wait()
        assert bell.all == 1


async def test_a_server_that_is_down_is_told_in_time(server: PostgresServer) -> None:
    store = PostgresStore(f"postgresql://u:secret@{HOST}:1/d")
    with pytest.raises(ConnectionLostError, match=rf"{HOST}:1 ") as caught:
        await store.start(Bell(), soon(SHORT))
    assert not caught.value.maybe_held
    # Of several hosts, the first that is there counts.
    url = server.url.replace(f"@{HOST}", f"@{HOST}:1,{HOST}")
    async with started(url) as both:
        await both.ping(soon())


async def test_a_stop_ends_calls_that_are_under_way(server: PostgresServer) -> None:
    async with started(server.url) as store:
        await store.ping(soon())
        server.pause()
        try:
            call = asyncio.create_task(store.ask(wish("stop", "a:01"), soon(30)))
            await asyncio.sleep(0)
            await store.stop()
            with pytest.raises(ConnectionLostError):
                await call
        finally:
            server.resume()


async def _freed(connection: object, name: str) -> bool:
    row = await row_of(connection, name)
    return bool(row["owner"] is None)


async def _is(value: bool) -> bool:
    return value
