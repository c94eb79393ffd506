"""A process that adds one to the referee's value, over and over, under one lock.

Run as `python -m tests.system.writer URL PORT NAME TOKENS`. TOKENS says where its tokens come
from: `fenced`, the lease of a fenced lock; `counter`, a plain INCR under a plain lock.

It talks to the referee without an await, so its event loop is blocked while it waits for what
it reads. Whoever stops it there, or empties the server, can be sure that nothing tells it of
its loss before it writes: that write is the next thing it does. Unless its name begins with
`careful`, which makes it look at its lease in between, as good clients do.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import sys
from contextlib import suppress

from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from redisson_py import ConnectionLostError, LeaseLostError, Redisson

#: Short, so that a dead or stopped holder holds the others up for a moment only.
LEASE_TIME = 0.6

#: Two a process, so that holds are passed and tokens come from a grant's range.
TASKS = 2

#: Short, so that most sections are another process's than the one before.
TURN = 0.002


class Resource:
    """The referee, as a writer sees it."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._replies = self._socket.makefile("r")

    def tell(self, *words: object) -> str:
        """Tell the next step and return the answer. Blocks the event loop: see the module."""
        self._socket.sendall((" ".join(map(str, words)) + "\n").encode())
        reply = self._replies.readline().strip()
        if not reply:
            sys.exit("the referee is gone")
        return reply


async def main(url: str, port: int, name: str, tokens: str) -> None:
    """Work until the referee closes."""
    careful = name.startswith("careful")
    resource = Resource(port)
    numbers = itertools.count(1)
    async with (
        Redisson.from_url(
            url,
            lease_time=LEASE_TIME,
            on_lost="cancel" if careful else "raise",
            turn=TURN,
            client_name=name,
        ) as client,
        Redis.from_url(url) as redis,
    ):
        lock = client.get_fenced_lock("r") if tokens == "fenced" else client.get_lock("r")

        async def section(name: str) -> None:
            async with lock as lease:
                token = lease.token or await redis.incr("counter")
                value = int(resource.tell("begin", name, lease.owner, token))
                if careful:
                    lease.check()
                resource.tell("write", name, token, value + 1)

        async def work() -> None:
            while True:
                this = f"{name}/{next(numbers)}"
                if resource.tell("ask", this) == "closed":
                    return
                # Losing the lease, or the server, is what happens here all the time.
                with suppress(LeaseLostError, ConnectionLostError, RedisConnectionError):
                    await section(this)

        async with asyncio.TaskGroup() as group:
            for _ in range(TASKS):
                group.create_task(work())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]))
