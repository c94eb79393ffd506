"""Fan-out: a coordinator sends parts of a job to workers and waits until all are done."""

# pip install ./redisson_py

import asyncio
import os

from redisson_py import Redisson

URL = os.environ.get("REDISSON_URL", "redis://localhost:6379/0")
PARTS = ("north", "south", "west")
Parts = asyncio.Queue[tuple[str, str]]  # a message broker, in real life
results: list[str] = []


async def worker(client: Redisson, parts: Parts) -> None:
    """Do parts, and count down after each; the worker gives the latch no count."""
    while True:
        run, part = await parts.get()
        results.append(part.upper())
        await client.get_latch(f"report:{run}").count_down()


async def main() -> None:
    """Send the parts, and wait for them."""
    parts: Parts = asyncio.Queue()
    run = os.urandom(8).hex()  # a latch opens once: each run has its own
    async with Redisson.from_url(URL) as client, Redisson.from_url(URL) as another_host:
        workers = [asyncio.create_task(worker(another_host, parts)) for _ in range(2)]
        latch = client.get_latch(f"report:{run}")
        await latch.try_set_count(len(PARTS))  # before the first part is sent
        for part in PARTS:
            parts.put_nowait((run, part))
        await latch.wait(timeout=60)  # a worker that dies does not count down
        print(f"all parts are done: {', '.join(sorted(results))}")
        for each in workers:
            each.cancel()


if __name__ == "__main__":
    asyncio.run(main())
