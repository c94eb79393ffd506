"""Memory stays flat: nothing is kept of an acquisition, a name, a task or a channel."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import Redisson
from redisson_py._engine.context import Parts
from redisson_py._keys import lock_channel
from tests.fixtures.client import ClientFactory, assert_idle
from tests.fixtures.measured import Measured
from tests.support.waiting import until

#: A leak of one small object in thirty acquisitions would be more.
MOST_BLOCKS_SHARE = 1 / 30
#: A leak of 63 bytes an acquisition would be more. Generous: what the system gives and takes back
#: comes in lumps.
MOST_RSS = 6 * 1024 * 1024

#: A client keeps at most twice as many locks used of late, and their queues, however many names it
#: used; and fewer queues beside them with some hundred tasks at a time.
MOST_QUEUES = 2_048

TASKS = 64
Work = Callable[[int], Awaitable[None]]

# They only calculate, which may take long on a busy machine.
pytestmark = pytest.mark.timeout(900)


def rss() -> int:
    """Return the memory this process has now, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def swept(client: Redisson) -> bool:
    registry = client._context.registry
    (locks,) = client._kept.values()
    assert len(locks) + len(locks._old) <= 2 * MOST_QUEUES
    locks.clear()
    locks._old.clear()
    every: list[Parts[Any]] = [*registry.queues.values(), *registry.holds.values()]
    for parts in every:
        for _ in range(len(parts._keys)):
            parts._look_at_some()
    return not registry.all_queues()


async def settle(clients: list[Redisson]) -> None:
    """Wait until the clients let go of the channels, which they do a moment after the last use."""
    for client in clients:
        await until(lambda each=client: not each._context.bus.table.channels)  # type: ignore[misc]
        assert_idle(client)
        # Queues nobody needs are forgotten when there are more; now, so that counts compare.
        assert len(client._context.registry.all_queues()) <= 3 * MOST_QUEUES
        await until(lambda each=client: swept(each))  # type: ignore[misc]
    gc.collect()


async def assert_flat(
    work: Work, acquisitions: int, clients: list[Redisson], measured: Measured
) -> None:
    """Do `work` so many times; compare the memory before and after."""
    await work(acquisitions // 20)
    await settle(clients)
    blocks, resident = sys.getallocatedblocks(), rss()
    await work(acquisitions)
    await settle(clients)
    more_blocks, resident_after = sys.getallocatedblocks() - blocks, rss()
    measured("acquisitions", f"{acquisitions:,}")
    measured("RSS before and after", f"{resident >> 10:,} KiB, {resident_after >> 10:,} KiB")
    measured("more allocated blocks", f"{more_blocks:,}")
    assert more_blocks < MOST_BLOCKS_SHARE * acquisitions
    assert resident_after - resident < MOST_RSS


async def test_a_hundred_thousand_acquisitions_leave_nothing(
    clients: ClientFactory, redis: Redis, measured: Measured
) -> None:
    # With turn=0 every hand-off goes through Redis, with its message and its wake-up.
    passing, first, second = clients(), clients(turn=0), clients(turn=0)

    async def repeat(client: Redisson, name: str, times: int) -> None:
        lock = client.get_lock(name)
        for _ in range(times):
            async with lock:
                pass

    async def work(acquisitions: int) -> None:
        share = acquisitions // TASKS // 20
        async with asyncio.TaskGroup() as group:
            for number in range(TASKS):
                group.create_task(repeat(passing, f"own {number}", 10 * share))
                group.create_task(repeat(passing, "one for all", 8 * share))
                group.create_task(repeat((first, second)[number % 2], f"{number // 8}", 2 * share))

    await assert_flat(work, 100_000, [passing, first, second], measured)
    # Nor at the server: only what the three say of themselves is there, and that expires.
    assert await redis.dbsize() <= 3


async def test_a_hundred_thousand_names_and_tasks_leave_nothing(
    clients: ClientFactory, redis: Redis, measured: Measured
) -> None:
    client, other = clients(), clients()
    numbers = iter(range(10**9))

    async def once(lock_of: Redisson, name: str) -> None:
        async with lock_of.get_lock(name):
            pass

    async def contended(name: str) -> None:
        channel = lock_channel(name.encode())
        async with client.get_lock(name):
            waiting = asyncio.create_task(once(other, name))
            await until(lambda: other._context.bus.table.channel(channel))
        await waiting

    async def work(acquisitions: int) -> None:
        for _ in range(acquisitions // 200):
            async with asyncio.TaskGroup() as group:
                for _ in range(180):
                    group.create_task(once(client, f"n{next(numbers)}"))
                # A channel and a seat as well for each of these.
                for _ in range(10):
                    group.create_task(contended(f"n{next(numbers)}"))

    await assert_flat(work, 100_000, [client, other], measured)
    assert other.statistics().wake_ups >= 5_000
    assert await redis.dbsize() <= 2
