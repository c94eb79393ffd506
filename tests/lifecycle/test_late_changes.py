"""Changes whose replies were lost, and whose bytes arrive again after a newer one or a deletion."""

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
from tests.lifecycle.late_bytes import REENTRANT, deliver_late, executed, recorded, shortest_lease
from tests.support.stragglers import lose_and_keep
from tests.support.streams import answered

#: Far from what the late bytes ask for, and from what a busy machine may take.
LONG, SHORT = 60.0, 6.0

KINDS = pytest.mark.parametrize("kind", REENTRANT)


@pytest.fixture
async def far(clients: ClientFactory, link: FaultProxy) -> Redisson:
    """A client behind the proxy, connected."""
    client = clients(link.url)
    await answered(client)
    return client


@KINDS
async def test_an_extension_that_comes_late_does_not_undo_a_newer_one(
    kind: str, far: Redisson, link: FaultProxy, redis: Redis, url_of_k: str
) -> None:
    lease = await REENTRANT[kind](far).acquire()
    late = lose_and_keep(link)
    await lease.extend(SHORT)
    await lease.extend(LONG)
    await deliver_late(url_of_k, late)
    assert await shortest_lease(redis) > 1000 * LONG / 2
    assert await shortest_lease(redis) / 1000 >= lease.remaining
    lease.check()
    await lease.release()
    assert await recorded(redis) == {}


@KINDS
async def test_a_partial_release_that_comes_late_takes_no_newer_re_entry(
    kind: str, far: Redisson, link: FaultProxy, redis: Redis, url_of_k: str
) -> None:
    lock = REENTRANT[kind](far)
    outer = await lock.acquire(lease_time=20)
    inner = await lock.acquire(lease_time=20)
    late = lose_and_keep(link)
    await inner.release()
    again = await lock.acquire(lease_time=LONG)
    before = await recorded(redis)
    await deliver_late(url_of_k, late)
    assert await recorded(redis) == before
    assert await shortest_lease(redis) > 1000 * LONG / 2
    assert await lock.hold_count() == 2
    await again.release()
    outer.check()
    await outer.release()
    assert await recorded(redis) == {}


@KINDS
async def test_a_partial_release_that_comes_late_does_not_undo_an_extension(
    kind: str, far: Redisson, link: FaultProxy, redis: Redis, url_of_k: str
) -> None:
    lock = REENTRANT[kind](far)
    outer = await lock.acquire(lease_time=20)
    inner = await lock.acquire(lease_time=20)
    late = lose_and_keep(link)
    await inner.release()
    await outer.extend(LONG)
    await deliver_late(url_of_k, late)
    assert await shortest_lease(redis) > 1000 * LONG / 2
    outer.check()
    await outer.release()
    assert await recorded(redis) == {}


async def test_a_late_release_of_a_read_under_a_write_hold_ends_no_newer_read(
    far: Redisson, link: FaultProxy, redis: Redis, url_of_k: str
) -> None:
    sides = far.get_read_write_lock("k")
    async with sides.write_lock():
        first = await sides.read_lock().acquire()
        late = lose_and_keep(link)
        await first.release()
        second = await sides.read_lock().acquire()
        before = await recorded(redis)
        await deliver_late(url_of_k, late)
        assert await recorded(redis) == before
        second.check()
        await second.release()
    assert await recorded(redis) == {}


async def test_a_read_under_a_write_hold_with_a_lost_reply_is_given_back(
    far: Redisson, link: FaultProxy, client: Redisson, redis: Redis, url_of_k: str
) -> None:
    sides = far.get_read_write_lock("k")
    async with sides.write_lock():
        late = lose_and_keep(link)
        async with sides.read_lock():
            assert link.triggered == 1
        async with sides.read_lock() as lease:
            assert await sides.read_lock().owned()
            lease.check()
        # The read that was given back comes once more, and must not enter.
        before = await recorded(redis)
        await deliver_late(url_of_k, late)
        assert await recorded(redis) == before
    assert await recorded(redis) == {}
    async with client.get_read_write_lock("k").write_lock().hold(timeout=20):
        pass


async def test_a_permits_extension_that_comes_late_does_not_undo_a_newer_one(
    far: Redisson, link: FaultProxy, url_of_k: str
) -> None:
    semaphore = far.get_semaphore("semaphore", 2)
    permit = await semaphore.acquire()
    late = lose_and_keep(link)
    await permit.extend(SHORT)
    await permit.extend(LONG)
    await deliver_late(url_of_k, late)
    (holder,) = (await semaphore.inspect()).holders
    assert holder.remaining > LONG / 2
    permit.check()
    await permit.release()
    assert await semaphore.available() == 2


@pytest.mark.parametrize("first", ["extend", "update_lease_time"])
@pytest.mark.parametrize("second", ["extend", "update_lease_time"])
async def test_a_late_update_of_a_lease_time_does_not_undo_a_newer_one(
    first: str, second: str, far: Redisson, link: FaultProxy, url_of_k: str
) -> None:
    """Either way to set the lease of a permit, in any order: they change one thing."""
    semaphore = far.get_permit_expirable_semaphore("semaphore", 2)
    permit = await semaphore.acquire(lease_time=20)

    async def set_lease(way: str, seconds: float) -> None:
        if way == "extend":
            await permit.extend(seconds)
        else:
            await semaphore.update_lease_time(permit.id, seconds)

    late = lose_and_keep(link)
    await set_lease(first, SHORT)
    await set_lease(second, LONG)
    await deliver_late(url_of_k, late)
    assert await semaphore.lease_time(permit.id) > LONG / 2
    await semaphore.release(permit)


@KINDS
async def test_a_reentry_repeated_behind_a_release_is_granted(
    kind: str, far: Redisson, link: FaultProxy, redis: Redis
) -> None:
    """The release beside it has a later version, and was executed before the repetition."""
    lock = REENTRANT[kind](far)
    outer = await lock.acquire()
    await (await lock.acquire()).release()
    lose_and_keep(link)
    releasing = asyncio.create_task(outer.release())
    inner = await lock.acquire(lease_time=LONG)
    await releasing
    await answered(far)
    inner.check()
    for holders in (await recorded(redis)).values():
        assert [int(count) for field, count in holders.items() if field != b"mode"] == [1]
    assert await shortest_lease(redis) / 1000 >= inner.remaining
    await inner.release()
    assert await recorded(redis) == {}


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
