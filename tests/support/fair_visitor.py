"""A process whose tasks visit a fair lock: `python -m tests.support.fair_visitor URL LEASE`.

For each line on its input a task waits for the lock `k`, appends the line to the list `visits`
and releases. The process ends after its input has ended and every task has finished.
"""

from __future__ import annotations

import asyncio
import sys

from redisson_py import Redisson
from tests.support.cluster_look import plain_client
from tests.support.fair_locks import fair_lock


async def main(url: str, lease_time: float) -> None:
    async with (
        Redisson.from_url(url, lease_time=lease_time) as client,
        plain_client(url) as redis,
    ):

        async def visit(row: str) -> None:
            async with fair_lock(client):
                await redis.execute_command("RPUSH", "visits", row.strip())

        async with asyncio.TaskGroup() as group:
            while row := await asyncio.to_thread(sys.stdin.readline):
                group.create_task(visit(row))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
