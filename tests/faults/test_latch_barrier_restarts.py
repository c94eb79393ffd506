"""Latches and barriers: restarts, forgotten scripts, broken connections, opened meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import ConnectionLostError, Redisson
from redisson_py._redis.commands.barrier import LEAVE
from redisson_py.barriers.barrier import CyclicBarrier
from redisson_py.testing import FaultProxy
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory, ServerFactory
from tests.support.latch_and_barrier import get_barrier, get_latch
from tests.support.streams import answered
from tests.support.waiting import set_safety_poll, until, until_async, until_listening

#: Sooner than the safety poll, which would find it too.
PROMPTLY, POLL = 20.0, 60.0
Use = Callable[[Redisson], Coroutine[Any, Any, object]]


@pytest.fixture(autouse=True)
def rare_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    set_safety_poll(monkeypatch, POLL)


@pytest_asyncio.fixture
async def barrier(client: Redisson) -> AsyncIterator[CyclicBarrier]:
    """A barrier of three, reset in the end."""
    barrier = get_barrier(client)
    yield barrier
    await barrier.reset()


async def _waiting_at(barrier: CyclicBarrier, count: int) -> bool:
    return await barrier.n_waiting() == count


async def test_a_release_while_it_was_cut_off_is_not_missed(
    client: Redisson, clients: ClientFactory, proxy: ProxyFactory
) -> None:
    link = await proxy()
    far = clients(link.url)
    waiting = asyncio.create_task(get_barrier(far, parties=2).wait())
    await until_listening(far)
    link.refuse()
    link.cut()
    assert await get_barrier(client, parties=2).wait() == 1
    link.pass_through()
    async with asyncio.timeout(PROMPTLY):
        assert await waiting == 0


async def test_a_leaving_party_without_an_answer_may_have_been_released(
    clients: ClientFactory, proxy: ProxyFactory
) -> None:
    link = await proxy()
    far, near = clients(link.url, lease_time=3), get_barrier(clients(), parties=2)
    waiting = asyncio.create_task(get_barrier(far, parties=2).wait(3))
    await until_async(lambda: _waiting_at(near, 1))
    shas = [wording.sha.encode() for wording in LEAVE.wordings]
    link.swallow_reply(lambda command: any(sha in command for sha in shas), 100)
    with pytest.raises(ConnectionLostError, match="may have been released") as caught:
        await waiting
    assert caught.value.maybe_held
    link.pass_through()
    await near.reset()


async def test_a_restart_that_keeps_data_keeps_the_waiting_parties(
    clients: ClientFactory, server_factory: ServerFactory
) -> None:
    server = await server_factory(appendonly=True)
    one, other = clients(server.url), clients(server.url)
    waiting = asyncio.create_task(get_barrier(one, parties=2).wait())
    await until_listening(one)
    await server.restart(keep_data=True)
    assert await get_barrier(other, parties=2).wait(10) == 1
    assert await waiting == 0


async def test_a_latch_under_forgotten_scripts_and_killed_connections(
    clients: ClientFactory, redis: Redis
) -> None:
    one, other = clients(client_name="one"), clients(client_name="other")
    latch = get_latch(one, count=200)
    waiting = [asyncio.create_task(get_latch(other, count=200).wait(20)) for _ in range(5)]

    async def count(number: int) -> None:
        await get_latch(one, count=200).count_down()
        if number % 20 == 0:
            await redis.script_flush()
            for each in await redis.client_list():
                if each["name"]:
                    await redis.client_kill_filter(_id=each["id"])

    assert await latch.count() == 200
    for start in range(0, 200, 10):
        await asyncio.gather(*map(count, range(start, start + 10)))
    await asyncio.gather(*waiting)
    assert await latch.count() == 0


@pytest_asyncio.fixture
async def far(clients: ClientFactory, link: FaultProxy) -> Redisson:
    """A client behind the proxy, connected."""
    client = clients(link.url)
    await answered(client)
    return client


@pytest_asyncio.fixture
async def near(client: Redisson) -> AsyncIterator[Redisson]:
    """Another client; nothing is left of the latch in the end."""
    yield client
    await client.get_latch("latch").delete()


#: How one waits, and how another lets it go.
USES: dict[str, tuple[Use, Use]] = {
    "latch": (
        lambda client: client.get_latch("latch").wait(),
        lambda client: client.get_latch("latch").count_down(),
    ),
    "barrier": (
        lambda client: client.get_barrier("barrier", 2).wait(),
        lambda client: client.get_barrier("barrier", 2).wait(),
    ),
}


@pytest.mark.parametrize(("wait", "let_go"), USES.values(), ids=USES)
@pytest.mark.parametrize("asked", [False, True], ids=["before the question", "before subscribing"])
async def test_opening_while_somebody_begins_to_wait_is_not_missed(
    asked: bool,
    wait: Use,
    let_go: Use,
    near: Redisson,
    far: Redisson,
    link: FaultProxy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_safety_poll(monkeypatch, POLL)
    await near.get_latch("latch").try_set_count(1)
    link.hold()
    waiting = asyncio.create_task(wait(far))
    await link.wait_until(lambda link: link.held > 0)
    if asked:
        # The question is answered; what follows it is kept back.
        link.release_held()
        link.hold()
        await link.wait_until(lambda link: link.held > 0)
    opening = asyncio.create_task(let_go(near))
    await until(lambda: opening.done() or near._context.bus.table.seats)
    assert not waiting.done()
    link.release_held()
    async with asyncio.timeout(PROMPTLY):
        await waiting
        await opening
