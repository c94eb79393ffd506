"""A process that reads under the lock `k` until it is killed: `python -m tests.interop.reader`.

Takes the URL of the server and a lease time, and says `reading` when it does.
"""

from __future__ import annotations

import asyncio
import sys

from redisson_py import Redisson


async def main(url: str, lease_time: float) -> None:
    async with Redisson.from_url(url, lease_time=lease_time) as client:
        async with client.get_read_write_lock("k").read_lock():
            sys.stdout.write("reading\n")
            sys.stdout.flush()
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
