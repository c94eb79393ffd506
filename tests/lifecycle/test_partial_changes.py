"""After each change, also without an answer, nobody expects a longer lease than Redis has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import (
    AcquireTimeoutError,
    ConnectionLostError,
    Lease,
    LeaseLostError,
    Redisson,
    ReleaseFailedError,
)
from redisson_py._redis import executor
from redisson_py._time import now
from tests.fixtures.client import ClientFactory
from tests.fixtures.fleet import Fleet, until_executed
from tests.fixtures.redis_server import ProxyFactory
from tests.lifecycle.late_bytes import REENTRANT, executed, recorded, shortest_lease
from tests.support.cluster_look import master_of
from tests.support.streams import answered
from tests.support.waiting import set_safety_poll, until, until_async, until_waiting

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


async def change_leases(lock: Any, steps: Steps, check: Callable[[dict[int, Lease]], Any]) -> None:
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
    """No change_leases shortens another: less is only the allowance for clocks that drift."""
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
    await change_leases(lock, steps, check)
    assert not await lock.locked()


@pytest.mark.parametrize("seconds", [10, 100])
@pytest.mark.parametrize("kind", [kind for kind in REENTRANT if kind != "multi_lock"])
async def test_a_re_entry_keeps_its_end_when_the_outer_lease_is_released(
    kind: str, seconds: int, client: Redisson
) -> None:
    lock = REENTRANT[kind](client)
    outer = await lock.acquire()
    clock = asyncio.get_running_loop().time
    begun = clock()
    # It starts when the request of the re-entry is on its way.
    leaving = asyncio.create_task(outer.release())
    inner = await lock.acquire(lease_time=seconds)
    assert outer._state == "released"
    await leaving
    left = await lock.remaining()
    assert begun + 0.9 * seconds < clock() + inner.remaining
    assert inner.remaining <= left + ROUNDING
    assert left <= seconds + ROUNDING
    assert not inner._hold.renewed
    inner._hold.check()
    await inner.release()
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

    await change_leases(lock, steps, check)
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
async def test_a_live_waiter_keeps_its_position_when_others_ask_later_than_a_lease(
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


each_kind = pytest.mark.parametrize("kind", ["lock", "read_lock", "multi_lock"])
"""Which answer counts is decided here, in one way for all single locks."""


def change(lease: Lease, seconds: float | None) -> asyncio.Task[Any]:
    """Begin to extend a lease, or to release it."""
    return asyncio.create_task(lease.release() if seconds is None else lease.extend(seconds))


async def until_left(redis: Redis, least: float, most: float) -> float:
    """Return the seconds that Redis has left, when they are between these."""
    left = 0.0

    async def executed() -> bool:
        nonlocal left
        left = await shortest_lease(redis) / 1000
        return least < left <= most

    await until_async(executed)
    return left


@pytest.mark.parametrize("seconds", [None, 10], ids=["released", "extended"])
@each_kind
async def test_the_outer_lease_ends_with_what_redis_may_have(
    kind: str, seconds: float | None, clients: ClientFactory, proxy: ProxyFactory, redis: Redis
) -> None:
    link = await proxy()
    lock = REENTRANT[kind](clients(link.url, lease_time=30))
    outer = await lock.acquire()
    inner = await lock.acquire(lease_time=100)
    assert outer.remaining > 90
    link.black_hole("down")
    changing = change(inner, seconds)
    left = await until_left(redis, 0, 30)
    assert 0 < outer.remaining <= left + ROUNDING
    link.pass_through()
    link.cut()
    await changing
    if seconds is not None:
        await inner.release()
    await outer.release()


@pytest.mark.parametrize(
    ("first", "second"),
    [((1, 100), (1, 10)), ((2, None), (1, None)), ((1, 100), (1, None)), ((2, None), (1, 10))],
    ids=["extended twice", "released twice", "extended, released", "released, extended"],
)
@each_kind
async def test_the_answer_to_a_change_does_not_count_after_the_next_was_sent(
    kind: str,
    first: tuple[int, float | None],
    second: tuple[int, float | None],
    clients: ClientFactory,
    proxy: ProxyFactory,
    redis: Redis,
) -> None:
    link = await proxy()
    lock = REENTRANT[kind](clients(link.url, lease_time=30))
    leases = [await lock.acquire(lease_time=seconds) for seconds in (None, 50, None)]
    # The answer to the first is on its way for as long as this test likes.
    link.dribble(1, 0.5)
    answers = link.down.frames + (2 if kind == "multi_lock" else 1)
    begun = change(leases[first[0]], first[1])
    await until_left(redis, 40 if first[1] is None else 90, 100)
    await link.wait_until(lambda link: link.down.frames >= answers)
    link.black_hole("down")
    next_one = change(leases[second[0]], second[1])
    left = await until_left(redis, 0, 30)
    assert not begun.done()
    link.dribble(0, 0)
    await begun
    assert 0 < leases[0].remaining <= left + ROUNDING
    link.pass_through()
    link.cut()
    await next_one
    for lease in leases:
        if lease.remaining:
            await lease.release()


@each_kind
async def test_a_release_that_is_repeated_when_the_others_have_ended_was_no_loss(
    kind: str,
    clients: ClientFactory,
    proxy: ProxyFactory,
    redis: Redis,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It left Redis what the inner lease needs, which was over before the repetition came."""
    # Otherwise the repetition would have to come within the second for which a release is tried.
    monkeypatch.setattr(executor, "SHORTEST_RELEASE_SECONDS", 20.0)
    link = await proxy()
    lock = REENTRANT[kind](clients(link.url, lease_time=30))
    outer, inner = await lock.acquire(), await lock.acquire(lease_time=1)
    releasing = await executed(link, outer.release())

    async def ended() -> bool:
        return not await recorded(redis)

    await until_async(ended)
    link.pass_through()
    await releasing
    with pytest.raises(LeaseLostError):
        await inner.release()


@pytest.mark.parametrize("again", [False, True], ids=["extended", "re-entered"])
@pytest.mark.parametrize("kind", REENTRANT)
@pytest.mark.more
async def test_a_release_is_repeated_for_a_long_lease_without_an_answer(
    kind: str, again: bool, clients: ClientFactory, proxy: ProxyFactory, redis: Redis
) -> None:
    """Its holder relies on the short lease of before, and Redis may keep the long one."""
    link = await proxy()
    lock = REENTRANT[kind](clients(link.url, lease_time=2, command_timeout=0.5))
    lease = await lock.acquire(timeout=20, lease_time=2)
    link.cut_after_execution(b"EVALSHA")
    link.refuse()
    with pytest.raises(ConnectionLostError):
        await (lock.try_acquire(timeout=0.5, lease_time=100) if again else lease.extend(100))
    await link.wait_until(lambda link: link.triggered == 1)
    with pytest.raises((LeaseLostError, ReleaseFailedError)):
        await lease.release()
    # The outage outlasts by far what the holder relied on.
    ends_at = now() + 3
    await until(lambda: now() > ends_at)
    assert await recorded(redis)
    link.pass_through()

    async def free() -> bool:
        return not await recorded(redis)

    await until_async(free)


@pytest.mark.more
async def test_a_release_is_repeated_for_a_renewal_without_an_answer(
    clients: ClientFactory, proxy: ProxyFactory, redis: Redis
) -> None:
    """Redis may keep what it renewed for longer than its holder knows."""
    link = await proxy()
    client = clients(link.url, lease_time=9, command_timeout=0.5)
    lease = await client.get_lock("k").acquire(timeout=20)
    known_until = now() + 9
    link.cut_after_execution(b"EVALSHA")
    link.refuse()
    # A third of the lease later.
    await link.wait_until(lambda link: link.triggered == 1)
    with pytest.raises(ReleaseFailedError):
        await lease.release()
    async with redis.pubsub() as listening:
        await listening.subscribe("redisson_lock__channel:{k}")
        assert await listening.get_message(timeout=20)
        await until(lambda: now() > known_until)
        assert await recorded(redis)
        link.pass_through()
        # An end of its lease would tell nobody.
        assert await listening.get_message(ignore_subscribe_messages=True, timeout=20)
    assert not await recorded(redis)
