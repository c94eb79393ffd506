"""How soon a holder is told that it lost its lock, in fractions of the lease.

Somebody deletes the key, or all keys: told at the next renewal, a third of the lease later at
most. Nobody answers any more: told when the lease ends by the local clock, before Redis gives
the lock to anybody else.
"""

from __future__ import annotations

import asyncio
import random
from time import monotonic

from redis.asyncio import Redis

from benchmarks.crew import Bench
from benchmarks.harness import Table, percentile
from benchmarks.rivals import OURS, OURS_UVLOOP
from benchmarks.rivals.side import Side
from redisson_py import LeaseLostError, Redisson
from redisson_py.testing import FaultProxy, running_server

NAME = "loss"


async def measure(bench: Bench) -> Table:
    """Measure on a server of its own, which is emptied."""
    size = bench.size
    table = Table(
        NAME,
        f"Time until a loss is told, {size.losses} leases of {size.lost_lease:g} s",
        notes=["In fractions of the lease, except where ms are named. Only ours tells at all."],
    )
    sides = bench.sides(table, OURS, OURS_UVLOOP)
    # Both at once: they mostly wait.
    found = await asyncio.gather(*[_losses(bench, side) for side in sides])
    for side, rows in zip(sides, found, strict=True):
        for row, times in rows.items():
            table.add(f"{side}: {row}", _figures(times))
    return table


async def _losses(bench: Bench, side: str) -> dict[str, list[float]]:
    size = bench.size
    async with running_server(bench.kind) as server:
        rows: dict[str, list[float]] = await bench.workers[side][0].do(
            "lose", url=server.url, count=size.losses, lease=size.lost_lease
        )
    return rows


def _figures(times: list[float]) -> dict[str, float]:
    return {
        "median": percentile(times, 0.5),
        "p99": percentile(times, 0.99),
        "least": min(times),
        "most": max(times),
    }


# In the workers.


async def lose(side: Side, *, url: str, count: int, lease: float) -> dict[str, list[float]]:
    """Lose `count` leases in each way, each of a client of its own, at random moments."""
    async with Redis.from_url(url) as server:
        deleted = await asyncio.gather(*[_deleted(server, url, n, lease) for n in range(count)])
        flushed = await _flushed(server, url, count, lease)
    async with FaultProxy.in_front_of(url) as proxy:
        cut_off = [asyncio.create_task(_cut_off(proxy.url, n, lease)) for n in range(count)]
        # Renewed at least once.
        await asyncio.sleep(lease)
        cut_at = monotonic()
        proxy.black_hole()
        moments = await asyncio.gather(*cut_off)
        proxy.pass_through()
    return {
        "DEL of the key": deleted,
        "FLUSHALL": flushed,
        "no answer any more": [(reported - cut_at) / lease for reported, _ in moments],
        "ms after the lease's local end": [(reported - end) * 1e3 for reported, end in moments],
    }


async def _deleted(server: Redis, url: str, number: int, lease: float) -> float:
    async with Redisson.from_url(url, lease_time=lease) as client:
        held = await client.get_lock(f"loss:{number}").acquire()
        await asyncio.sleep(lease * random.uniform(0.5, 1.0))
        start = monotonic()
        await server.delete(f"loss:{number}")
        await held.wait_lost()
        return (monotonic() - start) / lease


async def _flushed(server: Redis, url: str, count: int, lease: float) -> list[float]:
    flushed = asyncio.get_running_loop().create_future()

    async def hold(number: int) -> float:
        # Their renewals are spread over a period.
        await asyncio.sleep(random.uniform(0, lease / 3))
        async with Redisson.from_url(url, lease_time=lease) as client:
            held = await client.get_lock(f"loss:{number}").acquire()
            start: float = await asyncio.shield(flushed)
            await held.wait_lost()
            return (monotonic() - start) / lease

    tasks = [asyncio.create_task(hold(number)) for number in range(count)]
    await asyncio.sleep(lease)
    await server.flushall()
    flushed.set_result(monotonic())
    return await asyncio.gather(*tasks)


async def _cut_off(url: str, number: int, lease: float) -> tuple[float, float]:
    """Return when the body was cancelled, and when its lease ended by the local clock."""
    reported = end = 0.0
    await asyncio.sleep(random.uniform(0, lease / 3))
    async with Redisson.from_url(url, lease_time=lease) as client:
        try:
            async with client.get_lock(f"loss:{number}") as held:
                try:
                    while True:
                        end = monotonic() + held.remaining
                        await asyncio.sleep(lease / 50)
                finally:
                    reported = monotonic()
        except LeaseLostError:
            pass
    return reported, end
