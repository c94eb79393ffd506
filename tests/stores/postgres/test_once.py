"""Once in PostgreSQL: recorded by itself, or in a transaction of the user's."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import psycopg
import pytest

from redisson_py import AcquireTimeoutError, LeaseLostError, NotHeldError, Once
from redisson_py.errors import BackendError
from redisson_py.postgres import Postgres, once_schema_sql, schema_sql
from tests.stores.databases import soon
from tests.stores.postgres.scene import connected, until_blocked
from tests.stores.postgres.server import PostgresServer, running_postgres
from tests.support.waiting import until_waiting

MIB = 1 << 20


async def enter(once: Once) -> tuple[bool, object]:
    async with once as entered:
        return entered.done, entered.result if entered.done else None


async def in_a_task(once: Once) -> tuple[bool, object]:
    return await asyncio.create_task(enter(once))


async def test_the_first_runs_it_and_the_others_get_its_result(server: PostgresServer) -> None:
    async with Postgres.from_url(server.url) as one, Postgres.from_url(server.url) as other:
        async with one.get_once("pay") as running:
            assert not running.done
            with pytest.raises(AcquireTimeoutError):
                async with other.get_once("pay").hold(timeout=0):
                    pytest.fail("two run it")
            waiting = [
                asyncio.create_task(enter(each.get_once("pay"))) for each in (one, other, other)
            ]
            await until_waiting(one, 1)
            await until_waiting(other, 2)
            await running.complete(b"paid")
            assert await asyncio.gather(*waiting) == [(True, b"paid")] * 3
        assert await in_a_task(other.get_once("pay")) == (True, b"paid")
        assert one.statistics().held_leases == other.statistics().held_leases == 0
        assert not await one.get_once("pay").locked()


async def test_many_of_several_clients_call_it_once(server: PostgresServer) -> None:
    calls = []

    async def pay(number: int) -> str:
        calls.append(number)
        await asyncio.sleep(0)
        return "paid"

    async with Postgres.from_url(server.url) as one, Postgres.from_url(server.url) as other:
        for number in range(5):
            name = f"many:{number}"
            found = await asyncio.gather(
                *[each.get_once(name).run(pay, number) for each in (one, other) for _ in range(10)]
            )
            assert found == ["paid"] * 20
    assert calls == [*range(5)]


@pytest.mark.parametrize("result", [b"", b"\0\xff", "", "naïve ☃ \0", b"x" * MIB])
async def test_a_result_comes_back_as_it_was(server: PostgresServer, result: str | bytes) -> None:
    async with Postgres.from_url(server.url) as one, Postgres.from_url(server.url) as other:
        await one.get_once("result").forget()
        assert await one.get_once("result").run(lambda: result) == result
        found = await other.get_once("result").run(lambda: b"other")
        assert (found, type(found)) == (result, type(result))


async def test_a_block_without_completion_leaves_the_name_free(server: PostgresServer) -> None:
    async with Postgres.from_url(server.url) as one, Postgres.from_url(server.url) as other:
        async with one.get_once("left"):
            waiting = [asyncio.create_task(enter(each.get_once("left"))) for each in (one, other)]
            await until_waiting(one, 1)
            await until_waiting(other, 1)
        assert await asyncio.gather(*waiting) == [(False, None)] * 2


async def test_it_is_committed_with_the_users_rows(server: PostgresServer) -> None:
    async with (
        Postgres.from_url(server.url) as one,
        Postgres.from_url(server.url) as other,
        connected(server.url) as raw,
    ):
        await raw.execute("CREATE TABLE IF NOT EXISTS paid (number int)")
        async with one.get_once("inside") as running:
            async with raw.transaction():
                await raw.execute("INSERT INTO paid VALUES (1)")
                await running.complete("yes", connection=raw)
                assert running.done
                assert not (await other.get_once("inside").inspect()).done
            assert (await other.get_once("inside").inspect()).done
            assert await one.get_once("inside").locked()
        assert await in_a_task(other.get_once("inside")) == (True, "yes")
        assert await raw.fetchval("SELECT count(*) FROM paid") == 1


async def test_rolled_back_it_is_not_done_and_may_be_completed_again(
    server: PostgresServer,
) -> None:
    async with (
        Postgres.from_url(server.url) as one,
        Postgres.from_url(server.url) as other,
        connected(server.url) as raw,
    ):
        async with one.get_once("back") as running:
            with pytest.raises(ZeroDivisionError):
                async with raw.transaction():
                    await running.complete(b"1", connection=raw)
                    raise ZeroDivisionError
            assert not (await other.get_once("back").inspect()).done
            async with raw.transaction():
                await running.complete(b"2", connection=raw)
        assert await in_a_task(other.get_once("back")) == (True, b"2")
        with pytest.raises(ZeroDivisionError):
            async with one.get_once("back2") as running, raw.transaction():
                await running.complete(b"1", connection=raw)
                raise ZeroDivisionError
        assert await in_a_task(other.get_once("back2")) == (False, None)


@pytest.mark.parametrize("other", ["1", b"2", b""])
async def test_completed_twice_the_first_result_stays(
    server: PostgresServer, other: str | bytes
) -> None:
    async with Postgres.from_url(server.url) as one, connected(server.url) as raw:
        once = one.get_once("both")
        await once.forget()
        async with once as running, raw.transaction():
            await running.complete(b"1", connection=raw)
            with pytest.raises(NotHeldError, match="another result"):
                await running.complete(other, connection=raw)
            assert running.result == b"1"
            await running.complete(b"1", connection=raw)
        assert await in_a_task(once) == (True, b"1")


async def test_nobody_else_runs_it_before_the_transaction_has_ended(
    server: PostgresServer,
) -> None:
    """Also if the block was left, or the lease ran out: the paused one commits alone."""
    async with (
        Postgres.from_url(server.url, on_lost="raise") as one,
        Postgres.from_url(server.url) as other,
        connected(server.url) as raw,
    ):
        running = await one.get_once("open").acquire(lease_time=1)
        transaction = raw.transaction()
        await transaction.start()
        await running.complete(b"mine", connection=raw)
        await asyncio.wait_for(running.wait_lost(), 10)
        waiting = asyncio.create_task(enter(other.get_once("open")))
        await until_waiting(other, 1)
        for _ in range(3):
            with pytest.raises(AcquireTimeoutError):
                async with other.get_once("open").hold(timeout=0):
                    pytest.fail("two run it")
        await transaction.commit()
        assert await waiting == (True, b"mine")


async def test_one_that_lost_its_lease_records_nothing(server: PostgresServer) -> None:
    async with (
        Postgres.from_url(server.url, on_lost="raise") as one,
        Postgres.from_url(server.url) as other,
        connected(server.url) as raw,
    ):
        for connection in (None, raw):
            name = f"lost:{connection is None}"
            running = await one.get_once(name).acquire()
            assert await other.get_once(name).force_release()
            async with other.get_once(name) as theirs:
                assert theirs.token > running.token
                transaction = raw.transaction()
                await transaction.start()
                with pytest.raises(LeaseLostError):
                    await running.complete(b"late", connection=connection)
                await transaction.rollback()
                await theirs.complete(b"theirs")
            assert await in_a_task(one.get_once(name)) == (True, b"theirs")


async def test_a_connection_outside_a_transaction_is_refused(server: PostgresServer) -> None:
    async with Postgres.from_url(server.url) as one, connected(server.url) as raw:
        async with one.get_once("outside") as running:
            with pytest.raises(RuntimeError, match="needs a transaction"):
                await running.complete(b"1", connection=raw)
            assert not running.done
            await running.complete(b"2")
            with pytest.raises(NotHeldError):
                await running.complete(b"3")


async def test_what_is_no_connection_of_asyncpg_is_refused(server: PostgresServer) -> None:
    async with Postgres.from_url(server.url) as one:
        async with one.get_once("typed") as running:
            async with await psycopg.AsyncConnection.connect(server.url) as other:
                for each in (other, server.url, one):
                    with pytest.raises(TypeError, match=r"\) takes a connection of asyncpg, not"):
                        await running.complete(b"1", connection=each)
            assert not running.done


async def test_it_runs_again_after_it_was_forgotten_and_after_keep(server: PostgresServer) -> None:
    async with Postgres.from_url(server.url) as one, connected(server.url) as raw:
        once = one.get_once("again", keep=60)
        assert await once.forget() is False
        assert await once.run(lambda: b"1") == b"1"
        first = await once.inspect()
        assert (first.done, first.size, first.holders) == (True, 1, ())
        assert first.kept is not None
        assert 50 < first.kept <= 60
        assert await once.forget() is True
        assert await once.run(lambda: b"2") == b"2"
        await raw.execute("UPDATE redisson_py_once SET expires = now() - interval '1 second'")
        assert await once.run(lambda: b"3") == b"3"
        last = await once.inspect()
        assert last.token is not None
        assert first.token is not None
        assert last.token > first.token


async def test_a_repetition_records_nothing_new(server: PostgresServer) -> None:
    """Nor if it was forgotten between the two, and the owner still holds the lock."""
    async with Postgres.from_url(server.url) as one, connected(server.url) as raw:
        async with one.get_once("twice") as running:
            store: Any = one._store
            arguments = "redisson_py:once:twice", running.owner, running.token
            assert await store.complete(*arguments, b"1", 60, soon()) == b"1"
            assert await store.complete(*arguments, "2", 60, soon()) == b"1"
            assert await raw.fetchval("SELECT result FROM redisson_py_once") is not None
            assert await one.get_once("twice").forget()
            assert await store.complete(*arguments, b"3", 60, soon()) == b"1"
            assert not (await one.get_once("twice").inspect()).done
            # Of another run nothing is recorded.
            earlier, other = (running.owner, running.token - 1), ("other:01", running.token)
            for owner, token in (earlier, other):
                found = await store.complete(arguments[0], owner, token, b"4", 60, soon())
                assert found is None


async def test_a_copy_beside_the_first_one_gets_its_answer(server: PostgresServer) -> None:
    """The first copy is not committed yet when the second one comes."""
    async with Postgres.from_url(server.url) as one, connected(server.url) as raw:
        async with one.get_once("beside") as running:
            store: Any = one._store
            arguments = "redisson_py:once:beside", running.owner, running.token
            transaction = raw.transaction()
            await transaction.start()
            assert await store.complete_inside(raw, *arguments, b"1", 60) == b"1"
            second = asyncio.create_task(store.complete(*arguments, b"2", 60, soon()))
            async with connected(server.url) as looks:
                await until_blocked(looks)
            await transaction.commit()
            assert await second == b"1"
        assert await in_a_task(one.get_once("beside")) == (True, b"1")


async def test_a_poor_role_learns_what_to_create() -> None:
    with running_postgres() as server:
        async with connected(server.url) as raw:
            await raw.execute(schema_sql())
            await raw.execute("CREATE ROLE poor LOGIN")
            await raw.execute("GRANT SELECT, INSERT, UPDATE ON redisson_py_locks TO poor")
        poor = server.url.replace("//", "//poor@", 1) if "@" not in server.url else None
        if poor is None:
            head, tail = server.url.split("@", 1)
            poor = f"{head.split('//')[0]}//poor@{tail}"
        async with Postgres.from_url(poor) as client:
            async with client.get_lock("k"):
                pass
            with pytest.raises(BackendError, match="redisson_py_once"):
                await client.get_once("k").run(lambda: b"1")
            async with connected(server.url) as raw:
                await raw.execute(once_schema_sql())
                await raw.execute("GRANT SELECT, INSERT, UPDATE ON redisson_py_once TO poor")
            assert await client.get_once("k").run(lambda: b"1") == b"1"


async def test_an_old_snapshot_records_nothing_after_a_takeover(server: PostgresServer) -> None:
    async with (
        Postgres.from_url(server.url, on_lost="raise") as one,
        Postgres.from_url(server.url) as other,
        connected(server.url) as raw,
    ):
        running = await one.get_once("serial").acquire()
        with pytest.raises((asyncpg.SerializationError, LeaseLostError)):
            async with raw.transaction(isolation="repeatable_read"):
                await raw.fetchval("SELECT count(*) FROM redisson_py_locks")
                assert await other.get_once("serial").force_release()
                theirs = await other.get_once("serial").acquire()
                await running.complete(b"late", connection=raw)
        await theirs.complete(b"theirs")
        assert await in_a_task(one.get_once("serial")) == (True, b"theirs")


async def test_renewals_do_not_disturb_an_old_snapshot(server: PostgresServer) -> None:
    async with Postgres.from_url(server.url) as one, connected(server.url) as raw:
        async with one.get_once("old") as running, raw.transaction(isolation="repeatable_read"):
            await raw.fetchval("SELECT count(*) FROM redisson_py_locks")
            await running.extend(60)
            await running.complete(b"1", connection=raw)
        assert await in_a_task(one.get_once("old")) == (True, b"1")
