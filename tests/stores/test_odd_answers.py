"""What a store's driver may do beside answering: raise anything, or never get through."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from redisson_py import BackendError, ConnectionLostError, RedissonError
from redisson_py._stores.client import StoreClient
from redisson_py.testing import FaultProxy
from tests.fixtures.measured import Measured
from tests.stores.backends import BACKENDS, LEASE, Backend
from tests.stores.conftest import NewClient
from tests.stores.traces import SOON
from tests.support.any_client import Client
from tests.support.waiting import until

ODD = [RuntimeError("a defect"), asyncio.CancelledError()]
STORES = [name for name in BACKENDS if name != "redis"]
one_store = pytest.mark.parametrize("backend", ["etcd"], indirect=True)
all_stores = pytest.mark.parametrize("backend", STORES, indirect=True)


@pytest_asyncio.fixture
async def client(new_client: NewClient) -> StoreClient:
    """A client of a store, whose lease is much longer than a test."""
    client = new_client(lease_time=10 * LEASE, command_timeout=SOON)
    assert isinstance(client, StoreClient)
    return client


def spoil(client: StoreClient, what: str, times: int, error: BaseException) -> list[str]:
    """Have a store carry calls out and then raise an error; return the list of these calls."""
    store: Any = client._store
    call: Callable[..., Awaitable[Any]] = getattr(store, what)
    spoilt: list[str] = []

    async def spoiling(*arguments: Any) -> Any:
        answer = await call(*arguments)
        if len(spoilt) < times:
            spoilt.append(what)
            raise error
        return answer

    setattr(store, what, spoiling)
    return spoilt


async def takes_it(other: Client) -> None:
    """Fail unless the lock is free soon, long before its lease is over."""
    async with asyncio.timeout(SOON):
        async with other.get_lock("k"):
            pass


@one_store
@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("error", ODD, ids=repr)
async def test_a_grant_behind_an_odd_error_is_given_back(
    error: BaseException, waits: bool, client: StoreClient, other: Client
) -> None:
    spoilt = spoil(client, "ask", 1, error)
    with pytest.raises((BackendError, ConnectionLostError)):
        await (client.get_lock("k").acquire() if waits else client.get_lock("k").try_acquire())
    assert spoilt
    await takes_it(other)


@one_store
@pytest.mark.parametrize("error", ODD, ids=repr)
async def test_a_release_behind_odd_errors_arrives(
    error: BaseException, client: StoreClient, other: Client
) -> None:
    store: Any = client._store
    give_back = store.give_back
    refused: list[object] = []

    async def failing(*arguments: Any) -> Any:
        if len(refused) < 3:
            refused.append(arguments)
            raise error
        return await give_back(*arguments)

    lease = await client.get_lock("k").acquire()
    store.give_back = failing
    await lease.release()
    assert len(refused) == 3
    await takes_it(other)


@one_store
@pytest.mark.parametrize("error", ODD, ids=repr)
async def test_renewals_behind_odd_errors_are_made_again(
    error: BaseException, new_client: NewClient, other: Client
) -> None:
    client = new_client(lease_time=3 * LEASE)
    assert isinstance(client, StoreClient)
    leases = [await client.get_lock(name).acquire() for name in ("k", "l", "m")]
    spoilt = spoil(client, "renew", 3, error)
    await until(lambda: client.statistics().renewals >= 2)
    assert spoilt
    for lease in leases:
        lease.check()
        await lease.release()
    await takes_it(other)


@all_stores
@pytest.mark.parametrize("asked", [0, 1], ids=["first", "second"])
async def test_a_waiter_that_is_refused_leaves_nothing(
    asked: int, new_client: NewClient, client: StoreClient, other: Client
) -> None:
    """The store refuses its first question, or the one after it was told to wait."""
    held = await other.get_lock("k").acquire()
    store: Any = client._store
    ask, answers = store.ask, 0

    async def refusing(*arguments: Any) -> Any:
        nonlocal answers
        if answers == asked:
            raise BackendError("not allowed any more")
        answer = await ask(*arguments)
        answers += 1
        return answer

    store.ask = refusing
    with pytest.raises(BackendError, match="not allowed any more"):
        async with asyncio.timeout(SOON):
            waiter = asyncio.create_task(client.get_lock("k").acquire())
            await until(lambda: answers == asked)
            client._executor.carrier.ring_all()
            await waiter
    # The client is still open, so nothing has ended with it.
    await until(lambda: not client._executor.carrier.queues)
    await held.release()
    await takes_it(new_client())


@pytest_asyncio.fixture
async def proxy(backend: Backend) -> AsyncIterator[FaultProxy]:
    async with backend.proxy() as proxy:
        yield proxy


@all_stores
async def test_an_outage_leaves_nothing_to_undo(
    backend: Backend, proxy: FaultProxy, measured: Measured
) -> None:
    async with backend.client(proxy.url, lease_time=20 * LEASE) as client:
        assert isinstance(client, StoreClient)
        carrier = client._executor.carrier
        await client.ping()
        proxy.refuse()
        proxy.cut()
        most = 0

        async def ask(number: int) -> None:
            nonlocal most
            with pytest.raises(RedissonError):
                await client.get_lock(f"k{number}").acquire(timeout=0.2)
            most = max(most, len(carrier.queues))

        for _ in range(5):
            await asyncio.gather(*[ask(number) for number in range(100)])
        # What was never sent needs no undo: nothing is repeated until a lease would be over.
        await until(lambda: len(carrier.queues) <= 100)
        measured("most lines of 500 requests", most)
        proxy.pass_through()
        async with asyncio.timeout(SOON), client.get_lock("k"):
            pass
        await until(lambda: not carrier.queues)
