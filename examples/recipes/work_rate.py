"""At most five calls a second, over all workers: each permit expires after a second."""

# pip install ./redisson_py

import asyncio
import os
import time

from redisson_py import Redisson

URL = os.environ.get("REDISSON_URL", "redis://localhost:6379/0")
A_SECOND, WINDOW = 5, 1.0
CALLS, WORKERS = 20, 4


async def call_api(worker: int, number: int) -> None:
    """Call the service that allows five calls a second."""
    print(f"worker {worker}: call {number}")


async def work(worker: int) -> None:
    """Do a share of the calls; no permit is released, so each lasts its second."""
    async with Redisson.from_url(URL, idle_lifetime=3600) as client:
        permits = client.get_permit_expirable_semaphore("api:calls", A_SECOND)
        for number in range(CALLS // WORKERS):
            await permits.acquire(lease_time=WINDOW)
            await call_api(worker, number)
        await asyncio.sleep(WINDOW)  # closing a client releases what it holds


async def main() -> None:
    """Share the calls among workers."""
    start = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for worker in range(WORKERS):
            group.create_task(work(worker))
    print(f"{CALLS} calls in {time.monotonic() - start:.1f} s")


if __name__ == "__main__":
    asyncio.run(main())
