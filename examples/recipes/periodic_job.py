"""A periodic job that runs once a period, although the clocks of the machines differ."""

# pip install ./redisson_py

import asyncio
import os
from collections.abc import Awaitable, Callable

from redisson_py import AcquireTimeoutError, Redisson

URL = os.environ.get("REDISSON_URL", "redis://localhost:6379/0")
JOB = "periodic:refresh-prices"
AT_LEAST = 1.0  # seconds: more than the clocks differ, less than the period


async def run_once(client: Redisson, job: Callable[[], Awaitable[None]]) -> bool:
    """Run the job unless a machine has begun it in this period; return whether it ran."""
    try:
        async with client.get_lock(JOB).hold(timeout=0, min_hold=AT_LEAST):
            await job()
    except AcquireTimeoutError:
        return False
    return True


async def main() -> None:
    """Start the job on two machines; the second one's clock is late, and the job is short."""

    async def refresh() -> None:
        print("prices are fresh")

    async with Redisson.from_url(URL) as first, Redisson.from_url(URL) as second:
        print(f"first machine: ran={await run_once(first, refresh)}")
        print(f"second machine, later: ran={await run_once(second, refresh)}")
        async with second.get_lock(JOB):  # waits until the name is free
            print("the next period may come")


if __name__ == "__main__":
    asyncio.run(main())
