"""Without Redis: reports read together, at most two at a time; the nightly load writes alone."""

# pip install './redisson_py[postgres]'

import asyncio
import os

from redisson_py.postgres import Postgres

URL = os.environ.get("DATABASE_URL", "postgresql://localhost/app")
AT_ONCE, REPORTS = 2, 6
running: list[int] = []
most: list[int] = []


async def report(number: int) -> None:
    """Read what no load changes meanwhile, with at most one other report on all hosts."""
    async with Postgres.from_url(URL) as store:
        data = store.get_read_write_lock("warehouse").read_lock()
        async with store.get_semaphore("reports", AT_ONCE), data:
            running.append(number)
            most.append(len(running))
            await asyncio.sleep(0.1)  # stands for the report
            running.remove(number)


async def load() -> None:
    """Write while nobody reads; reports that come later wait behind it."""
    async with Postgres.from_url(URL) as store, store.get_read_write_lock("warehouse").write_lock():
        print("the load runs beside", len(running), "reports")


async def main() -> None:
    """Start everything at once."""
    async with asyncio.TaskGroup() as group:
        for number in range(REPORTS):
            group.create_task(report(number))
        group.create_task(load())
    print(len(most), "reports, at most", max(most), "at a time")


if __name__ == "__main__":
    asyncio.run(main())
