"""Many clients that want one name of a database: they stand in a queue in its row."""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any

import asyncmy.connection
import asyncpg
import pytest
import pytest_asyncio

from redisson_py.errors import AcquireTimeoutError, LeaseLostError
from tests.stores import workers
from tests.stores.backends import DatabaseBackend
from tests.stores.conftest import NewClient
from tests.stores.databases import running, waiters
from tests.support.waiting import until_async

_names = itertools.count()
pytestmark = [
    pytest.mark.usefixtures("no_polls"),
    pytest.mark.parametrize("backend", ["postgres", "mysql"], indirect=True),
]


@pytest.fixture
def name() -> str:
    return f"crowd-{next(_names)}"


@pytest_asyncio.fixture
async def look(backend: DatabaseBackend) -> AsyncIterator[Any]:
    async with running(backend.store()) as store:
        yield store


async def in_queue(store: Any, name: str, count: int) -> None:
    """Return when so many wait."""

    async def are_there() -> bool:
        return len(await waiters(store, name)) == count

    await until_async(are_there)


async def assert_no_entry(backend: DatabaseBackend, name: str) -> None:
    row = f"SELECT owner, refused FROM redisson_py_locks WHERE name = '{name}'"
    assert await backend.sql(row) == [(None, None)]


@contextmanager
def counted() -> Iterator[Callable[[], int]]:
    """Count the statements that clients of this process send to databases."""
    sent = 0

    def counting(method: Any) -> Any:
        async def count(*args: Any, **options: Any) -> Any:
            nonlocal sent
            sent += 1
            return await method(*args, **options)

        return count

    with pytest.MonkeyPatch.context() as patch:
        for kind, method in (
            (asyncpg.Connection, "fetch"),
            (asyncpg.Connection, "execute"),
            (asyncmy.connection.Connection, "query"),
        ):
            patch.setattr(kind, method, counting(getattr(kind, method)))
        yield lambda: sent


@pytest.mark.parametrize("clients", [2, 6, 24])
async def test_a_hand_off_costs_the_same_for_any_number_of_clients(
    backend: DatabaseBackend, name: str, clients: int
) -> None:
    """On MySQL, whose waiters poll, it is updates that stand in each other's way."""
    url = f"{backend.url}?connections=1" if backend.polls else backend.url
    options = {} if backend.polls else {"connections": 1}
    # Sections that last longer than one that comes may go first.
    section = 0.03 if backend.polls else 0.0
    rounds = max(4, 40 // clients) if backend.polls else 10
    begun, sections = 0, (2 + rounds) * clients

    async def want(client: Any) -> None:
        nonlocal begun
        while begun < sections:
            async with client.get_lock(name):
                begun += 1
                await asyncio.sleep(section)

    async def updates() -> int:
        if not backend.polls:
            return sent()
        return int((await backend.sql("SHOW GLOBAL STATUS LIKE 'Com_update'"))[0][1])

    async with AsyncExitStack() as stack, asyncio.timeout(300):
        made: list[Any] = [
            await stack.enter_async_context(backend.client(url, **options)) for _ in range(clients)
        ]
        for holder, others in ((made[0], made[1:]), (made[-1], made[:1])):
            # Each waits once in vain: it listens from then on.
            async with holder.get_lock("warm"):
                waits = (client.get_lock("warm").acquire(timeout=1) for client in others)
                answers = await asyncio.gather(*waits, return_exceptions=True)
                assert all(isinstance(each, AcquireTimeoutError) for each in answers)
        with counted() as sent:
            before = await updates()
            await asyncio.gather(*(want(client) for client in made))
            each = (await updates() - before) / begun
    # The release, the request of the one that was called, and that of the one that waits again; on
    # MySQL a release, joining and a grant, and on a slow machine places that last.
    assert each <= (12 if backend.polls else 5)
    await assert_no_entry(backend, name)


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
@pytest.mark.parametrize("end", ["release", "force_release", "expiry"])
async def test_a_first_that_is_stopped_or_killed(
    backend: DatabaseBackend,
    look: Any,
    new_client: NewClient,
    name: str,
    how: signal.Signals,
    end: str,
) -> None:
    kind = "mysql" if backend.polls else "postgres"
    one, other = new_client(), new_client()
    with workers.ours(kind, backend, session=30) as worker:
        async with asyncio.timeout(60):
            lease = await one.get_lock(name).acquire(lease_time=100)
            first = asyncio.create_task(worker.acquire(name, wait=60))
            await in_queue(look, name, 1)
            waiting = asyncio.create_task(other.get_lock(name).acquire())
            await in_queue(look, name, 2)
            if how == signal.SIGSTOP:
                worker.pause()
            else:
                worker.kill()
            if end == "release":
                await lease.release()
            elif end == "force_release":
                await one.get_lock(name).force_release()
            else:
                await lease.extend(1)
            second = await waiting
            if how == signal.SIGSTOP:
                worker.resume()
                # It missed its turn, and waits again.
                await in_queue(look, name, 1)
                await second.release()
                assert await first
                await worker.release(name)
            else:
                with pytest.raises(asyncio.CancelledError):
                    await first
                await second.release()
            if end != "release":
                with pytest.raises(LeaseLostError):
                    await lease.release()
            # A dead one that was called last goes by the clock; its entry, with the next change.
            await in_queue(look, name, 0)
            async with one.get_lock(name):
                pass
    await assert_no_entry(backend, name)


async def test_a_cancelled_wait_leaves_no_entry(
    backend: DatabaseBackend, look: Any, new_client: NewClient, name: str
) -> None:
    """Cancelled after any number of steps of the event loop."""
    one, other = new_client(), new_client()
    lease = await one.get_lock(name).acquire()
    seen = 0
    for steps in [*range(40), *range(40, 400, 20)]:
        waiting = asyncio.create_task(other.get_lock(name).acquire())
        for _ in range(steps):
            await asyncio.sleep(0)
        if steps % 3 == 0:
            await asyncio.sleep(0.003 * steps / 40)
        seen += len(await waiters(look, name))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await in_queue(look, name, 0)
    assert seen
    await lease.release()


async def test_inspect_lists_who_waits(new_client: NewClient, other: Any, name: str) -> None:
    lock = new_client().get_lock(name)
    async with lock:
        assert (await lock.inspect()).waiters == ()
        waiting = asyncio.create_task(other.get_lock(name).acquire())

        async def waits() -> bool:
            found = (await lock.inspect()).waiters or ()
            return [each.partition(":")[0] for each in found] == [other.id]

        await until_async(waits)
    await (await waiting).release()
