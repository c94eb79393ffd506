"""The contract of stores is all that the engine needs: a store of a page has whole locks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
import pytest_asyncio

from redisson_py import AcquireTimeoutError, LeaseLostError
from redisson_py._stores.contract import Renewal
from redisson_py.errors import NotHeldError
from tests.stores.in_a_dict import Dict, DictClient, DictStore
from tests.support.leases import renew_now
from tests.support.waiting import until


@pytest.fixture
def shared() -> Dict:
    return Dict()


@pytest_asyncio.fixture
async def two(shared: Dict) -> AsyncIterator[list[DictClient]]:
    """Two clients, which must leave nothing behind."""
    async with DictClient(shared) as one, DictClient(shared) as other:
        yield [one, other]
        for client in (one, other):
            await until(lambda client=client: not client._executor.carrier.queues)  # type: ignore[misc]
    assert not shared.holders
    assert not any(shared.waiters.values())


async def test_one_task_of_two_clients_is_inside_at_a_time(two: list[DictClient]) -> None:
    inside, tokens = 0, []

    async def work(client: DictClient) -> None:
        nonlocal inside
        async with client.get_fenced_lock("k") as lease:
            inside += 1
            await asyncio.sleep(0)
            assert inside == 1
            inside -= 1
            tokens.append(lease.token)

    await asyncio.gather(*[work(client) for _ in range(50) for client in two])
    assert len(set(tokens)) == 100


async def test_a_waiter_sleeps_until_the_bell_rings(shared: Dict, two: list[DictClient]) -> None:
    one, other = two
    async with one.get_lock("k"):
        waiting = asyncio.create_task(other.get_lock("k").acquire())
        await until(lambda: bool(shared.waiters["k"]))
        await until(lambda: other.statistics().waiters == 1)
        asked = shared.asks
    lease = await waiting
    assert shared.asks <= asked + 2, "it asks when it is rung for, and not before"
    await lease.release()
    with pytest.raises(NotHeldError):
        await lease.release()


async def test_who_holds_it_enters_it_again_and_others_time_out(two: list[DictClient]) -> None:
    one, other = two
    async with one.get_lock("k") as outer, one.get_lock("k") as inner:
        assert outer.owner == inner.owner
        assert await other.get_lock("k").try_acquire() is None
        with pytest.raises(AcquireTimeoutError):
            await other.get_lock("k").acquire(timeout=0.05)


async def test_a_lost_lease_cancels_its_block(shared: Dict, two: list[DictClient]) -> None:
    one, other = two
    with pytest.raises(LeaseLostError) as lost:
        async with one.get_lock("k"):
            assert await other.get_lock("k").force_release()
            renew_now(cast("Any", one))
            await asyncio.Event().wait()
    assert lost.value.reason == "taken"


async def test_a_cancelled_waiter_leaves_nothing(shared: Dict, two: list[DictClient]) -> None:
    one, other = two
    async with one.get_lock("k"):
        waiting = asyncio.create_task(other.get_lock("k").acquire())
        await until(lambda: bool(shared.waiters["k"]))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await until(lambda: not shared.waiters["k"])


async def test_an_extended_lease_is_relied_on_for_as_long_as_the_store_keeps_it(
    two: list[DictClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    renew = DictStore.renew

    async def short(
        store: DictStore, batch: Sequence[Renewal], deadline: float
    ) -> Sequence[float | None]:
        return await renew(store, [replace(each, lease=1.0) for each in batch], deadline)

    monkeypatch.setattr(DictStore, "renew", short)
    lease = await two[0].get_lock("k").acquire()
    await lease.extend(60)
    assert lease.remaining <= 1
    await lease.release()
