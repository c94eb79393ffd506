"""What a listener is told of locks that are made of others, and of their members."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import (
    AcquiredEvent,
    LeaseLostError,
    Redisson,
    WaitEndedEvent,
)
from redisson_py._time import now
from redisson_py.composite.multi_lock import MultiLock
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ServerFactory
from tests.support.leases import renew_now
from tests.support.recorder import Recorder
from tests.support.streams import is_single
from tests.support.waiting import until, until_listening

MULTI = "multi lock a, b"
RED = "red lock k"


@pytest.fixture
def told() -> Iterator[Recorder]:
    recorder = Recorder()
    yield recorder
    recorder.assert_paired()


def multi(client: Redisson) -> MultiLock:
    return client.get_multi_lock(client.get_lock("a"), client.get_lock("b"))


async def test_a_multi_lock_and_its_members(clients: ClientFactory, told: Recorder) -> None:
    client = clients(listener=told)
    async with multi(client) as lease:
        pass
    story = told.story
    if not is_single(client):
        # Two nodes answer in any order.
        story = [*sorted(story[:2]), story[2], *sorted(story[3:5], reverse=True), story[5]]
    assert story == [
        *["acquired lock a", "acquired lock b", f"acquired {MULTI}"],
        *["released lock b", "released lock a", f"released {MULTI}"],
    ]
    assert {event.owner for event in told.events if event.kind == "multi lock"} == {lease.owner}
    statistics = client.statistics()
    assert (statistics.acquires, statistics.waits, statistics.losses) == (2, 0, 0)


@pytest.mark.usefixtures("old_busy_counts")
@pytest.mark.parametrize("busy", ["a", "b"])
async def test_the_wait_of_a_multi_lock_is_told_once(
    clients: ClientFactory, told: Recorder, busy: str
) -> None:
    client, other = clients(listener=told), clients()
    lease = await other.get_lock(busy).acquire()
    lock = multi(client)
    assert await lock.try_acquire() is None
    began = now()
    assert await lock.try_acquire(timeout=0.6) is None
    took = now() - began
    waiting = asyncio.create_task(lock.acquire())
    await until(lambda: sum("waits" in words for words in told.story) == 2)
    await until_listening(client)
    await lease.release()
    mine = await waiting
    await mine.release()
    of_multi = [words for words in told.story if words.startswith(("waits", "wait ended"))]
    assert of_multi == [
        *[f"waits for {MULTI}", f"wait ended {MULTI}: timeout"],
        *[f"waits for {MULTI}", f"wait ended {MULTI}: granted"],
    ]
    ended = told.of(WaitEndedEvent)
    (acquired,) = [event for event in told.of(AcquiredEvent) if event.kind == "multi lock"]
    assert acquired.waited == ended[1].waited
    assert 0.1 <= ended[0].waited <= took
    counts = Counter(words.split()[0] for words in told.story)
    assert counts["acquired"] == counts["released"]
    statistics = client.statistics()
    assert (statistics.waits, statistics.timeouts) == (2, 1)
    assert statistics.waited == pytest.approx(sum(event.waited for event in ended))


async def test_a_multi_lock_that_loses_a_member(
    clients: ClientFactory, told: Recorder, redis: Redis
) -> None:
    client = clients(listener=told)
    with pytest.raises(LeaseLostError):
        async with multi(client):
            told.events.clear()
            await redis.delete("b")
            renew_now(client)
            await asyncio.sleep(10)
    assert told.story == ["lost lock b: taken", f"lost {MULTI}: taken", "released lock a"]
    assert client.statistics().losses == client.statistics().losses_by_reason["taken"] == 1


class Three:
    """Clients of three servers; the listener of the first hears of the red lock itself."""

    def __init__(self, clients: list[Redisson], told: list[Recorder]) -> None:
        self.clients = clients
        self.told = told
        self.lock = clients[0].get_red_lock(*[client.get_lock("k") for client in clients])
        first = self.lock._ownership.context
        (self.first,) = [n for n, client in enumerate(clients) if client._context is first]


@pytest_asyncio.fixture
async def three(server_factory: ServerFactory, clients: ClientFactory) -> AsyncIterator[Three]:
    told = [Recorder() for _ in range(3)]
    made = [clients(url=(await server_factory()).url, listener=each) for each in told]
    for client in made:
        # A first connection may take a busy machine longer than a red lock waits for one server.
        await client.ping()
    yield Three(made, told)


async def test_a_red_lock_and_its_members(three: Three) -> None:
    async with three.lock:
        pass
    # The last server may have answered after the quorum.
    await until(lambda: all("released lock k" in told.story for told in three.told))
    member = ["acquired lock k", "released lock k"]
    for number, told in enumerate(three.told):
        if number != three.first:
            assert told.story == member
    told = three.told[three.first]
    assert [words for words in told.story if f" {RED}" not in words] == member
    assert [words for words in told.story if words not in member] == [
        *[f"acquired {RED}", f"released {RED}"]
    ]
    assert [client.statistics().acquires for client in three.clients] == [1, 1, 1]
