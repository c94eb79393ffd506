"""`try_acquire` returns None while waiters are ahead or the turn of another process is due.

A loop of `try_acquire`, a short hold and a release must not keep a waiter out.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from redisson_py import LeaseLostError, Redisson
from tests.fixtures.client import ClientFactory
from tests.fixtures.fleet import Fleet, until_executed
from tests.fixtures.redis_server import ProxyFactory
from tests.support.kinds import KINDS
from tests.support.streams import answered
from tests.support.waiting import until, until_listening, until_waiting

HOLD = 0.02
#: Grants to the loop after which a waiter counts as starved.
MOST_ROUNDS = 60
#: Grants to the loop until the waiter of another client is woken and asks, on a busy machine.
FEW_ROUNDS = 30
#: How far away another process is, in seconds.
AWAY = 0.0005

#: What one task at a time can have: one kind for each way to wait.
EXCLUSIVE = [
    *("lock", "fair_lock", "write_lock", "multi_lock_of_three"),
    *("semaphore", "expirable_semaphore"),
]
each_kind = pytest.mark.parametrize("kind", EXCLUSIVE)


async def visit(thing: Any, got: asyncio.Event) -> None:
    """Wait for it, with a generous limit."""
    lease = await thing.acquire(timeout=30)
    got.set()
    await lease.release()


async def try_until(got: asyncio.Event, thing: Any, lease: Any) -> int:
    """Release, try to get it again at once, hold it a moment, until a waiter got it.

    Returns:
        How often it was granted to this loop while the waiter waited.
    """
    granted = 0
    while not got.is_set() and granted < MOST_ROUNDS:
        if lease is not None:
            await asyncio.sleep(HOLD)
            await lease.release()
        lease = await thing.try_acquire()
        granted += lease is not None
        if lease is None:
            await asyncio.sleep(HOLD / 4)
    if lease is not None:
        await lease.release()
    return granted


@each_kind
async def test_a_waiter_of_the_same_client_goes_first(kind: str, client: Redisson) -> None:
    thing = KINDS[kind].one(client)
    got = asyncio.Event()
    lease = await thing.acquire()
    waiting = asyncio.create_task(visit(thing, got))
    await until_waiting(client, 1)
    granted = await try_until(got, thing, lease)
    await waiting
    assert granted <= 2


@pytest.mark.parametrize("kind", [kind for kind in EXCLUSIVE if kind != "fair_lock"])
async def test_a_waiter_goes_first_when_the_hold_was_lost_in_a_stalled_loop(
    kind: str, clients: ClientFactory
) -> None:
    client = clients(lease_time=1)
    thing = KINDS[kind].one(client)
    order: list[str] = []

    async def visit_in_order(name: str) -> None:
        async with thing:
            order.append(name)

    lease = await thing.acquire()
    first = asyncio.create_task(visit_in_order("first"))
    await until_waiting(client, 1)
    # Its request was answered: a grant that a stall outlasts has expired, and is requested again.
    await answered(client)
    second = asyncio.create_task(visit_in_order("second"))
    time.sleep(1.2)  # noqa: ASYNC251  # the fault: it blocks the event loop
    # The second one comes before the loss was reported.
    await asyncio.gather(first, second)
    assert order == ["first", "second"]
    with pytest.raises(LeaseLostError):
        await lease.release()


@each_kind
async def test_a_waiter_of_another_client_is_served(
    kind: str, clients: ClientFactory, proxy: ProxyFactory
) -> None:
    """It is as far away as another process: the loop asks again before it gets a message."""
    link = await proxy()
    link.delay(AWAY)
    ours, theirs = clients(), clients(link.url)
    got = asyncio.Event()
    thing = KINDS[kind].one(ours)
    lease = await thing.acquire()
    waiting = asyncio.create_task(visit(KINDS[kind].one(theirs), got))
    await until_listening(theirs)
    granted = await try_until(got, thing, lease)
    await waiting
    assert granted <= FEW_ROUNDS


@pytest.mark.parametrize("kind", ["semaphore", "expirable_semaphore"])
async def test_trying_for_one_permit_does_not_overtake_a_waiter_for_two(
    kind: str, client: Redisson
) -> None:
    """One permit is free all the time; the waiter at the head needs two."""
    expirable = kind == "expirable_semaphore"
    make: Any = client.get_permit_expirable_semaphore if expirable else client.get_semaphore
    semaphore = make("semaphore", 2)
    first = await semaphore.acquire()
    take = semaphore.acquire_many if expirable else semaphore.acquire
    waiting = asyncio.create_task(take(2, timeout=30))
    await until_waiting(client, 1)
    for _ in range(5):
        assert await semaphore.try_acquire() is None
    await first.release()
    got = await waiting
    for permit in got if expirable else [got]:
        await permit.release()
    permit = await semaphore.try_acquire()
    assert permit is not None
    await permit.release()


async def test_a_red_lock_that_is_tried_for_does_not_overtake_a_waiter_here(fleet: Fleet) -> None:
    lock = fleet.red_lock(3)
    got = asyncio.Event()
    lease = await lock.acquire()
    await until_executed(lock)
    waiting = asyncio.create_task(visit(lock, got))
    await until(lambda: lock.statistics().waiters == 1)
    granted = await try_until(got, lock, lease)
    await waiting
    assert granted <= 2


async def test_a_red_lock_that_is_tried_for_leaves_other_clients_their_head_start(
    fleet: Fleet,
) -> None:
    ours, theirs = fleet.red_lock(3), fleet.red_lock(3)
    got = asyncio.Event()
    lease = await ours.acquire()
    await until_executed(ours)
    waiting = asyncio.create_task(visit(theirs, got))
    await until(lambda: theirs.statistics().waiters == 1)
    await asyncio.gather(*[until_listening(client) for client in fleet.made[3:]])
    granted = await try_until(got, ours, lease)
    await waiting
    assert granted <= FEW_ROUNDS
    await until_executed(ours)
    await until_executed(theirs)
