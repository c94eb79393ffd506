"""A process that runs something once, and says how far it is, until it is killed.

Run as `python -m tests.system.once_runner URL LEASE_TIME NAME STEP`. Prints `entered` with what it
was told, and stays before or after `complete`: STEP is `running` or `completed`.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from redisson_py import Redisson
from redisson_py.postgres import Postgres


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def client_of(url: str, lease_time: float) -> Any:
    if url.startswith("postgres"):
        return Postgres.from_url(url, lease_time=lease_time)
    return Redisson.from_url(url, lease_time=lease_time)


async def main(url: str, lease_time: float, name: str, step: str) -> None:
    async with client_of(url, lease_time) as client, client.get_once(name) as once:
        say(f"entered {once.done} {once.token}")
        if step == "completed":
            await once.complete(b"theirs")
            say("completed")
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2]), *sys.argv[3:]))
