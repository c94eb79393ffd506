"""A process that works under one lock and says on its output what happened.

Run as `python -m tests.system.contender URL SECONDS TASKS BODY_MS`. Prints `ready`, waits for
a line on its input, works, and prints as its last line the number of sections it ran and for how
many seconds at most it stood still: a busy machine does that to it.
"""

from __future__ import annotations

import asyncio
import sys

from redisson_py import Redisson


async def main(url: str, seconds: float, tasks: int, body_ms: float) -> None:
    async with Redisson.from_url(url) as client:
        await client.ping()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.readline)
        sections = 0
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        lock = client.get_lock("contended")

        async def work() -> None:
            nonlocal sections
            while loop.time() < end:
                async with lock:
                    sections += 1
                    if body_ms:
                        await asyncio.sleep(body_ms / 1000)

        async def longest_stand() -> float:
            longest, seen = 0.0, loop.time()
            while seen < end:
                await asyncio.sleep(0.01)
                longest, seen = max(longest, loop.time() - seen), loop.time()
            return longest

        async with asyncio.TaskGroup() as group:
            standing = group.create_task(longest_stand())
            for _ in range(tasks):
                group.create_task(work())
    sys.stdout.write(f"{sections} {standing.result():.3f}\n")


if __name__ == "__main__":
    asyncio.run(
        main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])),
    )
