"""A process that holds a lock until it is stopped, and prints how the hold ended.

Run as `python -m tests.support.holding_process URL LEASE_TIME`. Prints
`held <owner>`, then `lost` or `released`.
"""

from __future__ import annotations

import asyncio
import sys

from redisson_py import LeaseLostError, Redisson


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


async def main(url: str, lease_time: float) -> None:
    async with Redisson.from_url(url, lease_time=lease_time) as client:
        try:
            async with client.get_lock("k") as lease:
                say(f"held {lease.owner}")
                # Short sleeps: a stopped process that wakes must not find one of them over.
                for _ in range(3000):
                    await asyncio.sleep(0.01)
        except LeaseLostError:
            say("lost")
        else:
            say("released")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
