"""A hold that ends by itself costs the same however many wait for it: only the next in turn ask.

Everybody was told by the server when it ends. Counted by the server: scripts that it ran.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

import pytest
from redis.asyncio import Redis

from redisson_py import Lease, LeaseLostError, Redisson
from redisson_py._redis.commands import read_write_lock
from redisson_py._time import milliseconds
from tests.fixtures.client import ClientFactory
from tests.support.scripts.calls import A, Scripts
from tests.support.scripts.permits import SemaphoreScripts
from tests.support.waiting import set_safety_poll, until, until_listening, until_waiting

#: Seconds: the lease of each hold that runs out.
LEASE = 0.3
#: Holds that run out while the crowd waits.
ENDS = 3
#: Seconds: a lease that no test waits for.
FAR = 600.0

sizes = pytest.mark.parametrize(
    "size", [50, 500, pytest.param(2000, marks=pytest.mark.more)], ids=str
)
spreads = pytest.mark.parametrize("spread", [1, 5], ids=["one client", "five clients"])

Make = Callable[[Redisson], Any]

ALONE: dict[str, Make] = {
    "lock": lambda client: client.get_lock("k"),
    "fenced lock": lambda client: client.get_fenced_lock("k"),
    "fair lock": lambda client: client.get_fair_lock("k"),
    "write lock": lambda client: client.get_read_write_lock("k").write_lock(),
    "preferred write lock": lambda client: client.get_read_write_lock(
        "k", prefer="writers"
    ).write_lock(),
    "expirable semaphore": lambda client: client.get_permit_expirable_semaphore("semaphore", 1),
}


@pytest.fixture(autouse=True)
def no_safety_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asks but for a message, or at the end that the server has named."""
    set_safety_poll(monkeypatch, 1000)


class Crowd:
    """Tasks that wait for one thing; each that gets it lets its lease run out, except the last.

    Attributes:
        grants: How many have had it.
        kept: The lease of the last.
    """

    def __init__(self, clients: list[Redisson], make: Make, size: int, last: int) -> None:
        self.grants = 0
        self.kept: Lease | None = None
        self._clients = clients
        self._last = last
        several = [make(client) for client in clients]
        self._tasks = [
            asyncio.create_task(self._have(several[number % len(several)]))
            for number in range(size)
        ]

    async def _have(self, what: Any) -> None:
        lease = await what.acquire(lease_time=LEASE)
        self.grants += 1
        if self.grants >= self._last:
            # On a busy machine its lease may be over first; then the next is the last.
            with suppress(LeaseLostError):
                # From here on nothing ends.
                await lease.extend(FAR)
                self.kept = lease

    async def __aenter__(self) -> Self:
        for client in self._clients:
            await until_waiting(client, len(self._tasks) // len(self._clients))
            await until_listening(client)
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        if self.kept is not None:
            await self.kept.release()


async def scripts_run(redis: Redis) -> int:
    """Return how many scripts ran since the statistics were reset."""
    stats: Any = await redis.info("commandstats")
    return int(stats["cmdstat_evalsha"]["calls"]) if "cmdstat_evalsha" in stats else 0


async def until_quiet(redis: Redis) -> int:
    """Return how many scripts ran, when none has run for longer than a lease."""
    ran, before = await scripts_run(redis), -1
    while ran != before:
        before = ran
        await asyncio.sleep(2 * LEASE)
        ran = await scripts_run(redis)
    return ran


@pytest.mark.parametrize("kind", ALONE)
@sizes
@spreads
async def test_of_a_crowd_only_the_next_in_order_ask(
    clients: ClientFactory, redis: Redis, kind: str, size: int, spread: int
) -> None:
    some = [clients(lease_time=FAR) for _ in range(spread)]
    first = await ALONE[kind](some[0]).acquire()
    async with Crowd(some, ALONE[kind], size, ENDS + 1) as crowd:
        await redis.config_resetstat()
        await first.release()
        await until(lambda: crowd.kept is not None)
        ran = await until_quiet(redis)
        assert ran <= most_scripts(kind, spread, crowd.grants - 1)


def most_scripts(kind: str, spread: int, ends: int) -> int:
    """Return how many scripts may run from the first release to the last change of a lease."""
    if kind not in ("lock", "fenced lock"):
        # In Redis only fair waiters stand in one queue; else the first of each client asks.
        asking = 1 if kind == "fair lock" else spread
        return (ends + 2) * (2 * asking + 2)
    # Of the queue of clients only the first two ask: before they listen and after, when there was
    # no news for a while, and at the end that the server has named. One client alone asks once to
    # be granted what it has released.
    asked = 1 + 4 * ends if spread == 1 else 2 * 4 * (ends + 1)
    return 1 + asked + 1


@sizes
@spreads
async def test_the_units_of_a_holder_that_died(
    clients: ClientFactory, redis: Redis, size: int, spread: int
) -> None:
    dead = SemaphoreScripts(await Scripts.on(redis))
    assert await dead.acquire(A, start_units=1, lease_ms=milliseconds(FAR)) is None
    some = [clients(lease_time=FAR) for _ in range(spread)]
    semaphores = [client.get_semaphore("semaphore", 1) for client in some]
    tasks = [asyncio.create_task(semaphores[n % spread].acquire()) for n in range(size)]
    for client in some:
        await until_waiting(client, size // spread)
        await until_listening(client)
    await redis.config_resetstat()
    assert await dead.set_lease(A, milliseconds(LEASE)) == 1
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    assert await until_quiet(redis) <= 3 * spread + 5
    for task in pending:
        task.cancel()
    await asyncio.wait(pending)
    await done.pop().result().release()


@pytest.mark.parametrize("yielding", [50, 500])
async def test_readers_that_end_wake_the_writer_and_not_the_readers_that_yield_to_it(
    clients: ClientFactory, redis: Redis, monkeypatch: pytest.MonkeyPatch, yielding: int
) -> None:
    # Shorter than the lease of the writer: the readers need not be told of that.
    monkeypatch.setattr(read_write_lock, "WRITER_ALIVE_SECONDS", FAR / 2)
    client = clients(lease_time=FAR)
    lock = client.get_read_write_lock("k", prefer="writers")

    async def read(number: int) -> Lease:
        return await lock.read_lock().acquire(lease_time=4 + number / 400)

    readers = await asyncio.gather(*[read(number) for number in range(400)])
    writing = asyncio.create_task(lock.write_lock().acquire())
    await until_waiting(client, 1)
    await until_listening(client)
    tasks = [asyncio.create_task(lock.read_lock().acquire()) for _ in range(yielding)]
    await until_waiting(client, 1 + yielding)
    await until_listening(client)
    await redis.config_resetstat()
    writer = await writing
    # Each of the readers takes what is left of it out.
    assert await until_quiet(redis) <= len(readers) + 10
    assert all(reader.lost for reader in readers)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    await writer.release()
