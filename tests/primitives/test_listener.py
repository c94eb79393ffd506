"""What a listener is told: every event, in order; of composites and their members too."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import (
    AcquiredEvent,
    AcquireTimeoutError,
    LeaseLostError,
    LostEvent,
    Redisson,
    ReleasedEvent,
    WaitEndedEvent,
    WaitStartedEvent,
)
from redisson_py._time import now
from redisson_py.composite.multi_lock import MultiLock
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ServerFactory
from tests.support.kinds import KINDS
from tests.support.leases import renew_now
from tests.support.recorder import Recorder
from tests.support.streams import is_single
from tests.support.waiting import until, until_listening, until_waiting

Get = Callable[[Redisson], Any]


def for_kinds(*names: str) -> pytest.MarkDecorator:
    """Run a test over kinds; it gets what makes one, and what events call it."""
    words = {"expirable_semaphore": "permit expirable semaphore"}
    each = [
        (partial(KINDS[name].one, name="k"), words.get(name, name.replace("_", " ")))
        for name in names
    ]
    return pytest.mark.parametrize(("get", "kind"), each, ids=names)


every_kind = for_kinds(
    *[name for name, kind in KINDS.items() if kind.reentrant and not kind.composite]
)

#: Only one can have them; and the code that waits for them differs.
every_queued = for_kinds("lock", "fair_lock", "semaphore", "expirable_semaphore")


@pytest_asyncio.fixture(autouse=True)
async def no_semaphore_left(redis: Redis) -> AsyncIterator[None]:
    """A semaphore stays for ever."""
    yield
    await redis.delete("k", "{k}:timeout")


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    recorder = Recorder()
    yield recorder
    recorder.assert_paired()


@pytest.fixture
def client(clients: ClientFactory, recorder: Recorder) -> Redisson:
    return clients(listener=recorder)


@every_kind
@pytest.mark.parametrize("timeout", [None, 10])
async def test_an_uncontended_pair(
    client: Redisson, recorder: Recorder, get: Get, kind: str, timeout: int | None
) -> None:
    source, began = get(client), now()
    async with source.hold(timeout=timeout) if timeout else source as lease:
        owner, token = lease.owner, lease.token
        assert recorder.events == [AcquiredEvent("k", kind, owner, token, 0.0)]
    assert (token is not None) == (kind == "fenced lock")
    _, released = recorder.events
    assert released == ReleasedEvent("k", kind, owner, token, released.held_for)
    assert 0 < released.held_for <= now() - began
    assert client.statistics().acquires == 1
    assert client.statistics().waits == 0


@every_queued
async def test_a_wait_for_another_client(
    client: Redisson, clients: ClientFactory, recorder: Recorder, get: Get, kind: str
) -> None:
    lease = await get(clients()).acquire()
    began = now()
    waiting = asyncio.create_task(get(client).acquire())
    await until_listening(client)
    assert recorder.events == [WaitStartedEvent("k", kind)]
    await asyncio.sleep(0.05)
    await lease.release()
    mine = await waiting
    await mine.release()
    waited = recorder.events[1].waited
    assert 0.05 <= waited <= now() - began
    assert recorder.events[1:] == [
        WaitEndedEvent("k", kind, waited, "granted"),
        AcquiredEvent("k", kind, mine.owner, mine.token, waited),
        ReleasedEvent("k", kind, mine.owner, mine.token, recorder.events[3].held_for),
    ]
    statistics = client.statistics()
    assert (statistics.acquires, statistics.waits, statistics.timeouts) == (1, 1, 0)
    assert statistics.waited == statistics.longest_wait == waited
    # Free now: it goes the way of one that has waited, and does not wait.
    async with get(client):
        assert recorder.story[4:] == [f"acquired {kind} k"]
    assert client.statistics().waits == 1


@every_queued
async def test_holds_that_are_passed_in_the_process(
    client: Redisson, recorder: Recorder, get: Get, kind: str
) -> None:
    source = get(client)

    async def work() -> None:
        async with source:
            await asyncio.sleep(0)

    async with source:
        tasks = [asyncio.create_task(work()) for _ in range(3)]
        await until_waiting(client, 3)
    await asyncio.gather(*tasks)
    assert recorder.story.count(f"acquired {kind} k") == 4
    assert recorder.story.count(f"released {kind} k") == 4
    assert recorder.story[:4] == [f"acquired {kind} k", *[f"waits for {kind} k"] * 3]
    assert recorder.story.count(f"wait ended {kind} k: granted") == 3
    waits = [event.waited for event in recorder.of(WaitEndedEvent)]
    assert [event.waited for event in recorder.of(AcquiredEvent)] == [0.0, *waits]
    statistics = client.statistics()
    assert (statistics.acquires, statistics.waits) == (4, 3)
    assert statistics.waited == pytest.approx(sum(waits))
    assert statistics.longest_wait == max(waits)
    held = False
    for words in recorder.story:
        # One after the other.
        if words.startswith(("acquired", "released")):
            assert held != words.startswith("acquired")
            held = words.startswith("acquired")


@pytest.mark.usefixtures("old_busy_counts")
@every_queued
@pytest.mark.parametrize("here", [True, False])
async def test_waits_that_end_otherwise(
    client: Redisson, clients: ClientFactory, recorder: Recorder, get: Get, kind: str, here: bool
) -> None:
    """For another task of this client, or for another client: time is up, or cancelled."""
    lease = await get(client if here else clients()).acquire()
    recorder.events.clear()
    source = get(client)

    async def other_task() -> None:
        assert await source.try_acquire() is None
        assert recorder.events == [], "asking once is no wait"
        assert await source.try_acquire(timeout=0.5) is None
        with pytest.raises(AcquireTimeoutError):
            await source.acquire(timeout=0.5)

    await asyncio.create_task(other_task())
    for words in ("acquire", "hold"):
        waiting = asyncio.create_task(getattr(Waits, words)(source))
        await until_waiting(client, 1)
        await until(lambda: recorder.story and recorder.story[-1].startswith("waits"))
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
    assert recorder.story == [
        words
        for outcome in ("timeout", "timeout", "cancelled", "cancelled")
        for words in (f"waits for {kind} k", f"wait ended {kind} k: {outcome}")
    ]
    assert all(event.waited >= 0.09 for event in recorder.of(WaitEndedEvent)[:2])
    statistics = client.statistics()
    assert (statistics.waits, statistics.timeouts) == (4, 2)
    assert statistics.acquires == here
    await lease.release()


class Waits:
    @staticmethod
    async def acquire(source: Any) -> None:
        await source.acquire()

    @staticmethod
    async def hold(source: Any) -> None:
        async with source:
            raise AssertionError


async def test_each_end_names_the_acquisition_that_it_ends(
    client: Redisson, recorder: Recorder
) -> None:
    lock = client.get_lock("k")
    outer, inner, last = [await lock.acquire() for _ in range(3)]
    first, second, third = [event.acquisition for event in recorder.of(AcquiredEvent)]
    assert len({first, second, third}) == 3
    for lease in (outer, last, inner):
        await lease.release()
    assert [event.acquisition for event in recorder.of(ReleasedEvent)] == [first, third, second]


@every_kind
async def test_losses_with_their_reasons(
    clients: ClientFactory, recorder: Recorder, get: Get, kind: str, redis: Redis
) -> None:
    client = clients(listener=recorder, on_lost="raise")
    source = get(client)
    lease = await source.acquire()
    for key in await redis.keys("*k*"):
        await redis.delete(key)
    renew_now(client)
    await lease.wait_lost()
    owner, token = lease.owner, lease.token
    held_for = recorder.events[1].held_for
    assert recorder.events == [
        AcquiredEvent("k", kind, owner, token, 0.0),
        LostEvent("k", kind, owner, token, held_for, "taken"),
    ]
    with pytest.raises(LeaseLostError) as caught:
        await lease.release()
    assert caught.value.held_for == held_for
    assert len(recorder.events) == 2
    assert client.statistics().losses == 1
    assert client.statistics().losses_by_reason["taken"] == 1


@pytest.mark.usefixtures("old_busy_counts")
async def test_latch_and_barrier_tell_of_waits_only(client: Redisson, recorder: Recorder) -> None:
    latch = client.get_latch("l", 1)
    waiting = [asyncio.create_task(latch.wait()) for _ in range(2)]
    await until_listening(client)
    await latch.count_down()
    await asyncio.gather(*waiting)
    await latch.wait()
    assert sorted(recorder.story) == [
        *["wait ended latch l: granted"] * 2,
        *["waits for latch l"] * 2,
    ]
    assert await latch.try_set_count(1)
    recorder.events.clear()
    with pytest.raises(AcquireTimeoutError):
        await latch.wait(timeout=0.5)
    with pytest.raises(AcquireTimeoutError):
        await latch.wait(timeout=0)
    assert recorder.story == ["waits for latch l", "wait ended latch l: timeout"]
    await latch.delete()
    recorder.events.clear()
    barrier = client.get_barrier("b", 2)
    first = asyncio.create_task(barrier.wait())
    await until_listening(client)
    await barrier.wait()
    await first
    assert recorder.story == ["waits for barrier b", "wait ended barrier b: granted"]
    statistics = client.statistics()
    assert (statistics.waits, statistics.timeouts, statistics.acquires) == (4, 1, 0)


class Raises(Recorder):
    def _keep(self, event: object, kind: type) -> None:
        super()._keep(event, kind)
        raise asyncio.CancelledError if len(self.events) % 2 else ZeroDivisionError


@every_kind
async def test_callers_do_not_feel_the_errors_of_a_listener(
    clients: ClientFactory, get: Get, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Raises()
    client = clients(listener=recorder)
    source = get(client)

    async def work() -> None:
        async with source:
            await asyncio.sleep(0)

    await asyncio.gather(*[work() for _ in range(20)])
    assert (
        recorder.story.count(f"acquired {kind} k")
        == recorder.story.count(f"released {kind} k")
        == 20
    )
    errors = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(errors) == len({type(event) for event in recorder.events})


MULTI = "multi lock a, b"

RED = "red lock k"


def multi(client: Redisson) -> MultiLock:
    return client.get_multi_lock(client.get_lock("a"), client.get_lock("b"))


async def test_a_multi_lock_and_its_members(clients: ClientFactory, recorder: Recorder) -> None:
    client = clients(listener=recorder)
    async with multi(client) as lease:
        pass
    story = recorder.story
    if not is_single(client):
        # Two nodes answer in any order.
        story = [*sorted(story[:2]), story[2], *sorted(story[3:5], reverse=True), story[5]]
    assert story == [
        *["acquired lock a", "acquired lock b", f"acquired {MULTI}"],
        *["released lock b", "released lock a", f"released {MULTI}"],
    ]
    assert {event.owner for event in recorder.events if event.kind == "multi lock"} == {lease.owner}
    statistics = client.statistics()
    assert (statistics.acquires, statistics.waits, statistics.losses) == (2, 0, 0)


@pytest.mark.usefixtures("old_busy_counts")
@pytest.mark.parametrize("busy", ["a", "b"])
async def test_the_wait_of_a_multi_lock_is_reported_once(
    clients: ClientFactory, recorder: Recorder, busy: str
) -> None:
    client, other = clients(listener=recorder), clients()
    lease = await other.get_lock(busy).acquire()
    lock = multi(client)
    assert await lock.try_acquire() is None
    began = now()
    assert await lock.try_acquire(timeout=0.6) is None
    took = now() - began
    waiting = asyncio.create_task(lock.acquire())
    await until(lambda: sum("waits" in words for words in recorder.story) == 2)
    await until_listening(client)
    await lease.release()
    mine = await waiting
    await mine.release()
    of_multi = [words for words in recorder.story if words.startswith(("waits", "wait ended"))]
    assert of_multi == [
        *[f"waits for {MULTI}", f"wait ended {MULTI}: timeout"],
        *[f"waits for {MULTI}", f"wait ended {MULTI}: granted"],
    ]
    ended = recorder.of(WaitEndedEvent)
    (acquired,) = [event for event in recorder.of(AcquiredEvent) if event.kind == "multi lock"]
    assert acquired.waited == ended[1].waited
    assert 0.1 <= ended[0].waited <= took
    counts = Counter(words.split()[0] for words in recorder.story)
    assert counts["acquired"] == counts["released"]
    statistics = client.statistics()
    assert (statistics.waits, statistics.timeouts) == (2, 1)
    assert statistics.waited == pytest.approx(sum(event.waited for event in ended))


async def test_a_multi_lock_that_nobody_can_release(
    clients: ClientFactory, recorder: Recorder
) -> None:
    client = clients(listener=recorder)

    async def leave() -> None:
        await multi(client).acquire()

    await asyncio.create_task(leave())

    def collected() -> bool:
        gc.collect()
        renew_now(client)
        return len(recorder.events) == 6

    await until(collected)
    assert sorted(recorder.story[3:]) == [
        *["lost lock a: abandoned", "lost lock b: abandoned", f"lost {MULTI}: abandoned"]
    ]
    assert client.statistics().losses_by_reason["abandoned"] == 2


class Three:
    """Clients of three servers; the listener of the first hears of the red lock itself."""

    def __init__(self, clients: list[Redisson], recorders: list[Recorder]) -> None:
        self.clients = clients
        self.recorders = recorders
        self.lock = clients[0].get_red_lock(*[client.get_lock("k") for client in clients])
        first = self.lock._ownership.context
        (self.first,) = [n for n, client in enumerate(clients) if client._context is first]


@pytest_asyncio.fixture
async def three(server_factory: ServerFactory, clients: ClientFactory) -> AsyncIterator[Three]:
    recorders = [Recorder() for _ in range(3)]
    made = [clients(url=(await server_factory()).url, listener=each) for each in recorders]
    for client in made:
        # A first connection may take a busy machine longer than a red lock waits for one server.
        await client.ping()
    yield Three(made, recorders)


async def test_a_red_lock_and_its_members(three: Three) -> None:
    async with three.lock:
        pass
    # The last server may have answered after the quorum.
    await until(lambda: all("released lock k" in recorder.story for recorder in three.recorders))
    member = ["acquired lock k", "released lock k"]
    for number, recorder in enumerate(three.recorders):
        if number != three.first:
            assert recorder.story == member
    recorder = three.recorders[three.first]
    assert [words for words in recorder.story if f" {RED}" not in words] == member
    assert [words for words in recorder.story if words not in member] == [
        *[f"acquired {RED}", f"released {RED}"]
    ]
    assert [client.statistics().acquires for client in three.clients] == [1, 1, 1]
