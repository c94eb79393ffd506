"""Pairs a second and hand-offs, side by side with redis-py's Lock, in one run on one server.

Run as `python -m benchmarks.run`; see README.md for what the numbers mean.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

import redis
from redis.asyncio import Redis

from redisson_py import Redisson, __version__
from redisson_py.testing import embedded_server

MakeLock = Callable[[str], AbstractAsyncContextManager[object]]


async def pairs(make: MakeLock, tasks: int, seconds: float) -> float:
    """Return acquire-and-release pairs a second of `tasks` tasks, each on its own name."""
    done = 0
    end = time.perf_counter() + seconds

    async def work(number: int) -> None:
        nonlocal done
        lock = make(f"pairs:{number}")
        while time.perf_counter() < end:
            async with lock:
                done += 1

    start = time.perf_counter()
    await asyncio.gather(*[work(number) for number in range(tasks)])
    return done / (time.perf_counter() - start)


async def hand_off(make: MakeLock, tasks: int, seconds: float) -> float:
    """Return microseconds from one section to the next, for `tasks` tasks on one name."""
    sections = 0
    end = time.perf_counter() + seconds

    async def work() -> None:
        nonlocal sections
        # One object a task: the rival's keeps its token in itself.
        lock = make("handoff")
        while time.perf_counter() < end:
            async with lock:
                sections += 1
                await asyncio.sleep(0)

    start = time.perf_counter()
    await asyncio.gather(*[work() for _ in range(tasks)])
    return (time.perf_counter() - start) / sections * 1e6


async def round_trip(ping: Callable[[], Awaitable[object]], count: int = 2000) -> float:
    """Return microseconds of one PING, one at a time."""
    start = time.perf_counter()
    for _ in range(count):
        await ping()
    return (time.perf_counter() - start) / count * 1e6


async def measure(url: str, seconds: float) -> dict[str, dict[str, float]]:
    """Return every row: name, then ours and the rival's."""
    rows: dict[str, dict[str, float]] = {}
    async with AsyncExitStack() as stack:
        ours = await stack.enter_async_context(Redisson.from_url(url))
        theirs = Redis.from_url(url, max_connections=1000)
        stack.push_async_callback(theirs.aclose)

        def rival(name: str) -> AbstractAsyncContextManager[object]:
            return theirs.lock(name, timeout=30)

        await pairs(ours.get_lock, 8, 0.2)
        for tasks in (1, 64, 512):
            rows[f"pairs/s, {tasks} tasks"] = {
                "redisson_py": await pairs(ours.get_lock, tasks, seconds),
                "redis-py": await pairs(rival, min(tasks, 64), seconds),
            }
        rows["hand-off us, 10 tasks"] = {
            "redisson_py": await hand_off(ours.get_lock, 10, seconds),
            "redis-py": await hand_off(rival, 10, seconds),
        }
        rows["rtt us"] = {
            "redisson_py": await round_trip(ours.ping),
            "redis-py": await round_trip(theirs.ping),
        }
    return rows


async def main() -> None:
    """Print the rows, and write them as JSON where asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run")
    parser.add_argument("--url", help="measure against this server instead of an embedded one")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each row")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.url:
        rows = await measure(arguments.url, arguments.seconds)
    else:
        async with embedded_server() as url:
            rows = await measure(url, arguments.seconds)
    for name, row in rows.items():
        cells = "  ".join(f"{who} {value:10,.1f}" for who, value in row.items())
        print(f"{name:24} {cells}  ratio {row['redisson_py'] / row['redis-py']:.2f}")
    if arguments.json:
        facts = {
            "python": sys.version.split()[0],
            "machine": platform.machine(),
            "redis-py": redis.__version__,
            "redisson_py": __version__,
        }
        arguments.json.write_text(json.dumps({"facts": facts, "rows": rows}, indent=2))


if __name__ == "__main__":
    asyncio.run(main())
