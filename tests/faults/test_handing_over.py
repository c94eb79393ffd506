"""Replies get lost while a lease goes to another process, and the server is away."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from redisson_py import ConnectionLostError, LeaseLostError, NotHeldError, Redisson
from redisson_py.locks.lock import ServerLock
from redisson_py.testing import FaultProxy
from tests.faults.conftest import LOSSES, Loss
from tests.fixtures.client import ClientFactory
from tests.support.kinds import KINDS, Kind
from tests.support.lost_reply_calls import WATCHED, holders, notice_soon
from tests.support.streams import answered
from tests.support.waiting import until_async

pytestmark = [pytest.mark.also("cluster", "sentinel", "cluster+sync"), pytest.mark.heart]


@pytest.fixture
def far(clients: ClientFactory, link: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> Redisson:
    """A client behind the proxy, which soon notices that a reply is lost."""
    notice_soon(monkeypatch)
    return clients(link.url, lease_time=WATCHED)


@pytest.fixture(params=("lock", "fenced_lock", "fair_lock"))
def kind(request: pytest.FixtureRequest) -> Kind:
    """What kind of lock `k` is."""
    return KINDS[request.param]


def lock_of(kind: Kind, client: Redisson) -> ServerLock:
    made: ServerLock = kind.one(client)
    return made


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
async def test_the_giver_hears_of_it_late(
    kind: Kind, loss: Loss, far: Redisson, client: Redisson, link: FaultProxy, redis: Redis
) -> None:
    await answered(far)
    lease = await lock_of(kind, far).acquire()
    async with loss(link):
        token = await lease.hand_over()
    assert await holders(redis) == {lease.owner: 1}
    adopted = await client.adopt(token)
    assert await holders(redis) == {adopted.owner: 1}
    assert adopted.token == lease.token
    await adopted.release()
    assert await holders(redis) == {}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
async def test_the_adopter_hears_of_it_late(
    kind: Kind, loss: Loss, far: Redisson, client: Redisson, link: FaultProxy, redis: Redis
) -> None:
    await answered(far)
    lease = await lock_of(kind, client).acquire()
    token = await lease.hand_over()
    async with loss(link):
        adopted = await far.adopt(token)
    assert await holders(redis) == {adopted.owner: 1}
    with pytest.raises(NotHeldError, match="already adopted"):
        await client.adopt(token)
    await adopted.release()
    assert await holders(redis) == {}


async def test_a_giver_without_an_answer_still_holds(
    kind: Kind, clients: ClientFactory, link: FaultProxy, client: Redisson, redis: Redis
) -> None:
    giver = clients(link.url, command_timeout=2)
    lock = lock_of(kind, giver)
    async with lock.hold() as lease:
        link.black_hole()
        with pytest.raises(ConnectionLostError):
            await lease.hand_over()
        assert not lease.lost
        link.pass_through()
        link.cut()
        await answered(giver)
        assert await holders(redis) == {lease.owner: 1}
        # Its hold may have been asked for twice; handing it over works all the same.
        adopted = await client.adopt(await lease.hand_over())
    assert await holders(redis) == {adopted.owner: 1}, "the block released nothing"
    await adopted.release()


async def test_an_adopter_without_an_answer_holds_nothing(
    kind: Kind, clients: ClientFactory, link: FaultProxy, client: Redisson, redis: Redis
) -> None:
    taker = clients(link.url, command_timeout=2)
    await answered(taker)
    for direction in ("up", "down"):
        lease = await lock_of(kind, client).acquire()
        token = await lease.hand_over()
        link.black_hole(direction)
        with pytest.raises(ConnectionLostError):
            await taker.adopt(token)
        link.pass_through()
        link.cut()
        if direction == "down":
            # It was adopted, and nobody heard of it.
            await until_async(lambda: _is_free(redis))
            with pytest.raises((NotHeldError, LeaseLostError)):
                await client.adopt(token)
        else:
            await answered(taker)
            if await holders(redis):
                # It never came, or was refused because its undo came first.
                await (await client.adopt(token)).release()
        assert await holders(redis) == {}


async def _is_free(redis: Redis) -> bool:
    return not await holders(redis)


async def test_a_repetition_harms_no_newer_hold(
    kind: Kind, far: Redisson, link: FaultProxy, client: Redisson, redis: Redis
) -> None:
    await answered(far)
    token = await (await lock_of(kind, client).acquire()).hand_over()
    link.refuse()
    link.cut_after_execution(b"EVALSHA")
    taking = asyncio.create_task(far.adopt(token))
    await link.wait_until(lambda link: link.triggered == 1)
    assert await lock_of(kind, client).force_release()
    newer = await lock_of(kind, client).acquire()
    link.pass_through()
    with pytest.raises(LeaseLostError):
        await taking
    assert await holders(redis) == {newer.owner: 1}
    await newer.release()


async def test_two_adopters_of_which_one_hears_nothing(
    kind: Kind, far: Redisson, link: FaultProxy, client: Redisson, redis: Redis
) -> None:
    await answered(far)
    token = await (await lock_of(kind, client).acquire()).hand_over()
    link.refuse()
    link.cut_after_execution(b"EVALSHA")
    first = asyncio.create_task(far.adopt(token))
    await link.wait_until(lambda link: link.triggered == 1)
    with pytest.raises(NotHeldError):
        await client.adopt(token)
    link.pass_through()
    adopted = await first
    assert await holders(redis) == {adopted.owner: 1}
    await adopted.release()
