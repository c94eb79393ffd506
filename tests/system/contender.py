"""A process that works under one lock and says on its output what happened.

Run as `python -m tests.system.contender URL SECONDS TASKS BODY_MS`. Prints `ready`, waits for
a line on its input, works, and prints as its last line, as JSON, when each of its sections began:
nanoseconds of the clock that all processes of the machine share.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from redisson_py import Redisson


async def main(url: str, seconds: float, tasks: int, body_ms: float) -> None:
    async with Redisson.from_url(url) as client:
        await client.ping()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.readline)
        sections: list[int] = []
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        lock = client.get_lock("contended")

        async def work() -> None:
            while loop.time() < end:
                async with lock:
                    sections.append(time.monotonic_ns())
                    if body_ms:
                        await asyncio.sleep(body_ms / 1000)

        async with asyncio.TaskGroup() as group:
            for _ in range(tasks):
                group.create_task(work())
    sys.stdout.write(json.dumps(sections) + "\n")


if __name__ == "__main__":
    asyncio.run(
        main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])),
    )
