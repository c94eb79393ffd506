"""A process that works under many locks in short steps until it has lost them all.

Run as `python -m tests.system.stepper URL LEASE_TIME NAME...`. Prints `held` once it has all
the locks; in the end, as JSON, for each name the last steps of its body: when, and whether
`lease.lost` was true then.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections import deque

from redisson_py import LeaseLostError, Redisson
from redisson_py._time import now

Steps = deque[tuple[float, bool]]


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


async def work(client: Redisson, name: str, held: asyncio.Barrier) -> Steps:
    steps: Steps = deque(maxlen=20)
    try:
        async with client.get_lock(name) as lease:
            await held.wait()
            while True:
                # Real waits: from sleep(0) a task comes back before the loop looks at its timers.
                await asyncio.sleep(random.uniform(0.0001, 0.005))
                steps.append((now(), lease.lost))
    except LeaseLostError:
        return steps


async def main(url: str, lease_time: float, names: list[str]) -> None:
    held = asyncio.Barrier(len(names) + 1)
    async with Redisson.from_url(url, lease_time=lease_time) as client:
        working = [asyncio.create_task(work(client, name, held)) for name in names]
        await held.wait()
        say("held")
        ended = await asyncio.gather(*working)
    say(json.dumps({name: list(steps) for name, steps in zip(names, ended, strict=True)}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2]), sys.argv[3:]))
