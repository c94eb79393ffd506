"""A transaction of a user's, bound to a lease: the store beside it, and a second client."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import asyncpg
import pytest

from redisson_py._stores.contract import Renewal
from redisson_py._stores.postgres import PostgresStore, sql
from redisson_py._stores.postgres.listening import channel_of
from redisson_py._stores.postgres.store import LOCKED_SECONDS
from redisson_py.errors import BackendError, NotHeldError
from redisson_py.postgres import Postgres
from tests.stores.databases import busy, granted, soon
from tests.stores.postgres.scene import connected, id_of, started, until_blocked, until_ended
from tests.stores.postgres.server import PostgresServer, running_postgres
from tests.support.waiting import until, until_waiting


@pytest.fixture(scope="module", params=[18, 15])
def server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    with running_postgres(request.param) as each:
        yield each


async def test_a_takeover_waits_for_the_users_commit(server: PostgresServer) -> None:
    async with (
        started(server.url) as one,
        started(server.url) as other,
        connected(server.url) as raw,
    ):
        hold = await granted(one, "guarded", "a:01", lease=2)
        async with raw.transaction():
            assert await one.guard(raw, "guarded", "a:01", hold.token)
            await until_ended(raw, "guarded")
            # The lease is over, but its place is not free.
            for waits in (False, True):
                assert await busy(other, "guarded", "b:01", waits=waits) == LOCKED_SECONDS
        assert (await granted(other, "guarded", "b:01")).token > hold.token
        async with raw.transaction():
            assert not await one.guard(raw, "guarded", "a:01", hold.token)


async def test_renewals_pass_a_guard(server: PostgresServer) -> None:
    async with started(server.url) as store, connected(server.url) as raw:
        hold = await granted(store, "renewed", "a:01", lease=5)
        async with raw.transaction():
            assert await store.guard(raw, "renewed", "a:01", hold.token)
            (kept,) = await store.renew([Renewal("renewed", "a:01", hold.token, 60)], soon())
            assert kept is not None
            assert kept > hold.until + 50
            assert (await granted(store, "renewed", "a:01")).token == hold.token
            # The new version of the row is locked as the old one was.
            assert await store.give_back("renewed", "a:01", False, soon())
            assert await busy(store, "renewed", "b:01") == LOCKED_SECONDS
        await granted(store, "renewed", "b:01")


async def test_a_waiter_is_rung_for_although_a_guard_is_open(server: PostgresServer) -> None:
    async with started(server.url) as store, connected(server.url) as raw:
        hold = await granted(store, "waited", "a:01")
        async with raw.transaction():
            assert await store.guard(raw, "waited", "a:01", hold.token)
            # It registers beside the guard, and does not wait for it.
            assert await busy(store, "waited", "b:01", waits=True) > 1
            assert await store.give_back("waited", "a:01", False, soon())
            assert await busy(store, "waited", "b:01", waits=True) == LOCKED_SECONDS
        await granted(store, "waited", "b:01", waits=True)


async def test_a_lease_that_has_ended_is_not_guarded(server: PostgresServer) -> None:
    async with started(server.url) as store, connected(server.url) as raw:
        hold = await granted(store, "over", "a:01", lease=0.1)
        await until_ended(raw, "over")
        assert not await guard_in(store, raw, "over", "a:01", hold.token)


async def test_a_guard_waits_for_a_takeover_and_fails(server: PostgresServer) -> None:
    async with (
        started(server.url) as store,
        connected(server.url) as raw,
        connected(server.url) as forcing,
        connected(server.url) as look,
    ):
        hold = await granted(store, "changed", "a:01")
        transaction = forcing.transaction()
        await transaction.start()
        key = id_of("changed"), channel_of("changed")
        (freed,) = await forcing.fetch(sql.FORCE_RELEASE, *key, "a:01", hold.token)
        assert freed["held"]
        (row,) = await forcing.fetch(
            sql.ASK, id_of("changed"), "changed", "b:01", 30.0, 1, None, False
        )
        assert row["granted"]
        asking = asyncio.create_task(guard_in(store, raw, "changed", "a:01", hold.token))
        await until_blocked(look)
        await transaction.commit()
        assert not await asking


async def guard_in(
    store: PostgresStore, connection: asyncpg.Connection, name: str, owner: str, token: int
) -> bool:
    async with connection.transaction():
        return await store.guard(connection, name, owner, token)


async def test_a_guard_knows_owner_and_token(server: PostgresServer) -> None:
    async with started(server.url) as store, connected(server.url) as raw:
        hold = await granted(store, "known", "a:01")
        async with raw.transaction():
            assert not await store.guard(raw, "known", "a:01", hold.token - 1)
            assert not await store.guard(raw, "known", "b:01", hold.token)
            assert not await store.guard(raw, "unknown", "a:01", hold.token)
            # Nothing is locked by a guard that failed.
            await store.give_back("known", "a:01", False, soon())
            await granted(store, "known", "b:01")


async def test_a_guard_outside_of_a_transaction_is_refused(server: PostgresServer) -> None:
    async with started(server.url) as store, connected(server.url) as raw:
        hold = await granted(store, "outside", "a:01")
        with pytest.raises(RuntimeError, match=r"connection\.transaction"):
            await store.guard(raw, "outside", "a:01", hold.token)
        with pytest.raises(TypeError, match=r"a connection of asyncpg, not builtins\.str"):
            await store.guard(server.url, "outside", "a:01", hold.token)


async def test_a_guard_in_another_database_is_refused(server: PostgresServer) -> None:
    async with (
        started(server.url) as store,
        connected(server.url_of("postgres", "template1")) as raw,
    ):
        with pytest.raises(BackendError, match="has no table redisson_py_locks"):
            async with raw.transaction():
                await store.guard(raw, "elsewhere", "a:01", 1)


async def test_a_guarded_lock_is_not_passed_on_before_the_commit(server: PostgresServer) -> None:
    """A task of the same client would get it without a question that the guard could stop."""
    async with (
        Postgres.from_url(server.url, turn=60.0) as client,
        connected(server.url) as raw,
    ):
        transaction = raw.transaction()
        await transaction.start()
        lease = await client.get_lock("inside").acquire()
        await lease.guard(raw)
        waiter = asyncio.create_task(client.get_lock("inside").acquire())
        await until_waiting(client, 1)
        await lease.release()
        sent = client.statistics().commands_sent
        # It has asked, been told to wait, and asks again.
        await until(lambda: waiter.done() or client.statistics().commands_sent >= sent + 3)
        assert not waiter.done()
        await transaction.commit()
        async with asyncio.timeout(30):
            await (await waiter).release()


async def test_a_released_lease_guards_nothing(server: PostgresServer) -> None:
    """Its hold was passed to another task, which loses nothing by that."""
    async with (
        Postgres.from_url(server.url, turn=60.0) as client,
        connected(server.url) as raw,
    ):
        lease = await client.get_lock("passed").acquire()
        waiter = asyncio.create_task(client.get_lock("passed").acquire())
        await until_waiting(client, 1)
        await lease.release()
        passed = await waiter
        assert passed.owner == lease.owner
        async with raw.transaction():
            with pytest.raises(NotHeldError, match="was already released"):
                await lease.guard(raw)
        async with raw.transaction():
            await passed.guard(raw)
        await passed.release()
