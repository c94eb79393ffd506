"""A client that closes: what is held is lost and told of, and all its closes end together."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import (
    AcquiredEvent,
    ClientClosedError,
    LeaseLostError,
    Listener,
    LostEvent,
    Redisson,
    ReleasedEvent,
)
from redisson_py.testing import FaultProxy
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.support.kinds import DISTINCT, KINDS
from tests.support.streams import answered
from tests.support.waiting import until, until_async

SINGLE = [name for name in DISTINCT if KINDS[name].servers == 1]


@pytest.mark.parametrize("on_lost", ["raise", "cancel"])
@pytest.mark.parametrize("name", SINGLE)
async def test_a_block_whose_client_closes_raises_lease_lost(
    clients: ClientFactory, name: str, on_lost: str
) -> None:
    client, entered = clients(on_lost=on_lost), asyncio.Event()
    go_on = asyncio.Event()
    leases: list[Any] = []

    async def work() -> None:
        async with KINDS[name].one(client) as lease:
            leases.append(lease)
            entered.set()
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                return

    working = asyncio.create_task(work())
    await entered.wait()
    await client.aclose()
    assert leases[0].lost
    assert leases[0].remaining == 0.0
    async with KINDS[name].one(clients()):
        go_on.set()
        with pytest.raises(LeaseLostError) as caught:
            await working
    assert caught.value.reason == "forced"


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


CLIENT_NAME = "closing"


async def loop_turns(count: int = 20) -> None:
    """Let everything go on that waits for nothing."""
    for _ in range(count):
        await asyncio.sleep(0)


async def is_connected(redis: Redis) -> bool:
    """Whether the server still has the client's connection."""
    rows: list[dict[str, Any]] = await redis.client_list()
    return any(row["name"] == CLIENT_NAME for row in rows)


async def gone(redis: Redis) -> bool:
    return not await is_connected(redis)


async def test_second_close_waits_for_the_first(
    clients: ClientFactory, proxy: ProxyFactory, redis: Redis
) -> None:
    link = await proxy()
    client = clients(link.url, client_name=CLIENT_NAME)
    await client.get_lock("k").acquire()
    link.hold()
    closing = [asyncio.create_task(client.aclose()) for _ in range(3)]
    await link.wait_until(lambda link: link.held > 0)
    await loop_turns()
    # The release has no answer yet.
    assert [task.done() for task in closing] == [False] * 3
    link.release_held()
    async with asyncio.timeout(30):
        await asyncio.gather(*closing)
    assert not await redis.exists("k")
    await until_async(lambda: gone(redis))
    await client.aclose()


async def closed_twice(
    clients: ClientFactory, link: FaultProxy
) -> tuple[Redisson, asyncio.Task[None], asyncio.Task[None]]:
    """Return a client that holds the lock `k`, and two closes that wait for its release."""
    client = clients(link.url, client_name=CLIENT_NAME)
    await client.get_lock("k").acquire()
    link.hold()
    first, second = (asyncio.create_task(client.aclose()) for _ in range(2))
    await link.wait_until(lambda link: link.held > 0)
    await loop_turns()
    assert not second.done()
    return client, first, second


async def test_cancelled_close_does_not_leave_the_second_hanging(
    clients: ClientFactory, link: FaultProxy, redis: Redis
) -> None:
    client, first, second = await closed_twice(clients, link)
    first.cancel()
    link.release_held()
    async with asyncio.timeout(30):
        await second
        await asyncio.gather(first, return_exceptions=True)
    await until_async(lambda: gone(redis))
    with pytest.raises(ClientClosedError):
        await answered(client)
    # If Redis got no release, the lease ends.
    await redis.delete("k")


async def test_close_inside_a_block_of_the_client(clients: ClientFactory, redis: Redis) -> None:
    """`async with client` closes at its end what another task closes already."""
    client: Redisson = clients(client_name=CLIENT_NAME)
    async with client:
        await client.get_lock("k").acquire()
        closing = asyncio.create_task(client.aclose())
        await asyncio.sleep(0)
    assert not await redis.exists("k")
    await closing
    await until_async(lambda: gone(redis))
