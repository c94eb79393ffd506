"""The PostgreSQL store when its connections are dead, or it gets none, on a real server."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import AsyncExitStack

import pytest

from redisson_py._stores.contract import Busy
from redisson_py._stores.postgres import PostgresStore
from redisson_py.errors import BackendError, ConnectionLostError, ReleaseFailedError
from redisson_py.postgres import Postgres
from redisson_py.testing import FaultProxy
from tests.stores.postgres.scene import (
    Bell,
    connected,
    granted,
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

_OF_ROLE = "FROM pg_stat_activity WHERE usename = 'few'"


async def test_after_a_silence_no_other_idle_connection_is_tried(server: PostgresServer) -> None:
    """A firewall that forgot one has forgotten all; a call has time for a few tries only."""
    async with (
        started(server.url, connections=8) as store,
        connected(server.url) as raw,
    ):
        assert store._connections is not None
        await asyncio.gather(*(store.ping(soon()) for _ in range(8)))
        assert len(store._connections) == 8
        backends = await raw.fetch(
            "SELECT pid FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        for row in backends:
            os.kill(row["pid"], signal.SIGSTOP)
        try:
            with pytest.raises(ConnectionLostError):
                await store.ping(soon(SHORT))
            assert len(store._connections) == 0
            await granted(store, "firewall", "a:01")
        finally:
            for row in backends:
                os.kill(row["pid"], signal.SIGCONT)


@pytest.mark.parametrize("waits", [False, True])
async def test_a_name_that_is_busy_now_may_still_be_granted_late(
    server: PostgresServer, waits: bool
) -> None:
    """A caller that does not wait would not give back; one that waits does."""
    name = f"busy now {waits}"
    async with (
        FaultProxy(HOST, server.port, raw=True) as proxy,
        started(server.url_of("postgres", port=proxy.port), connections=1) as store,
        started(server.url) as other,
        connected(server.url) as raw,
    ):

        async def is_held() -> bool:
            return bool((await row_of(raw, name))["owner"] == "a:01")

        # The first time, a statement is prepared before it is executed.
        await granted(store, name, "b:01", waits=waits)
        assert await store.give_back(name, "b:01", False, soon())
        proxy.black_hole("down")
        asking = asyncio.create_task(store.ask(wish(name, "a:01", waits=waits), soon()))
        await until(is_held)
        assert await other.force_release(name, soon())
        await granted(other, name, "b:02")
        proxy.cut()
        proxy.pass_through()
        if waits:
            assert isinstance(await asking, Busy)
        else:
            with pytest.raises(ConnectionLostError, match="the name is busy now") as caught:
                await asking
            assert caught.value.maybe_held
        await store.give_back(name, "a:01", False, soon())
        with pytest.raises(BackendError, match="cannot ask again"):
            await other.ask(wish(name, "a:01"), soon())


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

        await until(is_free)


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

            await until(is_free)
