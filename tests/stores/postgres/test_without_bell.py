"""A server that takes no NOTIFY: rows are freed all the same, and those that wait come to it.

Any user can fill the queue for notifications: one that listens and stays in a transaction keeps
all of them there. PostgreSQL 18 has a setting for the size of that queue.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import asyncpg
import pytest

from redisson_py import SemaphoreSnapshot
from redisson_py._stores.postgres import PostgresStore, listening
from redisson_py.postgres import Postgres
from tests.stores.databases import Bell, busy, granted, soon
from tests.stores.postgres.scene import connected, row_of, started
from tests.stores.postgres.server import PostgresServer, running_postgres
from tests.support.waiting import until_async, until_waiting

#: More messages than the smallest queue takes: 64 pages of 8 KiB.
_MANY = 1000


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_postgres(max_notify_queue_pages="64") as each:
        yield each


@asynccontextmanager
async def full_queue(server: PostgresServer) -> AsyncIterator[None]:
    """Have the queue for notifications full for the time of a block."""
    async with connected(server.url) as idle, connected(server.url) as noisy:
        await idle.execute("LISTEN noise")
        async with idle.transaction():
            await idle.execute("SELECT 1")
            with pytest.raises(asyncpg.ProgramLimitExceededError):
                for number in range(_MANY):
                    await noisy.execute(f"SELECT pg_notify('noise', repeat('x', 7900) || {number})")
            yield
        await idle.execute("UNLISTEN *")
    # Nothing here makes room in the queue: the store has to.


@asynccontextmanager
async def no_right_to_notify(server: PostgresServer) -> AsyncIterator[None]:
    """Let nobody but superusers notify, for the time of a block."""
    async with connected(server.url) as admin:
        await admin.execute("REVOKE EXECUTE ON FUNCTION pg_notify(text, text) FROM PUBLIC")
        yield
        await admin.execute("GRANT EXECUTE ON FUNCTION pg_notify(text, text) TO PUBLIC")


@pytest.fixture
async def url(server: PostgresServer) -> str:
    async with connected(server.url) as admin:
        await admin.execute(
            "DROP TABLE IF EXISTS redisson_py_locks, redisson_py_shared;"
            " DROP OWNED BY app; DROP ROLE app"
            if await admin.fetchval("SELECT 1 FROM pg_roles WHERE rolname = 'app'")
            else "SELECT 1"
        )
        await admin.execute("CREATE ROLE app LOGIN; GRANT CREATE ON SCHEMA public TO app")
    return server.url_of("app")


Fault = Callable[[PostgresServer], AbstractAsyncContextManager[None]]
End = Callable[[PostgresStore], Awaitable[object]]

ENDS: dict[str, End] = {
    "release": lambda store: store.give_back("k", "a:01", False, soon()),
    "undo": lambda store: store.give_back("k", "a:01", True, soon()),
    "forced release": lambda store: store.force_release("k", soon()),
}


@pytest.mark.parametrize("fault", [full_queue, no_right_to_notify])
@pytest.mark.parametrize("end", ENDS)
async def test_a_row_is_freed_whatever_becomes_of_the_bell(
    server: PostgresServer, url: str, fault: Fault, end: str
) -> None:
    async with started(url) as store, connected(server.url) as raw:
        await granted(store, "k", "a:01")
        await busy(store, "k", "b:01", waits=True)
        async with fault(server):
            assert await ENDS[end](store)
        row = await row_of(raw, "k")
        assert (row["owner"], row["waiting_until"]) == (None, None)
        # One that asks again waits again, and is rung for.
        bell = Bell()
        async with started(url, bell) as other:
            await granted(store, "k", "a:02")
            await busy(other, "k", "b:02", waits=True)
            assert await store.give_back("k", "a:02", False, soon())
            await bell.wait()


THINGS: dict[str, Callable[[Postgres], Any]] = {
    "lock": lambda client: client.get_lock("k"),
    "write": lambda client: client.get_read_write_lock("k").write_lock(),
    "permit": lambda client: client.get_semaphore("k", 1),
}


@pytest.mark.parametrize("thing", THINGS.values(), ids=THINGS)
async def test_a_waiter_comes_to_a_release_that_could_not_ring(
    server: PostgresServer,
    url: str,
    thing: Callable[[Postgres], Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It heard well before; the sign of life of its connection says that it may not now."""
    monkeypatch.setattr(listening, "_INTERVAL_SECONDS", 0.1)
    async with (
        Postgres.from_url(url, lease_time=600) as one,
        Postgres.from_url(url, lease_time=600) as other,
        asyncio.timeout(60),
    ):
        lease = await thing(one).acquire()
        waiting = asyncio.create_task(thing(other).acquire())
        await until_waiting(other, 1)

        async def is_registered() -> bool:
            seen = await thing(one).inspect()
            return bool(seen.waiting if isinstance(seen, SemaphoreSnapshot) else seen.waiters)

        await until_async(is_registered)
        caplog.set_level(logging.WARNING, "redisson_py")
        async with full_queue(server):
            await lease.release()
            for _ in range(3):
                lease, given = await waiting, lease
                assert given is not lease
                waiting = asyncio.create_task(thing(one).acquire())
                await until_waiting(one, 1)
                await lease.release()
                one, other = other, one
            lease = await waiting
        await lease.release()
    texts = [each.getMessage() for each in caplog.records if "NOTIFY" in each.getMessage()]
    # One warning for each of the two clients that release.
    assert 1 <= len(texts) <= 2
    assert "too many notifications in the NOTIFY queue (54000)" in texts[0]
