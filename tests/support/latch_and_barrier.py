"""How tests get latches and barriers, and what several of them ask of a barrier."""

from __future__ import annotations

import asyncio

from redisson_py import BrokenBarrierError, Redisson
from redisson_py.barriers.barrier import CyclicBarrier
from redisson_py.barriers.latch import CountDownLatch
from tests.support.waiting import until_async


def get_latch(
    client: Redisson, name: str | bytes = "c", count: int | None = None
) -> CountDownLatch:
    """Return a latch of this client."""
    return client.get_latch(name, count)


def get_barrier(client: Redisson, name: str | bytes = "r", parties: int = 3) -> CyclicBarrier:
    """Return a barrier of this client."""
    return client.get_barrier(name, parties)


async def until_waiting_at(barrier: CyclicBarrier, count: int) -> None:
    """Return when so many parties wait."""

    async def as_many() -> bool:
        return await barrier.n_waiting() == count

    await until_async(as_many)


async def assert_broken(*waiting: asyncio.Task[int], within: float = 3) -> None:
    """Fail unless all of them learn it soon: not by the safety poll or the end of a lease."""
    async with asyncio.timeout(within):
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {BrokenBarrierError}


async def assert_works(barrier: CyclicBarrier) -> None:
    """Fail unless all parties can meet."""
    positions = await asyncio.gather(*[barrier.wait(10) for _ in range(barrier.parties)])
    assert sorted(positions) == [*range(barrier.parties)]
