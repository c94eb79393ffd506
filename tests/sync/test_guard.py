"""`lease.guard` in threads, on the connections that threads have: of drivers and frameworks."""

from __future__ import annotations

import itertools

import asyncpg
import psycopg
import pytest

from redisson_py import AcquireTimeoutError, BackendError, LeaseLostError, NotHeldError
from redisson_py.sync.postgres import Postgres, PostgresFencedLease, PostgresLease
from tests.stores.backends import Backend, PostgresBackend
from tests.sync.interrupting import interrupted_at
from tests.sync.stores import new_client
from tests.sync.threads import BUSY_WAIT, Running, in_thread, until, until_waiting
from tests.sync.users import USERS, User


def test_a_takeover_waits_for_the_commit(user: User, store: Postgres, other: Postgres) -> None:
    lease, taking = store.get_fenced_lock("guarded").acquire(), other.get_fenced_lock("guarded")
    assert isinstance(lease, PostgresFencedLease)
    with user.transaction():
        lease.guard(user.connection)
        # It stands for the end of the lease.
        assert taking.force_release()
        assert taking.try_acquire() is None
    with taking.hold(timeout=60) as second:
        assert second.token > lease.token
        with pytest.raises(LeaseLostError):
            with user.transaction():
                lease.guard(user.connection)
    assert lease.lost


def test_a_release_before_the_commit_lets_nobody_in(
    user: User, store: Postgres, other: Postgres
) -> None:
    """As in a view of Django with ATOMIC_REQUESTS."""
    lock = store.get_lock("guarded")
    with user.transaction():
        with lock as lease:
            lease.guard(user.connection)
            waiting = Running(lambda: lock.acquire(timeout=120))
            until_waiting(store)
        # Neither is it passed on inside this client, nor granted to another.
        assert other.get_lock("guarded").try_acquire() is None
        assert waiting.thread.is_alive()
    waiting.result().release()


def test_until_the_commit_who_guards_is_shut_out_too(user: User, store: Postgres) -> None:
    """As by a second request in a `TestCase` of Django, which never commits."""
    lock = store.get_lock("guarded")
    with user.transaction():
        with lock as lease:
            lease.guard(user.connection)
            with lock as again:
                again.guard(user.connection)
        assert lock.try_acquire() is None
        with pytest.raises(AcquireTimeoutError):
            lock.acquire(timeout=BUSY_WAIT)
    with lock.hold(timeout=60):
        pass


def test_without_a_guard_a_release_lets_others_in_before_the_commit(
    user: User, store: Postgres, other: Postgres
) -> None:
    with user.transaction():
        with store.get_lock("unguarded"):
            user.execute("SELECT 1")
        taken = other.get_lock("unguarded").acquire(timeout=60)
        assert taken
    taken.release()


def test_a_rollback_ends_the_guard(user: User, store: Postgres, other: Postgres) -> None:
    with store.get_lock("guarded") as lease:
        with pytest.raises(KeyError):
            with user.transaction():
                lease.guard(user.connection)
                lease.guard(user.connection)
                raise KeyError
        lease.check()
    with other.get_lock("guarded").hold(timeout=60):
        pass


def test_a_lease_that_is_gone_is_not_guarded(user: User, store: Postgres, other: Postgres) -> None:
    lock = store.get_lock("guarded")
    lease = lock.acquire()
    assert isinstance(lease, PostgresLease)
    assert other.get_lock("guarded").force_release()
    with other.get_lock("guarded"):
        with pytest.raises(LeaseLostError) as info:
            with user.transaction():
                lease.guard(user.connection)
        assert info.value.reason == "taken"
        assert lease.lost
    with pytest.raises(LeaseLostError):
        lock.release()
    with lock.acquire() as released:
        pass
    with pytest.raises(NotHeldError):
        with user.transaction():
            released.guard(user.connection)


@pytest.mark.parametrize("user", ["psycopg", "django"], indirect=True)
def test_outside_of_a_transaction_it_is_refused(user: User, store: Postgres) -> None:
    with store.get_lock("guarded") as lease:
        with pytest.raises(RuntimeError, match="guard needs a transaction"):
            lease.guard(user.connection)
        lease.check()


@pytest.mark.parametrize("kind", USERS)
def test_in_another_database_it_is_refused(kind: str, store: Postgres, backend: Backend) -> None:
    assert isinstance(backend, PostgresBackend)
    user = USERS[kind](backend.server.url_of("postgres", "template1"))
    try:
        with store.get_lock("guarded") as lease:
            with pytest.raises(BackendError, match="has no table redisson_py_locks"):
                with user.transaction():
                    lease.guard(user.connection)
            lease.check()
    finally:
        user.close()


def test_errors_of_the_driver_are_the_users(user: User, store: Postgres) -> None:
    with store.get_lock("guarded") as lease:
        with pytest.raises(user.errors):
            with user.transaction():
                with pytest.raises(user.errors):
                    user.execute("SELECT 1 / 0")
                # The transaction is aborted.
                lease.guard(user.connection)
        lease.check()


@pytest.mark.parametrize("user", ["psycopg", "psycopg2"], indirect=True)
def test_another_thread_may_guard(user: User, store: Postgres, other: Postgres) -> None:
    lease = store.get_lock("guarded").acquire()
    with user.transaction():
        in_thread(lambda: lease.guard(user.connection))
        lease.release()
        assert other.get_lock("guarded").try_acquire() is None


async def test_connections_of_event_loops_are_refused(backend: Backend) -> None:
    import asyncio

    store = new_client("postgres", backend)
    lease = await asyncio.to_thread(store.get_lock("guarded").acquire)
    plain = await asyncpg.connect(backend.url)
    later = await psycopg.AsyncConnection.connect(backend.url)
    try:
        for each in (plain, later, None, backend.url, store):
            with pytest.raises(TypeError, match="guard takes a connection of psycopg, psycopg2 or"):
                await asyncio.to_thread(lease.guard, each)
    finally:
        await plain.close()
        await later.close()
        await asyncio.to_thread(lease.release)
        await asyncio.to_thread(store.close)


def test_a_closed_client_guards_nothing(user: User, backend: Backend) -> None:
    store = new_client("postgres", backend)
    lease = store.get_lock("guarded").acquire()
    store.close()
    with pytest.raises(LeaseLostError):
        with user.transaction():
            lease.guard(user.connection)


@pytest.mark.parametrize("user", ["psycopg"], indirect=True)
def test_a_guard_that_is_interrupted_at_any_instruction_leaves_nothing(
    user: User, store: Postgres, other: Postgres
) -> None:
    def work() -> None:
        with store.get_lock("guarded") as lease, user.transaction():
            lease.guard(user.connection)

    work()
    steps = 0
    for step in itertools.count():
        if not interrupted_at(step, work):
            break
        until(lambda: store.statistics().held_leases == 0)
        steps = step
    assert steps > 50
    with other.get_lock("guarded").hold(timeout=60):
        pass
