"""A program whose event loop shuts down while tasks hold something and still clean up.

Run as `python -m tests.lifecycle.shutting_down HOW KIND MARKS URL...`, with a URL for each server.
Prints `held` when everything is held, then the outcome of each cleanup. A cleanup sets the
key `{cleaned} <number>` on the server MARKS while it still holds its lock.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import redis

from redisson_py import Redisson
from tests.support.kinds import KINDS

LEASE_TIME = 3.0
#: How long a cleanup takes: longer than a lease.
CLEANUP = 3.4
#: How long that of a generator takes: less than a lease.
BRIEF = 0.3
MARKS, *URLS = sys.argv[3:]

inside = 0


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def mark(number: int) -> None:
    """Tell the test, through the server that it watches, that a cleanup has ended."""
    with redis.Redis.from_url(MARKS) as server:
        server.set(f"{{cleaned}} {number}", 1, ex=60)


async def clean_up(number: int, lease: Any, seconds: float = CLEANUP) -> None:
    say(f"cleaning {number}")
    try:
        for _ in range(30):
            await asyncio.sleep(seconds / 30)
    except BaseException as error:
        say(f"interrupted {number}: {error!r}")
        raise
    if lease.lost:
        say(f"lost {number}")
    mark(number)
    say(f"cleaned {number}")


async def work(thing: Any, number: int) -> None:
    """Hold it for ever, and clean up at the end."""
    global inside
    async with thing as lease:
        inside += 1
        try:
            await asyncio.sleep(3600)
        finally:
            await clean_up(number, lease)


async def items(thing: Any) -> AsyncIterator[None]:
    """As `work`, in a generator, which the loop closes at its end."""
    global inside
    async with thing as lease:
        inside += 1
        try:
            yield
        finally:
            await clean_up(0, lease, BRIEF)


def make(kind: str, name: str) -> Any:
    """Return the thing, with clients that nobody closes."""
    clients = [Redisson.from_url(url, lease_time=LEASE_TIME) for url in URLS]
    return KINDS[kind].make(clients, name, 1)


async def everything_held(count: int) -> None:
    while inside < count:
        await asyncio.sleep(0.01)
    say("held")


async def others(kind: str, name: str, *, returns: bool) -> None:
    """Have two tasks hold two things; then return, or wait for SIGINT."""
    tasks = [
        asyncio.create_task(work(make(kind, each), number))
        for number, each in enumerate((name, f"{name}-other"))
    ]
    await everything_held(2)
    if not returns:
        await asyncio.sleep(3600)
    assert not any(task.done() for task in tasks)


async def generator(kind: str, name: str) -> None:
    """Leave a generator in the middle, and return."""
    kept = items(make(kind, name))
    await anext(kept)
    await everything_held(1)
    # Something must keep it alive until the loop closes it.
    KEPT.append(kept)


KEPT: list[AsyncIterator[None]] = []


def main(how: str, kind: str) -> None:
    name = "semaphore" if KINDS[kind].semaphore else "k"
    try:
        match how:
            case "generator":
                asyncio.run(generator(kind, name))
            case _:
                asyncio.run(others(kind, name, returns=how == "returns"))
    except KeyboardInterrupt:
        say("keyboard interrupt")
    say("ended")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
