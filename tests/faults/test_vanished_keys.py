"""Keys that vanish one by one, by eviction or an operator's hand: each subset, at each moment.

Whatever is gone: in the end no more holders believe in a hold than there may be, a holder whose
record is gone is told by its next renewal, and what cannot be mended says which method to call.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import AcquireTimeoutError, BrokenBarrierError, LeaseLostError, Redisson
from tests.fixtures.client import ClientFactory
from tests.support.latch_and_barrier import assert_works, until_waiting_at
from tests.support.leases import renewed_at_once
from tests.support.waiting import set_safety_poll, until_async, until_listening

pytestmark = pytest.mark.also("redis7")

#: Seconds within which waiters look again whose message will never come.
POLL, SOON = 0.2, 20.0


@pytest.fixture(autouse=True)
def frequent_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    set_safety_poll(monkeypatch, POLL)


def subsets(parts: Sequence[str]) -> list[tuple[str, ...]]:
    """Return each subset of the keys of an object but the empty one."""
    counts = range(1, len(parts) + 1)
    return [some for count in counts for some in itertools.combinations(parts, count)]


async def vanish(redis: Redis, parts: Sequence[str]) -> None:
    """Delete the keys that match."""
    for part in parts:
        keys = await redis.keys(part)
        if keys:
            await redis.delete(*keys)


async def all_renewed(*clients: Redisson) -> None:
    """Have clients renew what they hold, so that each holder has been told of a loss."""
    for client in clients:
        if client.statistics().held_leases:
            await renewed_at_once(client)


async def give_back(*leases: Any) -> None:
    """Release leases; one whose holder was told of its loss must say so again."""
    for lease in leases:
        if lease.lost:
            with pytest.raises(LeaseLostError):
                await lease.release()
        else:
            with suppress(LeaseLostError):
                await lease.release()


when = pytest.mark.parametrize("newcomer_first", [True, False], ids=["newcomer", "renewal"])


# Semaphores.

NAME, PERMITS = "semaphore", 3
LEASES, UNITS = "{semaphore}:redisson_py:permits", "{semaphore}:redisson_py:units"
SEMAPHORES: dict[str, tuple[Callable[[Redisson], Any], tuple[str, ...]]] = {
    "plain": (
        lambda client: client.get_semaphore(NAME, PERMITS),
        (NAME, LEASES, UNITS),
    ),
    "with ids": (
        lambda client: client.get_permit_expirable_semaphore(NAME, PERMITS),
        (NAME, "{semaphore}:timeout"),
    ),
}


async def take_two(semaphore: Any) -> list[Any]:
    """Take two permits at once."""
    if hasattr(semaphore, "acquire_many"):
        return list(await semaphore.acquire_many(2))
    return [await semaphore.acquire(2)]


async def take_all_free(semaphore: Any) -> list[Any]:
    """Take permits as long as there are any."""
    taken: list[Any] = []
    while (permit := await semaphore.try_acquire()) is not None:
        taken.append(permit)
        assert len(taken) <= PERMITS, "more were given than there are"
    return taken


@when
@pytest.mark.parametrize("moment", ["held", "waited for", "free"])
@pytest.mark.parametrize(
    ("kind", "gone"),
    [(kind, gone) for kind, (_, parts) in SEMAPHORES.items() for gone in subsets(parts)],
)
async def test_a_semaphore_never_has_more_holders_and_says_what_it_lacks(
    kind: str,
    gone: tuple[str, ...],
    moment: str,
    newcomer_first: bool,
    clients: ClientFactory,
    redis: Redis,
) -> None:
    make = SEMAPHORES[kind][0]
    one, two, newcomer, waiter = clients(), clients(), clients(), clients()
    held = [await make(one).acquire(), *await take_two(make(two))]
    if moment == "free":
        await give_back(*held)
        held = []
    waiting: list[asyncio.Task[Any]] = []
    if moment == "waited for":
        waiting.append(asyncio.create_task(make(waiter).acquire()))
        await until_listening(waiter)

    await vanish(redis, gone)
    if not newcomer_first:
        await all_renewed(one, two)
    held += await take_all_free(make(newcomer))
    await all_renewed(one, two, newcomer, waiter)
    believed = held + [task.result() for task in waiting if task.done()]
    assert sum(permit.units for permit in believed) <= PERMITS

    await give_back(*held)
    semaphore = make(newcomer)
    async with asyncio.timeout(SOON):
        if waiting and (waiting[0].done() or await semaphore.available()):
            await give_back(await waiting[0])
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    if await semaphore.available() < PERMITS:
        several = (
            semaphore.acquire_many if hasattr(semaphore, "acquire_many") else semaphore.acquire
        )
        with pytest.raises(AcquireTimeoutError, match="call set_permits"):
            await several(PERMITS, timeout=0)
        await semaphore.set_permits(PERMITS)
    last = [await semaphore.acquire(timeout=SOON) for _ in range(PERMITS)]
    assert await semaphore.try_acquire() is None
    await give_back(*last)
    assert await semaphore.available() == PERMITS


@pytest.mark.parametrize("units", [1, 2])
@pytest.mark.parametrize("part", [LEASES, UNITS])
async def test_what_a_living_holder_had_of_a_damaged_semaphore_comes_back(
    part: str, units: int, clients: ClientFactory, redis: Redis
) -> None:
    """Either record says enough together with what the holder knows."""
    one, two = clients(), clients()
    held = await one.get_semaphore(NAME, PERMITS).acquire(units)
    await vanish(redis, [part])
    # So that not even the key is missing any more.
    other = await two.get_semaphore(NAME).acquire()
    await all_renewed(one, two)
    await give_back(held, other)
    assert await two.get_semaphore(NAME).available() == PERMITS


# Locks.


@dataclass(frozen=True)
class Lock:
    """A kind of lock.

    Attributes:
        make: Makes one.
        parts: Its keys.
        rival: Makes what it excludes; None: another one of it.
        shared: It excludes its rival only.
    """

    make: Callable[[Redisson], Any]
    parts: tuple[str, ...]
    rival: Callable[[Redisson], Any] | None = None
    shared: bool = False


QUEUE = ("redisson_lock_queue:{k}", "redisson_lock_timeout:{k}", "{k}:redisson_py:waiters")
LOCKS = {
    "lock": Lock(lambda client: client.get_lock("k"), ("k",)),
    "fenced": Lock(lambda client: client.get_fenced_lock("k"), ("k", "redisson_lock_token:{k}")),
    "fair": Lock(lambda client: client.get_fair_lock("k"), ("k", *QUEUE)),
    "write": Lock(
        lambda client: client.get_read_write_lock("k", prefer="writers").write_lock(),
        ("k", "{k}:redisson_py:writers"),
    ),
    "read": Lock(
        lambda client: client.get_read_write_lock("k", prefer="writers").read_lock(),
        ("k", "{k}:*:rwlock_timeout:1", "{k}:*:rwlock_timeout:2", "{k}:redisson_py:writers"),
        lambda client: client.get_read_write_lock("k", prefer="writers").write_lock(),
        True,
    ),
}


@when
@pytest.mark.parametrize("moment", ["held", "waited for", "free"])
@pytest.mark.parametrize(
    ("kind", "gone"), [(kind, gone) for kind, lock in LOCKS.items() for gone in subsets(lock.parts)]
)
async def test_a_lock_has_one_holder_who_is_notified(
    kind: str,
    gone: tuple[str, ...],
    moment: str,
    newcomer_first: bool,
    clients: ClientFactory,
    redis: Redis,
) -> None:
    lock = LOCKS[kind]
    rival = lock.rival or lock.make
    one, two, newcomer, waiter = clients(), clients(), clients(), clients()
    held = [await lock.make(one).acquire()]
    if lock.shared:
        held.append(await lock.make(two).acquire())
    first_tokens = [getattr(lease, "token", 0) for lease in held]
    if moment == "free":
        await give_back(*held)
        held = []
    waiting: list[asyncio.Task[Any]] = []
    if moment == "waited for":
        waiting.append(asyncio.create_task(rival(waiter).acquire()))
        await until_listening(waiter)

    await vanish(redis, gone)
    if not newcomer_first:
        await all_renewed(one, two)
    came = await rival(newcomer).try_acquire()
    await all_renewed(one, two, newcomer, waiter)
    came_later = [lease for lease in [came] if lease is not None]
    came_later += [task.result() for task in waiting if task.done()]
    believed = [lease for lease in held + came_later if not lease.lost]
    exclusive = [lease for lease in believed if lease in came_later or not lock.shared]
    assert len(exclusive) <= 1
    assert not exclusive or exclusive == believed
    if kind == "fenced":
        assert all(lease.token > max(first_tokens) for lease in came_later)

    await give_back(*held, *([came] if came else []))
    async with asyncio.timeout(SOON):
        for task in waiting:
            await give_back(await task)
        last = await rival(newcomer).acquire()
    assert kind != "fenced" or last.token > max(first_tokens)
    await last.release()
    assert not await rival(one).locked()


# Latches and barriers.


@pytest.mark.parametrize("gone", subsets(["l", "{l}:redisson_py:receipt:*"]))
@pytest.mark.parametrize("moment", ["waited for", "counted down"])
async def test_a_latch_that_vanished_is_open_and_receipts_are_not_missed(
    gone: tuple[str, ...], moment: str, clients: ClientFactory, redis: Redis
) -> None:
    one, waiter = clients(), clients()
    latch = one.get_latch("l")
    assert await latch.try_set_count(3)
    waiting = asyncio.create_task(waiter.get_latch("l").wait())
    await until_listening(waiter)
    if moment == "counted down":
        assert await latch.count_down() == 2
    left = await latch.count()
    await vanish(redis, gone)
    while left and "l" not in gone:
        left -= 1
        assert not waiting.done()
        assert await latch.count_down() == left
    async with asyncio.timeout(SOON):
        await waiting
    assert await latch.count_down() == 0


PARTS = ("barrier", "arrivals", "released", "arrival:*")


@pytest.mark.parametrize("gone", subsets([f"{{b}}:redisson_py:{part}" for part in PARTS]))
@pytest.mark.parametrize("moment", ["waited for", "free"])
async def test_a_barrier_lets_all_go_or_tells_them(
    gone: tuple[str, ...], moment: str, clients: ClientFactory, redis: Redis
) -> None:
    # Parties look again after a third of this.
    one, two, three = (clients(lease_time=3) for _ in range(3))
    await asyncio.gather(*(client.get_barrier("b", 3).wait(SOON) for client in (one, two, three)))
    parties: list[asyncio.Task[int]] = []
    if moment == "waited for":
        parties = [
            asyncio.create_task(client.get_barrier("b", 3).wait(SOON)) for client in (one, two)
        ]
        await until_waiting_at(one.get_barrier("b", 3), 2)
    await vanish(redis, gone)
    intact = moment == "free" or not {*gone} & {f"{{b}}:redisson_py:{part}" for part in PARTS[:2]}
    if parties and intact:
        parties.append(asyncio.create_task(three.get_barrier("b", 3).wait(SOON)))
    outcomes = await asyncio.gather(*parties, return_exceptions=True)
    if intact:
        assert sorted(outcomes) == [*range(len(parties))]  # type: ignore[type-var]
    else:
        assert {type(each) for each in outcomes} == {BrokenBarrierError}
    barrier = one.get_barrier("b", 3)

    async def mended() -> bool:
        return not await barrier.broken()

    await until_async(mended)
    await assert_works(barrier)
