"""Latches and barriers that open while somebody begins to wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
import pytest_asyncio

from redisson_py import Redisson
from redisson_py.testing import FaultProxy
from tests.fixtures.client import ClientFactory
from tests.support.streams import answered
from tests.support.waiting import set_safety_poll, until

#: Sooner than the safety poll, which would find it too.
PROMPTLY, POLL = 20.0, 60.0


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


Use = Callable[[Redisson], Coroutine[Any, Any, object]]
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
    await until(lambda: opening.done() or near._table.seats)
    assert not waiting.done()
    link.release_held()
    async with asyncio.timeout(PROMPTLY):
        await waiting
        await opening
