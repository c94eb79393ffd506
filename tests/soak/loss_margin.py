"""With a black hole the loss is known before the server lets somebody else in; how long before?

    python -m tests.soak.loss_margin --runs 10000

One run: a client behind a proxy holds a lock, another client, not behind it, waits for the
lock, and at a random phase between two renewals the network swallows everything, or all that
goes one way. Noted are

- `lost_at`: from when the lease says it is lost (`lease.lost` reads the clock, so this is exact
  however late the event loop is),
- `server_end`: when the server drops the key, by its own clock, which on one machine is ours,
- `let_in`: when the other client has it.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys
import time
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from statistics import median

from redis.asyncio import Redis

from redisson_py import ConnectionLostError, Lease, LeaseLostError, Redisson, RLock
from redisson_py._time import now
from redisson_py.testing import FaultProxy, embedded_server

HOLDERS = 100
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

    lost_at: float
    server_end: float
    let_in: float

    @property
    def broken(self) -> str:
        """Which promise it breaks; empty if none. They rest on clocks alone, not on event loops."""
        if self.lost_at >= self.server_end:
            return "the lease said that it was lost after the server had ended it"
        # Otherwise the clocks were not compared rightly.
        return "the other got in before the end" if self.server_end > self.let_in else ""


async def keep_losing(url: str, wanted: int) -> list[Run]:
    """Lose so many leases of many holders on the server at `url`; return what was noted."""
    runs: list[Run] = []
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        # With a timeout redis-py uses `asyncio.wait_for`, which before Python 3.12 may swallow the
        # cancellation of the body that asks.
        redis = await enter(Redis.from_url(url, socket_timeout=None))
        rival = await enter(Redisson.from_url(url, lease_time=OTHERS_LEASE))

        async def work(number: int) -> None:
            link = await enter(FaultProxy.in_front_of(url))
            lease_time = random.uniform(0.6, 1.5)
            client = await enter(Redisson.from_url(link.url, lease_time=lease_time))
            lock = client.get_lock(f"k{number}")
            await asyncio.sleep(random.uniform(0, lease_time))
            while len(runs) < wanted:
                run = await _lose(lock, lease_time, link, rival, redis)
                if run is not None:
                    runs.append(run)

        async with asyncio.TaskGroup() as group:
            for number in range(HOLDERS):
                group.create_task(work(number))
    return runs


def figure(runs: list[Run]) -> str:
    """Return what was measured."""
    margins = [1000 * (run.server_end - run.lost_at) for run in runs]
    least, middle = min(margins), median(margins)
    return f"{least:.2f} ms at least, {middle:.2f} ms in the middle, of {len(runs):,} black holes"


async def _lose(
    lock: RLock, lease_time: float, link: FaultProxy, rival: Redisson, redis: Redis
) -> Run | None:
    """Hold a lock, fall into a black hole, see the other get it; None if it was lost earlier."""
    lost_at = server_end = next_one = None
    # On a busy machine an acquire may get no answer in time, too.
    with suppress(LeaseLostError, ConnectionLostError):
        async with lock as lease:
            next_one = asyncio.create_task(rival.get_lock(lock.name).acquire())
            try:
                await asyncio.sleep(random.uniform(0, lease_time))
                # Never only "down": renewals would still arrive, and move the server's end.
                link.black_hole(random.choice(["both", "both", "up"]))
                # What was under way has arrived, or is lost, long before the last quarter.
                await asyncio.sleep(lease.remaining - lease_time / 4)
                server_end = await _end_by_the_server(redis, lease)
                await asyncio.sleep(30)
            finally:
                lost_at = lease._ends_at
    if next_one is None:
        link.pass_through()
        return None
    granted = await next_one
    let_in = now()
    await granted.release()
    link.pass_through()
    if server_end is None or lost_at is None:
        return None
    return Run(lost_at, server_end, let_in)


async def _end_by_the_server(redis: Redis, lease: Lease) -> float | None:
    """Return when the server ends a lease, on the clock of `now`; None: it has already."""
    milliseconds = await redis.eval(SERVER_END, 1, lease.name, lease.owner)
    # Two clocks cannot be read at once; of several readings the largest is the least wrong.
    offset = max(now() - time.time() for _ in range(5))
    return None if milliseconds is None else milliseconds / 1000 + offset


def main() -> int:
    """Lose leases on a server of its own; return how the process should end."""
    parser = argparse.ArgumentParser(description="How early a loss is known.")
    parser.add_argument("--runs", type=int, default=10_000, help="how many black holes")
    wanted = parser.parse_args().runs
    say = partial(print, flush=True)
    # A loss, an outage and a late event loop are what happens here all the time.
    logging.getLogger("redisson_py").setLevel(logging.CRITICAL)

    async def run() -> list[Run]:
        async with embedded_server() as url:
            return await keep_losing(url, wanted)

    runs = asyncio.run(run())
    say(f"lease.lost before the server's end: {figure(runs)}")
    broken = [run for run in runs if run.broken]
    for each in broken[:20]:
        say(f"  {each.broken}: {each}")
    say(f"{len(broken)} broken promises")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
