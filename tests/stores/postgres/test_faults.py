"""Lost replies, late requests, silence, restarts and cancellations, on a real PostgreSQL."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import AsyncExitStack

import pytest

from redisson_py._stores.contract import Granted, Renewal
from redisson_py._stores.postgres import PostgresStore, listening, queue, sql
from redisson_py._stores.postgres.listening import channel_of
from redisson_py._stores.postgres.store import LOCKED_SECONDS
from redisson_py.errors import BackendError, ConnectionLostError, ReleaseFailedError
from redisson_py.postgres import Postgres
from tests.stores.databases import Bell, busy, granted, soon, wish
from tests.stores.postgres.scene import connected, id_of, row_of, started, until_blocked
from tests.stores.postgres.server import PostgresServer
from tests.support.waiting import until, until_async

#: Seconds of a call that is meant to fail.
SHORT = 0.3


async def test_a_silent_listener_is_replaced(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked after as soon as another connection was silent and is replaced."""
    monkeypatch.setattr(listening, "_SILENCE_SECONDS", 1.0)
    monkeypatch.setattr(listening, "_INTERVAL_SECONDS", 1000.0)
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
            await until(lambda: bell.all == 2)
            assert await store.give_back("deaf", "a:01", False, soon())
            await until(lambda: bell.names == ["deaf"])
        finally:
            for row in backends:
                os.kill(row["pid"], signal.SIGCONT)


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
        await until(lambda: rang.is_set())
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
            assert await busy(store, name, "a:01") == LOCKED_SECONDS
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


_OF_ROLE = "FROM pg_stat_activity WHERE usename = 'few'"


async def test_a_release_that_gets_no_connection_is_repeated(server: PostgresServer) -> None:
    """All connections of its role are taken by others for longer than a call waits."""
    url = server.url_of("few")
    async with connected(server.url) as raw, AsyncExitStack() as others:
        await raw.execute("CREATE ROLE few LOGIN CONNECTION LIMIT 2")
        async with started(server.url):
            await raw.execute("GRANT SELECT, INSERT, UPDATE ON redisson_py_locks TO few")
        client = await others.enter_async_context(
            Postgres.from_url(url, command_timeout=2, connections=1)
        )
        lease = await client.get_lock("few").acquire()
        await others.enter_async_context(connected(url))
        await raw.execute("ALTER ROLE few CONNECTION LIMIT 1")
        await raw.execute(f"SELECT pg_terminate_backend(pid) {_OF_ROLE} AND query ~ 'UPDATE'")
        with pytest.raises(ReleaseFailedError, match="no connection left") as caught:
            await lease.release()
        assert "few" not in str(caught.value).replace("lock 'few'", "")
        await raw.execute("ALTER ROLE few CONNECTION LIMIT 3")

        async def is_free() -> bool:
            return bool((await row_of(raw, "few"))["owner"] is None)

        await until_async(is_free)


async def test_a_call_that_gets_no_connection_does_not_name_the_role(
    server: PostgresServer,
) -> None:
    async with connected(server.url) as raw:
        await raw.execute("CREATE ROLE unseen LOGIN CONNECTION LIMIT 0")
        store = PostgresStore.from_url(server.url_of("unseen"))
        with pytest.raises(ConnectionLostError, match="no connection left") as caught:
            await store.start(Bell(), soon(3))
        assert not caught.value.maybe_held
        assert "unseen" not in str(caught.value)


async def test_a_release_behind_a_locked_row_is_repeated_although_its_role_has_a_timeout(
    server: PostgresServer,
) -> None:
    """The row is locked for longer than a call waits."""
    async with connected(server.url) as raw, connected(server.url) as look:
        await raw.execute("CREATE ROLE brief LOGIN SUPERUSER")
        await raw.execute("ALTER ROLE brief SET statement_timeout = '500ms'")
        url = server.url_of("brief")
        async with Postgres.from_url(url, command_timeout=3) as client:
            lease = await client.get_lock("brief").acquire()
            transaction = raw.transaction()
            await transaction.start()
            await raw.execute("SELECT FROM redisson_py_locks WHERE name = 'brief' FOR UPDATE")
            release = asyncio.create_task(lease.release())
            await until_blocked(look)
            with pytest.raises(ReleaseFailedError, match="statement timeout"):
                await release
            await transaction.rollback()

            async def is_free() -> bool:
                return bool((await row_of(raw, "brief"))["owner"] is None)

            await until_async(is_free)


async def test_a_release_waits_longer_than_its_role_would(server: PostgresServer) -> None:
    """The role has a `lock_timeout`; a row that is locked for longer is no refusal."""
    timed_out = "canceling statement due to lock timeout"
    async with connected(server.url) as raw:
        await raw.execute("CREATE ROLE hasty LOGIN")
        await raw.execute("ALTER ROLE hasty SET lock_timeout = '10ms'")
        async with started(server.url):
            await raw.execute("GRANT SELECT, INSERT, UPDATE ON redisson_py_locks TO hasty")
        async with started(server.url_of("hasty")) as store:
            hold = await granted(store, "hasty", "a:01")
            transaction = raw.transaction()
            await transaction.start()
            await raw.execute("SELECT FROM redisson_py_locks WHERE name = 'hasty' FOR UPDATE")
            refused = server.log_text().count(timed_out)
            renewing = asyncio.create_task(
                store.renew([Renewal("hasty", "a:01", hold.token, 60)], soon(30))
            )
            await until(lambda: server.log_text().count(timed_out) >= refused + 2)
            await transaction.rollback()
            assert None not in await renewing
            transaction = raw.transaction()
            await transaction.start()
            await raw.execute("SELECT FROM redisson_py_locks WHERE name = 'hasty' FOR UPDATE")
            refused = server.log_text().count(timed_out)
            releasing = asyncio.create_task(store.give_back("hasty", "a:01", False, soon(30)))
            await until(lambda: server.log_text().count(timed_out) >= refused + 2)
            await transaction.rollback()
            assert await releasing == 1


async def test_many_questions_share_few_connections(server: PostgresServer) -> None:
    async with started(server.url, connections=3) as store, connected(server.url) as raw:

        async def pair(number: int) -> None:
            await granted(store, f"many {number}", f"a:{number}")
            assert await store.give_back(f"many {number}", f"a:{number}", False, soon())

        await asyncio.gather(*(pair(number) for number in range(100)))
        count = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
        assert await raw.fetchval(count) <= 3 + 1


async def test_stricter_isolation_of_the_role_is_no_obstacle(server: PostgresServer) -> None:
    async with connected(server.url) as raw:
        await raw.execute("CREATE ROLE strict LOGIN SUPERUSER")
        await raw.execute("ALTER ROLE strict SET default_transaction_isolation = 'serializable'")
    async with started(server.url_of("strict")) as store:

        async def pairs(owner: str) -> None:
            for number in range(20):
                asked = wish("strict", f"{owner}:{number}")
                while not isinstance(await store.ask(asked, soon()), Granted):
                    pass
                assert await store.give_back("strict", asked.owner, False, soon())

        await asyncio.gather(*(pairs(owner) for owner in "abc"))
