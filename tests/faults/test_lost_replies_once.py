"""A reply is lost after a script of `Once` ran: it is done once, and the answer says so."""

from __future__ import annotations

import asyncio

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import NotHeldError, Redisson
from redisson_py.testing import FaultProxy
from tests.faults.conftest import LOSSES, Loss
from tests.fixtures.client import ClientFactory
from tests.support.lost_reply_calls import notice_soon
from tests.support.streams import answered

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


@every_loss
async def test_entering(loss: Loss, far: Redisson, client: Redisson, link: FaultProxy) -> None:
    async with loss(link):
        running = await far.get_once("k").acquire(timeout=20)
    await running.complete(b"1")
    assert await client.get_once("k").run(lambda: b"2") == b"1"
    assert not await client.get_once("k").locked()
    assert far.statistics().connections >= 2


@every_loss
async def test_entering_what_is_done(
    loss: Loss, far: Redisson, client: Redisson, link: FaultProxy
) -> None:
    await client.get_once("k").run(lambda: b"1")
    async with loss(link):
        assert await far.get_once("k").run(lambda: b"2") == b"1"
    # Nothing of it is granted when that is forgotten.
    await client.get_once("k").forget()
    await answered(far)
    async with client.get_once("k").hold(timeout=0) as running:
        assert not running.done


@every_loss
async def test_completing(
    loss: Loss, far: Redisson, client: Redisson, link: FaultProxy, redis: Redis
) -> None:
    async with far.get_once("k") as running:
        async with loss(link):
            await running.complete(b"1")
        assert running.done
    assert await client.get_once("k").run(lambda: b"2") == b"1"
    assert not await client.get_once("k").locked()
    assert far.statistics().connections >= 2


async def test_completed_again_with_another_result(
    far: Redisson, client: Redisson, link: FaultProxy
) -> None:
    """The first call was given up on its way, and is carried out: its result is that of all."""
    async with far.get_once("k") as running:
        link.hold()
        first = asyncio.create_task(running.complete(b"1"))
        await link.wait_until(lambda link: link.held > 0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert not running.done
        link.release_held()
        with pytest.raises(NotHeldError, match="another result"):
            await running.complete("1")
        assert running.result == b"1"
        assert not await client.get_once("k").locked()
    assert await client.get_once("k").run(lambda: b"2") == b"1"


async def test_completing_and_forgotten_before_the_repetition(
    far: Redisson, client: Redisson, link: FaultProxy
) -> None:
    """The repetition is told that it was recorded, and does not record it again."""
    async with far.get_once("k") as running:
        link.refuse()
        link.cut_after_execution(b"EVALSHA")
        completing = asyncio.create_task(running.complete(b"1"))
        await link.wait_until(lambda link: link.triggered == 1)
        assert await client.get_once("k").forget()
        link.pass_through()
        await completing
    assert await client.get_once("k").run(lambda: b"2") == b"2"


@every_loss
async def test_forgetting(loss: Loss, far: Redisson, client: Redisson, link: FaultProxy) -> None:
    await client.get_once("k").run(lambda: b"1")
    async with loss(link):
        assert await far.get_once("k").forget() is True
    assert await client.get_once("k").run(lambda: b"2") == b"2"
