"""A client that closes while something is held reports the loss to every holder."""

from __future__ import annotations

import asyncio
import gc

import pytest

from redisson_py import (
    AcquiredEvent,
    LeaseLostError,
    Listener,
    LostEvent,
    ReleasedEvent,
)
from tests.fixtures.client import ClientFactory
from tests.support.kinds import DISTINCT, KINDS
from tests.support.waiting import until

SINGLE = [name for name in DISTINCT if KINDS[name].servers == 1]


@pytest.mark.parametrize("on_lost", ["raise", "cancel"])
@pytest.mark.parametrize("name", SINGLE)
async def test_a_block_whose_client_closes_raises_lease_lost(
    clients: ClientFactory, name: str, on_lost: str
) -> None:
    client, entered = clients(on_lost=on_lost), asyncio.Event()
    go_on = asyncio.Event()

    async def work() -> None:
        async with KINDS[name].one(client):
            entered.set()
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                return

    working = asyncio.create_task(work())
    await entered.wait()
    await client.aclose()
    async with KINDS[name].one(clients()):
        go_on.set()
        with pytest.raises(LeaseLostError) as caught:
            await working
    assert caught.value.reason == "forced"


@pytest.mark.parametrize("name", SINGLE)
async def test_a_lease_whose_client_closes_is_lost(clients: ClientFactory, name: str) -> None:
    client = clients()
    lease = await KINDS[name].one(client).acquire()
    await client.aclose()
    async with KINDS[name].one(clients()):
        assert lease.lost
        assert lease.remaining == 0.0
        with pytest.raises(LeaseLostError, match="forced"):
            lease.check()
        with pytest.raises(LeaseLostError):
            await lease.release()


# The end of each acquisition is reported once, also while its lease is still referenced.


class Ends(Listener):
    def __init__(self) -> None:
        self.acquired_owners: list[str] = []
        self.ended: list[str] = []

    def acquired(self, event: AcquiredEvent, /) -> None:
        self.acquired_owners.append(event.owner)

    def released(self, event: ReleasedEvent, /) -> None:
        self.ended.append("released")

    def lost(self, event: LostEvent, /) -> None:
        self.ended.append(event.reason)


async def test_an_abandoned_lease_that_was_lost_before_is_told_once(
    clients: ClientFactory,
) -> None:
    ends = Ends()
    client = clients(lease_time=3, listener=ends)
    lock = client.get_lock("k")

    async def leave_both() -> None:
        await lock.acquire()
        inner = await lock.acquire(lease_time=0.5)
        await inner.wait_lost()

    await asyncio.create_task(leave_both())
    gc.collect()
    await until(lambda: not client._watchdog.holds)
    assert len(ends.acquired_owners) == 2
    assert ends.ended == ["ended", "abandoned"]
    assert dict(client.statistics().losses_by_reason)["abandoned"] == 1


@pytest.mark.parametrize("how", ["close", "lose"])
async def test_a_lease_that_became_garbage_is_told_when_its_hold_ends(
    clients: ClientFactory, how: str
) -> None:
    ends = Ends()
    client = clients(lease_time=3, listener=ends)
    kept: list[object] = []

    async def leave() -> None:
        kept.append(await client.get_lock("k").acquire())

    await asyncio.create_task(leave())
    (hold,) = client._watchdog.holds
    await until(lambda: hold._forgotten is not None)
    kept.clear()
    gc.collect()
    if how == "close":
        await client.aclose()
    else:
        client._watchdog.lose(hold, "expired")
    assert len(ends.ended) == len(ends.acquired_owners) == 1
