"""A job that cron starts on every machine, and that must not overlap with itself."""

# pip install ./redisson_py

import asyncio
import os
from collections.abc import Awaitable, Callable

from redisson_py import Redisson

URL = os.environ.get("REDISSON_URL", "redis://localhost:6379/0")


async def run_alone(job: Callable[[], Awaitable[None]]) -> bool:
    """Run the job unless it runs already, on any machine; return whether it ran."""
    async with Redisson.from_url(URL) as client:
        lease = await client.get_lock("cron:nightly-report").try_acquire(max_hold=3600)
        if lease is None:
            return False
        async with lease:  # renewed, but for an hour at most: then the job is cancelled
            await job()
        return True


async def main() -> None:
    """Start the job on a second machine while the first one is still at it."""
    started, may_end = asyncio.Event(), asyncio.Event()

    async def report() -> None:
        started.set()
        await may_end.wait()

    first = asyncio.create_task(run_alone(report))
    await started.wait()
    print(f"second machine, meanwhile: ran={await run_alone(report)}")
    may_end.set()
    print(f"first machine: ran={await first}")


if __name__ == "__main__":
    asyncio.run(main())
