"""A reply is lost after a script of a latch or barrier ran: the effect is exactly once.

Nobody owns what these scripts change, so nothing but their receipts can tell a repetition.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import AcquireTimeoutError, BrokenBarrierError, Redisson
from redisson_py.barriers.barrier import CyclicBarrier
from redisson_py.barriers.latch import CountDownLatch
from redisson_py.testing import EmbeddedServer, FaultProxy
from tests.faults.conftest import LOSSES, Loss
from tests.fixtures.client import ClientFactory
from tests.support.busy_server import busy_with_a_script
from tests.support.latch_and_barrier import get_barrier, get_latch
from tests.support.lost_reply_calls import notice_soon
from tests.support.stragglers import Stragglers, lose_and_keep
from tests.support.streams import answered, stream_of
from tests.support.waiting import until, until_async, until_listening, until_waiting

pytestmark = pytest.mark.heart


every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


@pytest_asyncio.fixture
async def far(
    clients: ClientFactory, link: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> Redisson:
    """A client behind the proxy, connected, which soon notices that a reply is lost."""
    notice_soon(monkeypatch, 0.2)
    client = clients(link.url)
    await answered(client)
    return client


@pytest_asyncio.fixture
async def latch(client: Redisson) -> AsyncIterator[CountDownLatch]:
    """The latch of a client without trouble, deleted in the end."""
    latch = get_latch(client)
    yield latch
    await latch.delete()


@pytest_asyncio.fixture
async def barrier(client: Redisson) -> AsyncIterator[CyclicBarrier]:
    """The barrier of two of a client without trouble, reset in the end."""
    barrier = get_barrier(client, parties=2)
    yield barrier
    await barrier.reset()


@dataclass(frozen=True)
class Call:
    """One call of a latch.

    Attributes:
        make: Makes it.
        answer: What it returns.
        left: What is left of the count then.
        count: To what it is set before, if not 0.
        brought: The count that its latch object brings.
    """

    make: Callable[[CountDownLatch], Awaitable[object]]
    answer: object
    left: int
    count: int = 3
    brought: int | None = None


CALLS = {
    "count_down": Call(lambda latch: latch.count_down(), 2, 2),
    "count_down of several": Call(lambda latch: latch.count_down(2), 1, 1),
    "count_down that brings the count": Call(
        lambda latch: latch.count_down(), 2, 2, count=0, brought=3
    ),
    "count_down to zero": Call(lambda latch: latch.count_down(7), 0, 0),
    "try_set_count": Call(lambda latch: latch.try_set_count(5), True, 5, count=0),
    "try_set_count with an end": Call(
        lambda latch: latch.try_set_count(5, expire_in=600), True, 5, count=0
    ),
    "try_set_count in vain": Call(lambda latch: latch.try_set_count(5), False, 3),
    "delete": Call(lambda latch: latch.delete(), True, 0),
    "count": Call(lambda latch: latch.count(), 3, 3),
    "wait": Call(lambda latch: latch.wait(10), None, 0, count=0),
}
every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


@every_loss
@every_call
async def test_a_call_of_a_latch_is_carried_out_once(
    call: Call, loss: Loss, far: Redisson, link: FaultProxy, latch: CountDownLatch
) -> None:
    if call.count:
        await latch.try_set_count(call.count)
    mine = get_latch(far, count=call.brought)
    async with loss(link):
        assert await call.make(mine) == call.answer
    assert await latch.count() == call.left
    assert far.statistics().connections >= 2


async def test_a_repetition_does_not_start_another_round(
    far: Redisson, link: FaultProxy, latch: CountDownLatch
) -> None:
    """The count was set, counted down to nothing, and then the first question comes again."""
    mine = get_latch(far, count=1)
    link.refuse()
    link.cut_after_execution(b"EVALSHA")
    waiting = asyncio.create_task(mine.wait(10))
    await link.wait_until(lambda link: link.triggered == 1)
    assert await latch.count_down() == 0
    link.pass_through()
    await waiting
    assert await latch.count() == 0


async def test_a_first_count_is_remembered_as_long_as_it_may_be_repeated(
    client: Redisson, redis: Redis, latch: CountDownLatch
) -> None:
    waiting = asyncio.create_task(get_latch(client, count=1).wait(600))
    await until_async(lambda: _is_left(latch, 1))
    (start,) = await redis.keys("*:receipt:*")
    assert await redis.pttl(start) > 600_000
    await latch.count_down()
    await waiting


@pytest.mark.parametrize("name", ["count_down", "try_set_count", "delete"])
async def test_a_call_that_was_asked_twice_comes_once_more(
    name: str, far: Redisson, link: FaultProxy, latch: CountDownLatch, url_of_k: str
) -> None:
    call = CALLS[name]
    if call.count:
        await latch.try_set_count(call.count)
    sent = lose_and_keep(link)
    await call.make(get_latch(far))
    await latch.delete()
    await latch.try_set_count(9)
    async with Stragglers(url_of_k) as late:
        await late.deliver(sent * 2)
    assert await latch.count() == 9


async def test_calls_answered_with_busy_are_all_carried_out_in_any_order(
    clients: ClientFactory, own_server: EmbeddedServer
) -> None:
    """Numbers under one key, as one client and object would have it, drop the older of two."""
    client = clients(own_server.url, command_timeout=30)
    latch = get_latch(client)
    await latch.try_set_count(100)
    async with busy_with_a_script(own_server):
        counting = [asyncio.create_task(latch.count_down()) for _ in range(50)]
        await until(partial(_are_sent_back, client, 50))
    assert sorted(await asyncio.gather(*counting)) == [*range(50, 100)]
    assert await latch.count() == 50


async def test_calls_that_are_cancelled_while_they_are_sent_back_all_count(
    clients: ClientFactory, own_server: EmbeddedServer
) -> None:
    """Each keeps its receipt to itself: with that of another, the later would hide the earlier."""
    client = clients(own_server.url, command_timeout=30)
    latch = get_latch(client)
    await latch.try_set_count(100)
    async with busy_with_a_script(own_server):
        for number in range(1, 21):
            counting = asyncio.create_task(latch.count_down())
            await until(partial(_are_sent_back, client, number))
            counting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await counting
    await until_async(lambda: _is_left(latch, 80))
    assert await latch.count_down() == 79


def _are_sent_back(client: Redisson, count: int) -> bool:
    refused = [call for call in stream_of(client)._under_way() if call.errors]
    return len(refused) == count


async def _is_left(latch: CountDownLatch, count: int) -> bool:
    return await latch.count() == count


# The barrier.


@every_loss
async def test_the_last_arrival_repeated_is_none_of_the_next_round(
    loss: Loss, far: Redisson, link: FaultProxy, barrier: CyclicBarrier, client: Redisson
) -> None:
    waiting = asyncio.create_task(barrier.wait())
    await until_listening(client)
    async with loss(link):
        assert await get_barrier(far, parties=2).wait() == 1
    assert await waiting == 0
    assert await barrier.n_waiting() == 0
    assert not await barrier.broken()


@every_loss
async def test_an_arrival_repeated_is_one_party(
    loss: Loss, far: Redisson, link: FaultProxy, client: Redisson
) -> None:
    barrier, mine = (get_barrier(each, parties=3) for each in (client, far))
    async with loss(link):
        waiting = asyncio.create_task(mine.wait())
        await until(lambda: far.statistics().connections >= 2)
        await until_listening(far)
    assert await barrier.n_waiting() == 1
    others = await asyncio.gather(barrier.wait(10), barrier.wait(10))
    assert sorted([await waiting, *others]) == [0, 1, 2]


@every_loss
async def test_a_look_at_the_end_that_is_repeated_tells_the_same(
    loss: Loss, far: Redisson, link: FaultProxy, barrier: CyclicBarrier
) -> None:
    waiting = asyncio.create_task(get_barrier(far, parties=2).wait())
    await until_listening(far)
    async with loss(link):
        assert await barrier.wait() == 1
        assert await waiting == 0
    assert not await barrier.broken()


async def test_leaving_repeated_breaks_it_once(
    far: Redisson, link: FaultProxy, barrier: CyclicBarrier
) -> None:
    leaving = asyncio.create_task(get_barrier(far, parties=2).wait())
    await until_listening(far)
    link.refuse()
    link.cut_after_execution(b"EVALSHA")
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    await link.wait_until(lambda link: link.triggered == 1)
    assert await barrier.broken()
    await barrier.reset()
    waiting = asyncio.create_task(barrier.wait(10))
    await until_async(lambda: _waiting_at(barrier, 1))
    link.pass_through()
    await answered(far)
    assert not await barrier.broken()
    assert await barrier.wait(10) == 1
    assert await waiting == 0


@pytest.mark.parametrize("verb", ["abort", "reset"])
async def test_a_repeated_command_spares_parties_that_came_since(
    verb: str, far: Redisson, link: FaultProxy, barrier: CyclicBarrier, client: Redisson
) -> None:
    link.refuse()
    link.cut_after_execution(b"EVALSHA")
    changing = asyncio.create_task(getattr(get_barrier(far, parties=2), verb)())
    await link.wait_until(lambda link: link.triggered == 1)
    await barrier.reset()
    waiting = asyncio.create_task(barrier.wait(10))
    await until_listening(client)
    link.pass_through()
    await changing
    assert await barrier.wait(10) == 1
    assert await waiting == 0


async def test_an_arrival_that_comes_after_it_left_is_void(
    far: Redisson, link: FaultProxy, barrier: CyclicBarrier, url_of_k: str
) -> None:
    sent = lose_and_keep(link)
    with pytest.raises(AcquireTimeoutError):
        await get_barrier(far, parties=2).wait(1)
    await barrier.reset()
    async with Stragglers(url_of_k) as late:
        await late.deliver(sent)
        assert await barrier.n_waiting() == 0
    assert not await barrier.broken()


@pytest.mark.parametrize("why", ["broken", "other parties"])
async def test_an_arrival_that_was_refused_comes_once_more(
    why: str,
    far: Redisson,
    link: FaultProxy,
    barrier: CyclicBarrier,
    client: Redisson,
    url_of_k: str,
) -> None:
    waiting = asyncio.create_task(barrier.wait())
    await until_waiting(client, 1)
    await until_listening(client)
    if why == "broken":
        await barrier.abort()
    sent = lose_and_keep(link)
    expected = BrokenBarrierError if why == "broken" else ValueError
    with pytest.raises(expected):
        await get_barrier(far, parties=2 if why == "broken" else 3).wait()
    await barrier.reset()
    with pytest.raises(BrokenBarrierError):
        await waiting
    await answered(far)
    async with Stragglers(url_of_k) as late:
        await late.deliver(sent)
    assert await barrier.n_waiting() == 0


async def _waiting_at(barrier: CyclicBarrier, count: int) -> bool:
    return await barrier.n_waiting() == count
