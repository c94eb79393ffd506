"""A reply is lost, and the object is deleted and created again before the call is repeated.

Receipts and records show what was already done, so the count of the new object is exact.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import product
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import LeaseLostError, Redisson
from redisson_py.testing import FaultProxy
from tests.fixtures.client import ClientFactory
from tests.lifecycle.late_bytes import executed
from tests.support.streams import answered

TOTAL = 3
NAME = "semaphore"

SEMAPHORES: dict[str, Callable[[Redisson], Any]] = {
    "semaphore": lambda client: client.get_semaphore(NAME),
    "expirable_semaphore": lambda client: client.get_permit_expirable_semaphore(NAME),
}


Anew = Callable[[], Awaitable[None]]


async def acquire(semaphore: Any, link: FaultProxy, anew: Anew) -> None:
    """It is taken from the new one instead, once."""
    acquiring = await executed(link, semaphore.acquire())
    await anew()
    link.pass_through()
    permit = await acquiring
    assert await semaphore.available() == TOTAL - 1
    await permit.release()


async def give_up(semaphore: Any, link: FaultProxy, anew: Anew) -> None:
    """The undo finds nothing."""
    acquiring = await executed(link, semaphore.acquire())
    await anew()
    acquiring.cancel()
    with pytest.raises(asyncio.CancelledError):
        await acquiring
    link.pass_through()


async def release(semaphore: Any, link: FaultProxy, anew: Anew) -> None:
    """It was given back to the old one."""
    permit = await semaphore.acquire()
    releasing = await executed(link, permit.release())
    await anew()
    link.pass_through()
    await releasing


async def delete(semaphore: Any, link: FaultProxy, anew: Anew) -> None:
    """It was the old one that was deleted, with what was taken of it."""
    permit = await semaphore.acquire()
    deleting = await executed(link, semaphore.delete())
    await anew()
    link.pass_through()
    assert await deleting
    with pytest.raises(LeaseLostError):
        await permit.release()


@pytest.mark.parametrize(
    ("kind", "call"),
    [*product(SEMAPHORES, (acquire, give_up, release)), ("semaphore", delete)],
)
async def test_a_new_semaphore_has_the_permits_it_was_made_with(
    kind: str,
    call: Callable[[Any, FaultProxy, Anew], Awaitable[None]],
    clients: ClientFactory,
    link: FaultProxy,
    redis: Redis,
) -> None:
    near, far = SEMAPHORES[kind](clients()), clients(link.url)
    assert await near.try_set_permits(TOTAL)
    await answered(far)

    async def anew() -> None:
        await redis.delete(NAME)
        assert await near.try_set_permits(TOTAL)

    await call(SEMAPHORES[kind](far), link, anew)
    await answered(far)
    assert await near.available() == TOTAL


async def test_a_new_latch_is_not_counted_down_for_the_old_one(
    client: Redisson, clients: ClientFactory, link: FaultProxy
) -> None:
    latch, far = client.get_latch("k"), clients(link.url)
    assert await latch.try_set_count(2)
    await answered(far)
    counting = await executed(link, far.get_latch("k").count_down())
    assert await latch.delete()
    assert await latch.try_set_count(2)
    link.pass_through()
    assert await counting == 1
    assert await latch.count() == 2
    await latch.delete()
