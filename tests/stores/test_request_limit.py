"""Which request gets one of a few connections: renewals first. On real databases, and by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from redisson_py._stores.contract import Renewal
from redisson_py._stores.request_limit import RequestLimit
from redisson_py._time import now
from tests.stores.backends import Backend
from tests.stores.databases import soon
from tests.support.any_client import Client
from tests.support.waiting import until


@pytest.mark.parametrize("backend", ["postgres", "mysql"], indirect=True)
async def test_a_renewal_goes_before_all_that_wait(backend: Backend, client: Client) -> None:
    """Behind them it would come too late: nothing but many tasks at once would lose every hold."""
    lease = await client.get_lock("k").acquire()
    store: Any = client._store  # type: ignore[union-attr]
    hold = (await store.look("k", soon())).holder
    assert hold is not None
    limit: RequestLimit = store._connections._request_limit
    taken, order = 0, []
    while limit.free:
        await limit.take(soon())
        taken += 1

    async def note(what: str, call: Awaitable[object]) -> None:
        await call
        order.append(what)

    calls = [asyncio.create_task(note("ping", store.ping(soon(30)))) for _ in range(20)]
    await until(lambda: len(limit._others) == 20)
    renewal = Renewal("k", hold.owner, hold.token, 3)
    calls.append(asyncio.create_task(note("renewal", store.renew([renewal], soon(30)))))
    await until(lambda: bool(limit._urgent))
    limit.end()
    await asyncio.gather(*calls)
    assert order == ["renewal"] + 20 * ["ping"]
    for _ in range(taken - 1):
        limit.end()
    await lease.release()


@pytest.mark.parametrize("backend", ["postgres", "mysql"], indirect=True)
async def test_a_request_keeps_its_position_while_it_waits(
    backend: Backend, client: Client
) -> None:
    """It waits for a turn here, so there is no server that might be silent."""
    await client.ping()
    store: Any = client._store  # type: ignore[union-attr]
    limit: RequestLimit = store._connections._request_limit
    taken, deadline = 0, soon(5)
    while limit.free:
        await limit.take(deadline)
        taken += 1
    calls = [asyncio.create_task(store.ping(deadline))]
    await until(lambda: len(limit._others) == 1)
    calls.append(asyncio.create_task(store.ping(soon(30))))
    await until(lambda: len(limit._others) == 2)
    first = limit._others[0]
    # Had the server been asked, another connection would be tried by now.
    await until(lambda: now() > deadline - 2)
    assert limit._others[0] is first
    for _ in range(taken):
        limit.end()
    await asyncio.gather(*calls)


async def test_a_wait_that_is_not_admitted_ends_in_time() -> None:
    limit = RequestLimit(1)
    await limit.take(soon())
    with pytest.raises(TimeoutError):
        await limit.take(soon(0.01))
    assert not limit._others
    limit.end()
    assert limit._free == 1


async def test_requests_are_admitted_in_order_and_urgent_ones_first() -> None:
    limit, order = RequestLimit(2), []

    async def work(name: str, urgent: bool = False) -> None:
        await limit.take(soon(), urgent=urgent)
        order.append(name)
        await asyncio.sleep(0)
        limit.end()

    names = [("a", False), ("b", False), ("c", False), ("d", False), ("e", True), ("f", True)]
    await asyncio.gather(*(work(*each) for each in names))
    assert order == ["a", "b", "e", "f", "c", "d"]
    assert limit._free == 2


@pytest.mark.parametrize("when", ["it waits", "it got one", "it is cancelled and one ends"])
async def test_a_cancelled_wait_costs_no_admission(when: str) -> None:
    limit = RequestLimit(1)
    await limit.take(soon())
    first = asyncio.create_task(limit.take(soon()))
    second = asyncio.create_task(limit.take(soon()))
    await until(lambda: len(limit._others) == 2)
    if when == "it got one":
        limit.end()
        first.cancel()
    else:
        first.cancel()
        if when == "it waits":
            await asyncio.sleep(0)
            assert len(limit._others) == 1
        limit.end()
    with pytest.raises(asyncio.CancelledError):
        await first
    await second
    assert not limit._others
    limit.end()
    assert limit._free == 1


async def test_a_wait_that_is_closed_makes_no_iteration() -> None:
    """Its event loop was closed before it was done; another waits before it."""
    limit = RequestLimit(1)
    await limit.take(soon())
    first = asyncio.create_task(limit.take(soon()))
    await until(lambda: len(limit._others) == 1)
    first_waiting = limit._others[0]
    waiting = limit.take(soon())
    waiting.send(None)
    waiting.close()
    assert list(limit._others) == [first_waiting]
    assert not first_waiting.done()
    limit.end()
    await first
