"""A program of three workers that ends by SIGTERM, as docs/deployment.md has it.

Run as `python -m tests.system.terminated URL`. Prints `held`, and in the end how each worker ended.
"""

from __future__ import annotations

import asyncio
import signal
import sys

from redisson_py import Redisson
from tests.support.waiting import until, until_waiting

client = Redisson.from_url(sys.argv[1], lease_time=600)


async def work() -> None:
    async with client.get_lock("k"):
        await asyncio.sleep(3600)


async def main() -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    workers = [asyncio.create_task(work()) for _ in range(3)]
    await until_waiting(client, 2)
    await until(lambda: client.statistics().held_leases == 1)
    sys.stdout.write("held\n")
    sys.stdout.flush()
    await stop.wait()
    await client.aclose()
    ends = await asyncio.gather(*workers, return_exceptions=True)
    sys.stdout.write(" ".join(sorted(type(end).__name__ for end in ends)) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
