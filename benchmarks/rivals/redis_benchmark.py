"""redis-benchmark, a client in C that does nothing with the answers: the server's own limit.

It can repeat one command only, so it acquires: fresh names, with the script of ours, for a
millisecond. A release costs the server about as much as an acquire, so half of its rate is
about the most pairs anybody could make.
"""

from __future__ import annotations

import asyncio
import csv
import shutil
from asyncio.subprocess import PIPE
from urllib.parse import urlsplit

from redis.asyncio import Redis

from benchmarks.rivals.side import CannotError
from redisson_py._redis.dialect import Dialect
from redisson_py._redis.scripts import source

NAME = "redis-benchmark, half its acquires"

_ACQUIRE = source.load("lock.acquire")

#: Its options for so many commands under way: connections, and commands on each.
_UNDER_WAY = {1: (1, 1), 8: (1, 8), 64: (1, 64), 512: (8, 64)}


async def pairs(url: str, tasks: int, requests: int) -> float:
    """Return half the acquires a second, with `tasks` of them under way.

    Raises:
        CannotError: It is not installed.
    """
    program = shutil.which("redis-benchmark") or shutil.which("valkey-benchmark")
    if program is None:
        raise CannotError("redis-benchmark is not installed")
    server = urlsplit(url)
    connections, each = _UNDER_WAY[tasks]
    count = requests * min(tasks, 20)
    async with Redis.from_url(url) as client:
        sha = await client.script_load(_ACQUIRE.wordings[Dialect.PLAIN].text)
    process = await asyncio.create_subprocess_exec(
        *(program, "-h", str(server.hostname), "-p", str(server.port), "--csv"),
        *("-c", str(connections), "-P", str(each), "-n", str(count), "-r", "1000000000"),
        *("EVALSHA", sha, "4", "limit:__rand_int__", "limit:tombstone", "limit:version"),
        *("limit:clients", "owner", "1", "1", "0", "0", "", "limit:channel", "", "0"),
        stdout=PIPE,
        stderr=PIPE,
    )
    out, err = await process.communicate()
    rows = list(csv.DictReader(out.decode().splitlines()))
    if not rows:
        raise CannotError(f"redis-benchmark failed: {err.decode().strip()}")
    return float(rows[0]["rps"]) / 2
