"""With a black hole the loss is known before the server lets somebody else in; how long before?

One run: a client behind a proxy holds a lock, another client, not behind it, waits for the
lock, and at a random phase between two renewals the network swallows everything. Noted are

- `over`: from when the lease says it is lost (`lease.lost` reads the clock, so this is exact
  however late the event loop is),
- `told`: when the cancellation arrived in the body (a timer's work, so as late as the loop),
- `server_end`: when the server drops the key, by its own clock, which on one machine is ours,
- `asked`: when the other client asked the question that was granted; it was let in by `let_in`.
"""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import suppress
from dataclasses import dataclass
from statistics import median

from redis.asyncio import Redis

from redisson_py import Lease, LeaseLostError, Redisson, RLock
from redisson_py._engine.hold import lease_end
from redisson_py._time import now
from redisson_py.testing import FaultProxy
from tests.fixtures.client import ClientFactory
from tests.fixtures.measured import Measured
from tests.fixtures.redis_server import ProxyFactory

HOLDERS = 100
RUNS = 300
OTHERS_LEASE = 30.0

#: The end of an owner's lease as the server sees it, in milliseconds of the wall clock.
#: (PEXPIRETIME would do, but Redis 6.2 has none.)
SERVER_END = """
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return nil end
local time = redis.call('TIME')
return time[1] * 1000 + math.floor(time[2] / 1000) + redis.call('PTTL', KEYS[1])
"""


@dataclass(frozen=True)
class Run:
    """The moments of one run, on the clock of `now`."""

    over: float
    told: float
    server_end: float
    asked: float
    let_in: float


async def test_a_loss_is_known_before_the_server_lets_somebody_else_in(
    clients: ClientFactory, proxy: ProxyFactory, redis: Redis, measured: Measured
) -> None:
    rival = clients(lease_time=OTHERS_LEASE)
    runs: list[Run] = []

    async def keep_losing(number: int) -> None:
        link = await proxy()
        lease_time = random.uniform(0.6, 1.5)
        lock = clients(link.url, lease_time=lease_time).get_lock(f"k{number}")
        await asyncio.sleep(random.uniform(0, lease_time))
        while len(runs) < RUNS:
            run = await lose(lock, lease_time, link, rival, redis)
            if run is not None:
                runs.append(run)

    async with asyncio.TaskGroup() as group:
        for number in range(HOLDERS):
            group.create_task(keep_losing(number))

    measured("black holes", len(runs))
    clock = [run.server_end - run.over for run in runs]
    body = [run.server_end - run.told for run in runs]
    measured("lease.lost before the server's end", in_milliseconds(clock))
    measured("body cancelled before the server's end", in_milliseconds(body))
    measured(
        "body cancelled before the other's granted question",
        in_milliseconds([run.asked - run.told for run in runs]),
    )
    measured("bodies told late, by the event loop's delay", sum(margin <= 0 for margin in body))
    # The promise. It rests on clocks alone, so no delay of an event loop can spoil it.
    assert all(run.over < run.server_end for run in runs)
    assert all(run.over < run.asked for run in runs)
    # The clocks were compared rightly: nobody got in before what we took for the end.
    assert all(run.server_end <= run.let_in for run in runs)


async def lose(
    lock: RLock, lease_time: float, link: FaultProxy, rival: Redisson, redis: Redis
) -> Run | None:
    """Hold a lock, fall into a black hole, see the other get it; None if it was lost earlier."""
    over = told = server_end = None
    with suppress(LeaseLostError):
        async with lock as lease:
            next_one = asyncio.create_task(rival.get_lock(lock.name).acquire())
            try:
                await asyncio.sleep(random.uniform(0, lease_time))
                link.black_hole()
                # What was under way has arrived, or is lost, long before the last quarter.
                await asyncio.sleep(lease.remaining - lease_time / 4)
                server_end = await end_by_the_server(redis, lease)
                await asyncio.sleep(30)
            finally:
                told, over = now(), lease._ends_at
    granted = await next_one
    let_in = now()
    # The way back from a lease to the moment its granting question was asked.
    asked = granted._ends_at - lease_end(0, OTHERS_LEASE)
    await granted.release()
    link.pass_through()
    if server_end is None or told is None or over is None:
        return None
    return Run(over, told, server_end, asked, let_in)


async def end_by_the_server(redis: Redis, lease: Lease) -> float | None:
    """Return when the server ends a lease, on the clock of `now`; None: it has already."""
    milliseconds = await redis.eval(SERVER_END, 1, lease.name, lease.owner)
    # Two clocks cannot be read at once; of several readings the largest is the least wrong.
    offset = max(now() - time.time() for _ in range(5))
    return None if milliseconds is None else milliseconds / 1000 + offset


def in_milliseconds(margins: list[float]) -> str:
    return f"{1000 * min(margins):.2f} ms at least, {1000 * median(margins):.2f} ms in the middle"
