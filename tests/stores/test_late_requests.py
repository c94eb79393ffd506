"""Leases and forced releases that are sent twice, arrive late, or overtake an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from redisson_py._stores.contract import State
from tests.stores.backends import Backend, DatabaseBackend
from tests.stores.conftest import NewClient
from tests.stores.databases import granted, holder, new_name, owner, running, soon
from tests.stores.postgres.scene import connected
from tests.stores.traces import SOON
from tests.support.any_client import Client

of_databases = pytest.mark.parametrize("backend", ["postgres", "mysql"], indirect=True)
of_other_stores = pytest.mark.parametrize(
    "backend", ["postgres", "mysql", "etcd", "zookeeper"], indirect=True
)


class Requests:
    """Records what a connected store sends to its database, and sends it again.

    Args:
        backend: The server.
        store: The store.
    """

    def __init__(self, backend: Backend, store: Any) -> None:
        self._backend = backend
        self.calls: list[tuple[Any, ...]] = []
        self.connections = store._connections
        self.kind = "fetch" if store.title == "PostgreSQL" else "run"
        send: Callable[..., Awaitable[Any]] = getattr(self.connections, self.kind)

        async def recording(*call: Any, **options: Any) -> Any:
            self.calls.append(call)
            return await send(*call, **options)

        setattr(self.connections, self.kind, recording)

    async def arrive(self, calls: list[tuple[Any, ...]]) -> None:
        """Have copies of requests arrive now, in their order."""
        assert calls
        for statement, arguments, *_ in calls:
            if self.kind == "fetch":
                async with connected(self._backend.url) as raw:
                    await raw.fetch(statement, *arguments)
            else:
                await self._backend.server.sql(statement)


async def left(client: Client) -> float:
    remaining = await client.get_lock("k").remaining()
    assert remaining is not None
    return remaining


@of_databases
async def test_a_shorter_lease_that_comes_late_undoes_no_longer_one(
    backend: Backend, client: Any, other: Client
) -> None:
    """The holder believes in the longer one, so nobody else may be let in."""
    lease = await client.get_lock("k").acquire(lease_time=60)
    requests = Requests(backend, client._store)
    await lease.extend(5)
    late = list(requests.calls)
    await lease.extend(60)
    await requests.arrive(late)
    assert await left(other) > 30
    await lease.release()


@of_databases
async def test_a_partial_release_that_comes_late_does_not_undo_an_extension(
    backend: Backend, client: Any, other: Client
) -> None:
    lock = client.get_lock("k")
    outer = await lock.acquire(lease_time=20)
    inner = await lock.acquire(lease_time=60)
    requests = Requests(backend, client._store)
    await inner.release()
    late = list(requests.calls)
    await outer.extend(90)
    await requests.arrive(late)
    assert await left(other) > 60
    await outer.release()


@of_databases
async def test_a_lease_is_set_although_another_request_came_in_between(
    backend: DatabaseBackend, client: Any, other: Client
) -> None:
    """A renewal that was given up, for example."""
    lease = await client.get_lock("k").acquire(lease_time=60)
    requests = Requests(backend, client._store)
    await lease.extend(40)
    usual = len(requests.calls)
    send = getattr(requests.connections, requests.kind)
    second = "interval '1 s'" if requests.kind == "fetch" else "1000000"
    renewed = False

    async def beside(*call: Any, **options: Any) -> Any:
        """Change the end of the lease behind the look at it."""
        nonlocal renewed
        answer = await send(*call, **options)
        if not renewed:
            renewed = True
            await backend.sql(
                f"UPDATE redisson_py_locks SET expires = expires + {second} WHERE name = 'k'"
            )
        return answer

    setattr(requests.connections, requests.kind, beside)
    await lease.extend(20)
    assert len(requests.calls) - usual > usual
    assert 10 < await left(other) <= 20
    await lease.release()


@of_databases
@pytest.mark.parametrize("same", ["token", "owner"])
async def test_a_forced_release_that_comes_late_ends_no_later_hold(
    backend: DatabaseBackend, same: str
) -> None:
    """A token can repeat where a row was deleted and the clock set back."""
    name, first = new_name(), owner()
    async with running(backend.store()) as store:
        before = await granted(store, name, first)
        requests = Requests(backend, store)
        assert await store.force_release(name, soon())
        late = list(requests.calls)
        second = first if same == "owner" else owner()
        await granted(store, name, second)
        if same == "token":
            await backend.sql(
                f"UPDATE redisson_py_locks SET token = {before.token} WHERE name = '{name}'"
            )
        await requests.arrive(late)
        assert await holder(store, name) == second


@of_databases
async def test_one_of_two_forced_releases_at_once_ended_the_hold(
    backend: DatabaseBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(backend.store()) as store:
        name = new_name()
        await granted(store, name, owner())
        look, looked = store.look, asyncio.Barrier(2)

        async def look_together(name: str, deadline: float) -> State:
            state: State = await look(name, deadline)
            await looked.wait()
            return state

        monkeypatch.setattr(store, "look", look_together)
        answers = await asyncio.gather(*(store.force_release(name, soon()) for _ in range(2)))
        assert sorted(answers) == [False, True]


@of_other_stores
async def test_a_forced_release_finds_a_grant_whose_answer_is_under_way(
    new_client: NewClient, other: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With several connections answers come in another order than the requests were served."""
    # No renewal is due before the end of the test.
    client: Any = new_client(lease_time=4 * SOON)
    granted, may_come = asyncio.Event(), asyncio.Event()
    store = client._store
    ask = store.ask

    async def ask_slowly(*arguments: Any, **options: Any) -> Any:
        answer = await ask(*arguments, **options)
        granted.set()
        await may_come.wait()
        return answer

    async with client.get_lock("first"):
        pass
    monkeypatch.setattr(store, "ask", ask_slowly)
    acquiring = asyncio.create_task(client.get_lock("k").acquire())
    await granted.wait()
    assert await client.get_lock("k").force_release()
    taken = await other.get_lock("k").acquire(timeout=SOON)
    may_come.set()
    lease = await acquiring
    async with asyncio.timeout(SOON):
        await lease.wait_lost()
    await taken.release()
