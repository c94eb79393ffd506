"""After each partial change, a holder never expects a longer lease than Redis has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import AcquireTimeoutError, Lease, Redisson
from tests.fixtures.client import ClientFactory
from tests.fixtures.fleet import Fleet, until_executed
from tests.lifecycle.late_bytes import REENTRANT
from tests.support.cluster_look import master_of
from tests.support.streams import answered
from tests.support.waiting import set_safety_poll, until_waiting

#: What is allowed for the server's rounding to whole milliseconds.
ROUNDING = 0.005

#: Seconds; the lease that the watchdog keeps for holds without a lease time of their own.
WATCHDOG = 30

Steps = list[tuple[str, int, float | None]]

#: What is done with the leases of one task, by their numbers: `in`, `out`, `extend`.
CHANGES: dict[str, Steps] = {
    "a long one inside the watchdog's": [("in", 0, None), ("in", 1, 100), ("out", 1, None)],
    "a long one inside a short one": [("in", 0, 10), ("in", 1, 100), ("out", 1, None)],
    "a short one inside a long one": [("in", 0, 100), ("in", 1, 10), ("out", 1, None)],
    "the watchdog's inside a long one": [("in", 0, 100), ("in", 1, None), ("out", 1, None)],
    "the watchdog's inside a short one": [("in", 0, 10), ("in", 1, None), ("out", 1, None)],
    "the outer is left first": [("in", 0, 100), ("in", 1, None), ("out", 0, None)],
    "three, the middle left first": [
        *[("in", 0, None), ("in", 1, 100), ("in", 2, 50)],
        *[("out", 1, None), ("out", 2, None)],
    ],
    "an inner one extended": [
        *[("in", 0, None), ("in", 1, 10)],
        *[("extend", 1, 100), ("out", 1, None)],
    ],
    "an outer one extended": [
        *[("in", 0, None), ("in", 1, None)],
        *[("extend", 0, 100), ("out", 0, None)],
    ],
    "an inner one extended to less": [
        *[("in", 0, 100), ("in", 1, 50)],
        *[("extend", 1, 10), ("out", 1, None)],
    ],
    "one beside the watchdog's extended to less": [
        *[("in", 0, None), ("in", 1, None)],
        *[("extend", 1, 10), ("out", 1, None)],
    ],
    "two long ones are left": [
        *[("in", 0, 100), ("in", 1, 50), ("in", 2, None)],
        *[("out", 2, None), ("out", 1, None)],
    ],
    "again and again": [
        *[("in", 0, None), ("in", 1, 100), ("out", 1, None)],
        *[("in", 1, 50), ("out", 1, None), ("in", 1, 100), ("out", 1, None)],
    ],
}


async def change(lock: Any, steps: Steps, check: Callable[[dict[int, Lease]], Any]) -> None:
    """Do these steps, check after each, and release what is left."""
    leases: dict[int, Lease] = {}
    for verb, number, seconds in steps:
        if verb == "in":
            leases[number] = await lock.acquire(lease_time=seconds)
        elif verb == "extend":
            assert seconds is not None
            await leases[number].extend(seconds)
        else:
            await leases.pop(number).release()
        await check(leases)
    for lease in leases.values():
        await lease.release()


@pytest.mark.parametrize("steps", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("kind", REENTRANT)
async def test_each_lease_lasts_as_asked_for_and_no_longer_than_redis_has_it(
    kind: str, steps: Steps, client: Redisson
) -> None:
    """No change shortens another: less is only the allowance for clocks that drift."""
    lock = REENTRANT[kind](client)
    clock = asyncio.get_running_loop().time
    ends: dict[int, float] = {}
    coming = iter(steps)

    def begin_next() -> None:
        verb, number, seconds = next(coming, ("out", 0, None))
        if verb != "out":
            ends[number] = clock() + 0.98 * (seconds or WATCHDOG)

    async def check(leases: dict[int, Lease]) -> None:
        left = await lock.remaining()  # first: what is read later can only be less
        for number, lease in leases.items():
            assert 0 < lease.remaining <= left + ROUNDING
            assert clock() + lease.remaining > ends[number]
            assert clock() + left > ends[number]
        begin_next()

    begin_next()
    await change(lock, steps, check)
    assert not await lock.locked()


@pytest.mark.parametrize("steps", CHANGES.values(), ids=CHANGES)
async def test_no_lease_of_a_red_lock_outlasts_what_a_quorum_has(
    steps: Steps, fleet: Fleet
) -> None:
    lock = fleet.red_lock(3)

    async def check(leases: dict[int, Lease]) -> None:
        await until_executed(lock)
        left = sorted([await redis.pttl("k") for redis in fleet.redis[:3]])
        for lease in leases.values():
            assert 0 < lease.remaining <= left[1] / 1000 + ROUNDING

    await change(lock, steps, check)
    await until_executed(lock)


# The local queue of a semaphore.


@pytest.mark.parametrize("leaves", ["cancelled", "timed out"])
@pytest.mark.parametrize("holder", ["same client", "another client"])
@pytest.mark.parametrize("kind", ["semaphore", "expirable_semaphore"])
@pytest.mark.more
async def test_a_waiter_for_one_permit_gets_it_when_the_head_for_two_leaves(
    kind: str,
    holder: str,
    leaves: str,
    clients: ClientFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One permit is free all the time; it is taken at once, not at a safety poll seconds later."""
    set_safety_poll(monkeypatch, 60)
    client = clients()
    await answered(client)
    expirable = kind == "expirable_semaphore"

    def semaphore_of(of: Redisson) -> Any:
        get: Any = of.get_permit_expirable_semaphore if expirable else of.get_semaphore
        return get("semaphore", 2)

    holding = client if holder == "same client" else clients()
    held = await semaphore_of(holding).acquire()
    semaphore = semaphore_of(client)
    take = semaphore.acquire_many if expirable else semaphore.acquire
    timeout = 2.5 if leaves == "timed out" else 60
    wants_two = asyncio.create_task(take(2, timeout=timeout))
    await until_waiting(client, 1)
    wants_one = asyncio.create_task(semaphore.acquire())
    await until_waiting(client, 2)
    if leaves == "cancelled":
        wants_two.cancel()
        await asyncio.wait([wants_two])
    else:
        with pytest.raises(AcquireTimeoutError):
            await wants_two
    commands = client.statistics().commands_sent
    async with asyncio.timeout(20):
        permit = await wants_one
    assert client.statistics().commands_sent <= commands + 5
    await permit.release()
    await held.release()
    assert await semaphore.available() == 2


# The liveness reports of a waiter of a fair lock.


async def life_left(redis: Redis, keys: tuple[str, ...]) -> float:
    """Return for how many seconds every waiter still counts as alive, by the server's clock."""
    (key,) = [each for each in keys if each.endswith("redisson_py:waiters")]
    looking: Any = (await master_of(redis, key)).pipeline(transaction=True)
    (seconds, micros), alive = await looking.time().zrange(key, 0, 0, withscores=True).execute()
    left: float = alive[0][1] / 1000 - seconds - micros / 1e6
    return left


@pytest.mark.more
async def test_a_live_waiter_keeps_its_place_when_others_ask_later_than_a_lease(
    clients: ClientFactory, redis: Redis
) -> None:
    """It reports well before it would count as dead, not once a lease."""
    lease_time = 6.0
    holder = clients(lease_time=60)
    first, second = clients(lease_time=lease_time), clients(lease_time=lease_time)
    visitor = clients(lease_time=lease_time)
    lease = await holder.get_fair_lock("k").acquire()
    waiting = []
    for number, client in enumerate((first, second)):
        waiting.append(asyncio.create_task(client.get_fair_lock("k").acquire()))
        await until_queued(visitor, number + 1)
    snapshot = await visitor.get_fair_lock("k").inspect()
    order = snapshot.waiters or ()
    assert [owner.partition(":")[0] for owner in order] == [first.id, second.id]
    loop = asyncio.get_running_loop()
    ends = loop.time() + 1.7 * lease_time
    least = lease_time
    while loop.time() < ends:
        least = min(least, await life_left(redis, snapshot.keys))
        assert await visitor.get_fair_lock("k").try_acquire() is None
        assert (await visitor.get_fair_lock("k").inspect()).waiters == order
        await asyncio.sleep(lease_time / 80)
    assert least > lease_time / 5
    await lease.release()
    await (await waiting[0]).release()
    await (await waiting[1]).release()


async def until_queued(client: Redisson, count: int) -> None:
    """Return when the queue in Redis has this many waiters."""
    async with asyncio.timeout(30):
        while len((await client.get_fair_lock("k").inspect()).waiters or ()) < count:
            await asyncio.sleep(0.005)
