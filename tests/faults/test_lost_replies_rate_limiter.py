"""A reply is lost after a script of a rate limiter ran: each admission counts exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest
import pytest_asyncio

from redisson_py import ConnectionLostError, RateLimiter, Redisson
from redisson_py.testing import EmbeddedServer, FaultProxy
from tests.faults.conftest import LOSSES, Loss
from tests.fixtures.client import ClientFactory
from tests.support.lost_reply_calls import notice_soon
from tests.support.stragglers import Stragglers, lose_and_keep
from tests.support.streams import answered
from tests.support.waiting import until_async, until_listening

pytestmark = pytest.mark.heart

every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)

LONG = 600.0


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
async def limiter(client: Redisson) -> AsyncIterator[RateLimiter]:
    """The limiter of a client without trouble, deleted in the end."""
    limiter = get_limiter(client)
    await limiter.set_rate(5, LONG)
    yield limiter
    await limiter.delete()


def get_limiter(client: Redisson) -> RateLimiter:
    return client.get_rate_limiter("k", 5, LONG)


@dataclass(frozen=True)
class Call:
    """One call: what it makes, what it returns, and what is left then; `taken` before it."""

    make: Callable[[RateLimiter], Awaitable[object]]
    answer: object
    left: int
    taken: int = 0


CALLS = {
    "acquire": Call(lambda limiter: _allowed(limiter.acquire()), True, 4),
    "acquire of several": Call(lambda limiter: _allowed(limiter.acquire(3)), True, 2),
    "acquire of many tasks": Call(lambda limiter: _many(limiter, 4), 4, 1),
    "try_acquire": Call(lambda limiter: _allowed(limiter.try_acquire(timeout=10)), True, 4),
    "try_acquire in vain": Call(
        lambda limiter: _allowed(limiter.try_acquire(4, timeout=0.5)), False, 3, taken=2
    ),
    "set_rate": Call(lambda limiter: limiter.set_rate(7, LONG), None, 7, taken=2),
    "try_set_rate in vain": Call(lambda limiter: limiter.try_set_rate(7), False, 3, taken=2),
    "delete": Call(lambda limiter: limiter.delete(), True, 5, taken=2),
    "available": Call(lambda limiter: limiter.available(), 3, 3, taken=2),
}
every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


async def _allowed(admission: Awaitable[object]) -> bool:
    return bool(await admission)


async def _many(limiter: RateLimiter, count: int) -> int:
    return sum(map(bool, await asyncio.gather(*(limiter.acquire() for _ in range(count)))))


@every_loss
@every_call
async def test_a_call_is_carried_out_once(
    call: Call, loss: Loss, far: Redisson, link: FaultProxy, limiter: RateLimiter
) -> None:
    if call.taken:
        await limiter.acquire(call.taken)
    async with loss(link):
        assert await call.make(get_limiter(far)) == call.answer
    assert await limiter.available() == call.left
    assert far.statistics().connections >= 2


@pytest.mark.parametrize("behind", [0, 2])
async def test_one_that_was_cancelled_gives_back_what_it_never_heard_of(
    behind: int, far: Redisson, link: FaultProxy, limiter: RateLimiter
) -> None:
    """Those behind it were asked for in the same request, and find what they were admitted."""
    await limiter.acquire(5)
    mine = get_limiter(far)
    waiting = [asyncio.create_task(mine.acquire()) for _ in range(1 + behind)]
    await until_listening(far)
    link.refuse()
    link.cut_after_execution(b"EVALSHA")
    await limiter.set_rate(5, LONG)
    await link.wait_until(lambda link: link.triggered == 1)
    assert await limiter.available() == 4 - behind
    waiting[0].cancel()
    await asyncio.wait(waiting[:1])
    link.pass_through()
    assert all(await asyncio.gather(*waiting[1:]))
    await answered(far)
    await until_async(lambda: _is_left(limiter, 5 - behind))
    assert await get_limiter(far).available() == 5 - behind


async def test_one_whose_time_was_up_gives_back_what_it_never_heard_of(
    far: Redisson, link: FaultProxy, limiter: RateLimiter
) -> None:
    link.refuse()
    link.cut_after_execution(b"EVALSHA")
    asking = asyncio.create_task(get_limiter(far).acquire(2, timeout=0.5))
    await link.wait_until(lambda link: link.triggered == 1)
    assert await limiter.available() == 3
    with pytest.raises(ConnectionLostError) as caught:
        await asking
    assert caught.value.maybe_held
    link.pass_through()
    await until_async(lambda: _is_left(limiter, 5))


async def test_a_request_that_comes_after_it_was_undone_is_refused(
    far: Redisson, link: FaultProxy, limiter: RateLimiter, url_of_k: str
) -> None:
    sent = lose_and_keep(link)
    asking = asyncio.create_task(get_limiter(far).acquire())
    await link.wait_until(lambda link: link.triggered == 1)
    asking.cancel()
    await asyncio.wait([asking])
    await until_async(lambda: _is_left(limiter, 5))
    async with Stragglers(url_of_k) as late:
        await late.deliver(sent * 2)
    assert await limiter.available() == 5


async def test_a_request_that_comes_again_while_its_admission_counts(
    far: Redisson, link: FaultProxy, limiter: RateLimiter, url_of_k: str
) -> None:
    sent = lose_and_keep(link)
    assert await get_limiter(far).acquire(2)
    async with Stragglers(url_of_k) as late:
        await late.deliver(sent * 2)
    assert await limiter.available() == 3


@pytest.mark.parametrize("waits", [True, False])
async def test_a_request_that_comes_again_when_its_admission_has_ended(
    waits: bool, far: Redisson, link: FaultProxy, limiter: RateLimiter, url_of_k: str
) -> None:
    await limiter.set_rate(5, 0.05)
    mine = get_limiter(far)
    sent = lose_and_keep(link)
    assert await mine.try_acquire(5, timeout=10 if waits else 0)
    await answered(far)
    await until_async(lambda: _is_left(limiter, 5))
    await limiter.set_rate(5, LONG)
    async with Stragglers(url_of_k) as late:
        await late.deliver(sent)
    assert await limiter.available() == 5


async def test_a_request_that_was_refused_comes_again(
    far: Redisson, link: FaultProxy, limiter: RateLimiter, url_of_k: str
) -> None:
    await limiter.acquire(5)
    sent = lose_and_keep(link)
    assert not await get_limiter(far).try_acquire(timeout=0.5)
    await answered(far)
    await limiter.set_rate(5, LONG)
    async with Stragglers(url_of_k) as late:
        await late.deliver(sent)
    assert await limiter.available() == 5


async def test_in_an_outage_all_without_a_timeout_fail_together(
    clients: ClientFactory, own_server: EmbeddedServer
) -> None:
    client = clients(own_server.url, command_timeout=0.5)
    limiter = get_limiter(client)
    await limiter.acquire()
    await own_server.pause()
    try:
        asking = [asyncio.create_task(limiter.acquire()) for _ in range(20)]
        for outcome in await asyncio.gather(*asking, return_exceptions=True):
            assert isinstance(outcome, ConnectionLostError)
    finally:
        await own_server.resume()
    await answered(client)
    await until_async(lambda: _is_left(limiter, 4))


async def test_waiters_outlive_a_restart(
    clients: ClientFactory, own_server: EmbeddedServer
) -> None:
    """A server that lost its data has no rate either, until the next use sets it."""
    client = clients(own_server.url)
    limiter = get_limiter(client)
    await limiter.acquire(5)
    waiting = [asyncio.create_task(limiter.acquire()) for _ in range(3)]
    await until_listening(client)
    await own_server.kill()
    await own_server.start()
    assert all(await asyncio.wait_for(asyncio.gather(*waiting), 60))
    assert await limiter.available() == 2


async def _is_left(limiter: RateLimiter, count: int) -> bool:
    return await limiter.available() == count
