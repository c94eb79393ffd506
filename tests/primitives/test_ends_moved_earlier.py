"""An end sooner than the server had said is announced: no waiter sleeps until the old one.

Each waiter was told of an end a minute away, and its safety poll would come later still.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import Redisson
from redisson_py._redis.commands import read_write_lock
from tests.fixtures.client import ClientFactory
from tests.support.scripts.calls import A, Scripts
from tests.support.scripts.read_write import ReadWriteScripts
from tests.support.waiting import listens, set_safety_poll, until, until_listening, until_waiting

#: Seconds: an end that nobody who waits for it would live to see.
FAR = 60.0
#: Seconds: the end to which it is moved.
NEAR = 0.2
#: Seconds within which a waiter must be served: long after `NEAR`, long before `FAR`.
IN_TIME = 20.0

Make = Callable[[Redisson], Any]


def lock(client: Redisson) -> Any:
    return client.get_lock("k")


def fenced(client: Redisson) -> Any:
    return client.get_fenced_lock("k")


def fair(client: Redisson) -> Any:
    return client.get_fair_lock("k")


def reads(client: Redisson) -> Any:
    return client.get_read_write_lock("k").read_lock()


def writes(client: Redisson) -> Any:
    return client.get_read_write_lock("k").write_lock()


def yielding_reads(client: Redisson) -> Any:
    return client.get_read_write_lock("k", prefer="writers").read_lock()


def preferred_writes(client: Redisson) -> Any:
    return client.get_read_write_lock("k", prefer="writers").write_lock()


def permits(client: Redisson) -> Any:
    return client.get_permit_expirable_semaphore("semaphore", 1)


#: What is held, and what waits for it.
PAIRS: list[tuple[Make, Make]] = [
    (lock, lock),
    (lock, fenced),
    (fenced, fenced),
    (fenced, lock),
    (fair, fair),
    (writes, writes),
    (writes, reads),
    (reads, writes),
    (preferred_writes, preferred_writes),
    (preferred_writes, yielding_reads),
    (preferred_writes, reads),
    (yielding_reads, preferred_writes),
    (permits, permits),
]

pairs = pytest.mark.parametrize(
    ("held", "waits"), PAIRS, ids=[f"{a.__name__}-{b.__name__}" for a, b in PAIRS]
)
here_and_there = pytest.mark.parametrize("same_client", [True, False], ids=["here", "elsewhere"])
reentrant_pairs = pytest.mark.parametrize(
    ("held", "waits"), PAIRS[:-1], ids=[f"{a.__name__}-{b.__name__}" for a, b in PAIRS[:-1]]
)


@pytest.fixture(autouse=True)
def only_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A waiter that is not woken sleeps for longer than any test waits."""
    set_safety_poll(monkeypatch, 1000)
    monkeypatch.setattr(read_write_lock, "WRITER_ALIVE_SECONDS", 3000.0)


@pytest.fixture
def holder(clients: ClientFactory) -> Redisson:
    return clients(lease_time=10 * FAR)


@pytest.fixture
def other(clients: ClientFactory, holder: Redisson, same_client: bool) -> Redisson:
    """The client of the waiter."""
    return holder if same_client else clients(lease_time=10 * FAR)


async def use(what: Any) -> None:
    """Acquire it and give it back."""
    lease = await what.acquire()
    await lease.release()


async def waiting(client: Redisson, what: Any) -> asyncio.Task[None]:
    """Have a task wait: in the local queue, or told by the server when the hold ends."""
    count = client.statistics().waiters
    task = asyncio.create_task(use(what))
    await until_waiting(client, count + 1)
    queues = client._context.registry.all_queues()
    await until(lambda: any(queue.waiters for queue in queues) or listens(client._context))
    return task


async def served(*tasks: asyncio.Task[None]) -> None:
    """Fail unless all are served in time."""
    _, late = await asyncio.wait(tasks, timeout=IN_TIME)
    for task in late:
        task.cancel()
    await asyncio.wait(tasks)
    assert not late, "slept on until the end that it had been told"
    for task in tasks:
        await task


@pairs
@here_and_there
async def test_a_lease_that_is_extended_to_a_shorter_one(
    holder: Redisson, other: Redisson, held: Make, waits: Make
) -> None:
    lease = await held(holder).acquire(lease_time=FAR)
    task = await waiting(other, waits(other))
    await lease.extend(NEAR)
    await served(task)


@reentrant_pairs
@here_and_there
async def test_a_longer_reentry_that_is_released(
    holder: Redisson, other: Redisson, held: Make, waits: Make
) -> None:
    outer = await held(holder).acquire(lease_time=FAR)
    inner = await held(holder).acquire(lease_time=10 * FAR)
    task = await waiting(other, waits(other))
    await outer.extend(NEAR)
    assert not inner.lost
    await inner.release()
    await served(task)


@pytest.mark.parametrize(("held", "waits"), [(reads, writes), (yielding_reads, preferred_writes)])
@here_and_there
async def test_the_reader_that_leaves_had_the_longest_lease(
    redis: Redis, holder: Redisson, other: Redisson, held: Make, waits: Make
) -> None:
    dead = ReadWriteScripts(await Scripts.on(redis), b"k")
    longest = await held(holder).acquire(lease_time=FAR)
    assert await dead.read.acquire(A, lease_ms=4000) is None
    task = await waiting(other, waits(other))
    await longest.release()
    await served(task)


@here_and_there
async def test_the_lease_of_a_permit_is_set_by_its_id(holder: Redisson, other: Redisson) -> None:
    permit = await permits(holder).acquire(lease_time=FAR)
    task = await waiting(other, permits(other))
    assert await permits(holder).update_lease_time(permit.id, NEAR)
    await served(task)


@here_and_there
async def test_units_of_a_plain_semaphore(holder: Redisson, other: Redisson) -> None:
    permit = await holder.get_semaphore("semaphore", 1).acquire()
    task = await waiting(other, other.get_semaphore("semaphore", 1))
    await permit.extend(NEAR)
    await served(task)


@here_and_there
async def test_readers_that_yielded_learn_of_the_lease_of_the_writer_that_came_in(
    clients: ClientFactory, holder: Redisson, other: Redisson
) -> None:
    reader = await yielding_reads(clients()).acquire(lease_time=FAR)

    async def write() -> None:
        await preferred_writes(holder).acquire(lease_time=NEAR)

    writer = asyncio.create_task(write())
    await until_waiting(holder, 1)
    await until_listening(holder)
    task = await waiting(other, yielding_reads(other))
    await reader.release()
    await served(writer, task)


@pytest.mark.parametrize("held", [lock, fenced, writes, preferred_writes])
async def test_a_task_waits_for_its_own_client_and_another_client_frees_the_lock(
    clients: ClientFactory, held: Make
) -> None:
    client = clients(lease_time=10 * FAR)
    lease = await held(client).acquire()
    task = await waiting(client, held(client))
    assert await held(clients()).force_release()
    await served(task)
    assert lease.lost


@pytest.mark.parametrize("held", [lock, fair, writes, permits])
async def test_a_waiter_that_asked_together_with_the_holder(holder: Redisson, held: Make) -> None:
    """It is not behind the holder in the local queue."""
    await holder.ping()
    holding = asyncio.create_task(held(holder).try_acquire())
    task = asyncio.create_task(use(held(holder)))
    lease = await holding
    assert lease is not None
    await lease.extend(NEAR)
    await served(task)
