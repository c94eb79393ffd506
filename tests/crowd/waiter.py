"""A process whose clients wait for one lock, and say when it is theirs.

Run as `python -m tests.crowd.waiter URL KIND CLIENTS LEASE_TIME SAFETY_POLL`. Prints `ready`, and
once a client has the lock `granted` and the moment in nanoseconds of the clock that the machine's
processes share; it releases when a line comes on its input.
"""

from __future__ import annotations

import asyncio
import sys
import time

from redisson_py import Redisson
from redisson_py._engine import waiting
from tests.crowd.kinds import of_kind


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def wait(client: Redisson, kind: str) -> None:
    lease = await of_kind(client, kind).acquire()
    say("granted", time.monotonic_ns())
    await asyncio.to_thread(sys.stdin.readline)
    await lease.release()
    say("released", time.monotonic_ns())


async def main(url: str, kind: str, count: int, lease_time: float, safety_poll: float) -> None:
    waiting.SAFETY_POLL_SECONDS = safety_poll
    clients = [Redisson.from_url(url, lease_time=lease_time) for _ in range(count)]
    for client in clients:
        await client.ping()
    say("ready")
    await asyncio.gather(*[wait(client, kind) for client in clients])
    await asyncio.gather(*[client.aclose() for client in clients])


if __name__ == "__main__":
    given = sys.argv[1:]
    asyncio.run(main(given[0], given[1], int(given[2]), float(given[3]), float(given[4])))
