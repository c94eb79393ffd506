"""`Once` in threads: on Redis, and in PostgreSQL inside transactions of the user's."""

from __future__ import annotations

import itertools
import uuid
from typing import Any

import asyncpg
import psycopg
import pytest
import redis as redis_py

from redisson_py import AcquireTimeoutError, BackendError, LeaseLostError, NotHeldError
from redisson_py.sync import Once, OnceLease, Redisson
from redisson_py.sync.postgres import Postgres
from tests.stores.backends import Backend, PostgresBackend
from tests.sync.interrupting import interrupted_at
from tests.sync.stores import new_client
from tests.sync.threads import BUSY_WAIT, Running, in_thread, until, until_waiting
from tests.sync.users import USERS, Psycopg, User

TABLE = "CREATE TABLE IF NOT EXISTS paid (name text)"
PAY = "INSERT INTO paid VALUES ('{}')"


def enter(once: Once) -> tuple[bool, object]:
    """Enter a block; return what it was told, without completing anything."""
    with once as entered:
        return entered.done, entered.result if entered.done else None


@pytest.fixture
def name() -> str:
    """A name that nothing was done under."""
    return f"pay:{uuid.uuid4()}"


@pytest.fixture(params=["redis", "postgres"])
def maker(request: pytest.FixtureRequest) -> Any:
    """A client for threads that makes what is done once."""
    return request.getfixturevalue({"redis": "client", "postgres": "store"}[request.param])


class TestOnEachServer:
    def test_the_first_runs_it_and_the_others_get_its_result(self, maker: Any, name: str) -> None:
        once = maker.get_once(name)
        with once as running:
            assert isinstance(running, OnceLease)
            assert not running.done
            waiting = [Running(lambda: enter(maker.get_once(name))) for _ in range(3)]
            until_waiting(maker, 3)
            running.complete(b"paid")
            assert (running.done, running.result) == (True, b"paid")
            assert [each.result() for each in waiting] == [(True, b"paid")] * 3
        assert in_thread(lambda: enter(once)) == (True, b"paid")
        with pytest.raises(NotHeldError):
            running.complete(b"again")

    def test_each_thread_of_one_object_knows_its_own_block(self, maker: Any, name: str) -> None:
        once = maker.get_once(name)
        with pytest.raises(NotHeldError, match="has not entered"):
            _ = once.done
        with once:
            assert not once.done
            with pytest.raises(RuntimeError, match="no result"):
                _ = once.result
            other = Running(lambda: once.complete(b"x"))
            with pytest.raises(NotHeldError, match="has not entered"):
                other.result()
            once.complete("text")
            assert (once.done, once.result) == (True, "text")

    def test_who_does_not_wait_is_turned_away(self, maker: Any, name: str) -> None:
        once = maker.get_once(name)

        def turned_away(seconds: float) -> None:
            with pytest.raises(AcquireTimeoutError):
                with once.hold(timeout=seconds):
                    pytest.fail("two run it")

        with once:
            in_thread(lambda: turned_away(0))
            in_thread(lambda: turned_away(BUSY_WAIT))

    def test_a_function_is_called_once_by_many_threads(self, maker: Any, name: str) -> None:
        threads: list[str] = []

        def pay(amount: str) -> str:
            threads.append(amount)
            return amount

        running = [Running(lambda: maker.get_once(name).run(pay, "7")) for _ in range(10)]
        assert [each.result() for each in running] == ["7"] * 10
        assert threads == ["7"]

    def test_a_function_that_raises_leaves_it_free(self, maker: Any, name: str) -> None:
        once = maker.get_once(name)
        with pytest.raises(ZeroDivisionError):
            once.run(lambda: 1 / 0)
        assert not once.inspect().done
        assert once.run(lambda: None) == b""
        assert once.inspect().done
        assert once.forget() is True
        assert once.forget() is False
        assert once.run(lambda: b"2") == b"2"

    def test_one_that_lost_its_lock_records_nothing(self, maker: Any, name: str) -> None:
        once = maker.get_once(name)
        running = once.acquire()
        assert once.force_release()
        with pytest.raises(LeaseLostError):
            running.complete(b"late")
        assert in_thread(lambda: once.run(lambda: b"next")) == b"next"

    def test_an_interrupted_block_holds_nothing(self, maker: Any, name: str) -> None:
        once = maker.get_once(name)

        def work() -> None:
            with once as entered:
                if not entered.done:
                    entered.complete(b"1")
            once.forget()

        work()
        steps = 0
        for step in itertools.count():
            if not interrupted_at(step, work):
                break
            until(lambda: maker.statistics().held_leases == 0)
            # Whether it was done when it was interrupted, nobody has to wait.
            assert in_thread(lambda: once.run(lambda: b"1")) == b"1"
            once.forget()
            steps = step
        assert steps > 50


def test_redis_takes_no_connection(client: Redisson, look: redis_py.Redis, name: str) -> None:
    with client.get_once(name) as running:
        for connection in (look, object()):
            with pytest.raises(TypeError, match="connection is for PostgreSQL"):
                running.complete(b"1", connection=connection)
        with pytest.raises(TypeError, match="result must be bytes or str"):
            running.complete(1, connection=look)  # type: ignore[arg-type]
        assert not running.done
        running.complete(b"2")


class TestInTransactions:
    def test_it_is_committed_with_the_users_rows(
        self, user: User, store: Postgres, other: Postgres, backend: Backend, name: str
    ) -> None:
        theirs = other.get_once(name)
        with store.get_once(name) as running:
            with user.transaction():
                user.execute(TABLE)
                user.execute(PAY.format(name))
                running.complete("yes ☃", connection=user.connection)
                assert (running.done, running.result) == (True, "yes ☃")
                assert not theirs.inspect().done
                assert theirs.try_acquire() is None
            assert theirs.inspect().done
            assert in_thread(lambda: enter(theirs)) == (True, "yes ☃")
        assert in_thread(lambda: theirs.run(lambda: b"second")) == "yes ☃"
        assert paid(backend, name) == 1

    def test_rolled_back_it_is_not_done_and_may_be_completed_again(
        self, user: User, store: Postgres, other: Postgres, backend: Backend, name: str
    ) -> None:
        with store.get_once(name) as running:
            with pytest.raises(ZeroDivisionError):
                with user.transaction():
                    user.execute(TABLE)
                    user.execute(PAY.format(name))
                    running.complete(b"1", connection=user.connection)
                    raise ZeroDivisionError
            assert not other.get_once(name).inspect().done
            with user.transaction():
                user.execute(TABLE)
                running.complete(b"\0\xff%s", connection=user.connection)
                with pytest.raises(NotHeldError, match="another result"):
                    running.complete("2", connection=user.connection)
                assert running.result == b"\0\xff%s"
        assert other.get_once(name).run(lambda: b"3") == b"\0\xff%s"
        assert paid(backend, name) == 0

    def test_a_block_left_before_the_commit_lets_nobody_in(
        self, user: User, store: Postgres, other: Postgres, name: str
    ) -> None:
        """As in a view of Django with ATOMIC_REQUESTS."""
        with user.transaction():
            with store.get_once(name) as running:
                running.complete(b"mine", connection=user.connection)
            waiting = [
                Running(lambda each=each: each.get_once(name).run(lambda: b"second"))  # type: ignore[misc]
                for each in (store, other)
            ]
            until_waiting(store)
            until_waiting(other)
            assert other.get_once(name).try_acquire() is None
            assert all(each.thread.is_alive() for each in waiting)
        assert [each.result() for each in waiting] == [b"mine"] * 2

    def test_a_takeover_waits_for_the_commit(
        self, user: User, store: Postgres, other: Postgres, name: str
    ) -> None:
        running = store.get_once(name).acquire()
        with user.transaction():
            running.complete(b"mine", connection=user.connection)
            # It stands for the end of the lease.
            assert other.get_once(name).force_release()
            assert other.get_once(name).try_acquire() is None
        assert other.get_once(name).run(lambda: b"second") == b"mine"

    def test_one_that_lost_its_lock_records_nothing(
        self, user: User, store: Postgres, other: Postgres, backend: Backend, name: str
    ) -> None:
        running = store.get_once(name).acquire()
        assert other.get_once(name).force_release()
        with other.get_once(name) as theirs:
            with pytest.raises(LeaseLostError) as info:
                with user.transaction():
                    user.execute(TABLE)
                    user.execute(PAY.format(name))
                    running.complete(b"late", connection=user.connection)
            assert info.value.reason == "taken"
            assert running.lost
            theirs.complete(b"theirs")
        assert other.get_once(name).run(lambda: b"third") == b"theirs"
        assert paid(backend, name) == 0

    @pytest.mark.parametrize("user", ["psycopg", "django"], indirect=True)
    def test_outside_of_a_transaction_nothing_is_recorded(
        self, user: User, store: Postgres, other: Postgres, name: str
    ) -> None:
        """The connection commits each statement: the record must not be among them."""
        with store.get_once(name) as running:
            with pytest.raises(RuntimeError, match="complete needs a transaction"):
                running.complete(b"1", connection=user.connection)
            assert not running.done
            assert not other.get_once(name).inspect().done
            running.complete(b"2")
        assert other.get_once(name).run(lambda: b"3") == b"2"

    @pytest.mark.parametrize("kind", USERS)
    def test_in_another_database_it_is_refused(
        self, kind: str, store: Postgres, backend: Backend, name: str
    ) -> None:
        assert isinstance(backend, PostgresBackend)
        user = USERS[kind](backend.server.url_of("postgres", "template1"))
        try:
            with store.get_once(name) as running:
                with pytest.raises(BackendError, match="complete works only in the database that"):
                    with user.transaction():
                        running.complete(b"1", connection=user.connection)
                assert not running.done
                running.check()
        finally:
            user.close()

    def test_errors_of_the_driver_are_the_users(
        self, user: User, store: Postgres, name: str
    ) -> None:
        with store.get_once(name) as running:
            with pytest.raises(user.errors):
                with user.transaction():
                    with pytest.raises(user.errors):
                        user.execute("SELECT 1 / 0")
                    # The transaction is aborted.
                    running.complete(b"1", connection=user.connection)
            assert not running.done

    def test_the_object_completes_what_this_thread_has_entered(
        self, user: User, store: Postgres, other: Postgres, name: str
    ) -> None:
        once = store.get_once(name)
        with user.transaction(), pytest.raises(NotHeldError, match="has not entered"):
            once.complete(b"1", connection=user.connection)
        with once, user.transaction():
            once.complete(b"1", connection=user.connection)
            assert (once.done, once.result) == (True, b"1")
        assert other.get_once(name).run(lambda: b"2") == b"1"

    async def test_connections_of_event_loops_are_refused(
        self, backend: Backend, name: str
    ) -> None:
        import asyncio

        store = new_client("postgres", backend)
        running = await asyncio.to_thread(store.get_once(name).acquire)
        plain = await asyncpg.connect(backend.url)
        later = await psycopg.AsyncConnection.connect(backend.url)
        try:
            for each in (plain, later, backend.url, store):
                with pytest.raises(TypeError, match="complete takes a connection of psycopg"):
                    await asyncio.to_thread(running.complete, b"1", connection=each)
            assert not running.done
        finally:
            await plain.close()
            await later.close()
            await asyncio.to_thread(running.release)
            await asyncio.to_thread(store.close)

    @pytest.mark.parametrize("user", ["psycopg"], indirect=True)
    def test_interrupted_at_any_instruction_it_is_committed_whole_or_not_at_all(
        self, user: User, store: Postgres, other: Postgres, name: str
    ) -> None:
        user.execute(TABLE)
        once, theirs = store.get_once(name), other.get_once(name)

        def work() -> None:
            with once as running, user.transaction():
                user.execute("DELETE FROM paid")
                user.execute(PAY.format(name))
                running.complete(b"1", connection=user.connection)

        work()
        steps = 0
        for step in itertools.count():
            theirs.forget()
            user.execute("DELETE FROM paid")
            if not interrupted_at(step, work):
                break
            until(lambda: store.statistics().held_leases == 0)
            steps = step
            with user.connection.cursor() as cursor:
                cursor.execute("SELECT count(*) AS paid FROM paid")
                assert cursor.fetchone()["paid"] == theirs.inspect().done
        assert steps > 50
        with theirs.hold(timeout=60) as entered:
            assert entered.done


def paid(backend: Backend, name: str) -> int:
    """Return how many rows a user has committed."""
    looks = Psycopg(backend.url)
    try:
        with looks.connection.cursor() as cursor:
            cursor.execute("SELECT count(*) AS paid FROM paid WHERE name = %s", (name,))
            found: int = cursor.fetchone()["paid"]
            return found
    finally:
        looks.close()
