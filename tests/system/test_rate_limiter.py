"""Never more than the rate in any interval, by the server's record: four processes, with faults."""

from __future__ import annotations

import asyncio
import random
import re
import sys
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py.testing import EmbeddedServer
from tests.support import repository
from tests.support.monitor import Monitor
from tests.system.rate_limiter_worker import NAME, PER, RATE

PROCESSES, EACH = 4, 25_000
ADDED = re.compile(rb'"ZADD" "\{%s\}:permits" "(\d+)" "(.*)"' % NAME.encode())
#: One that was undone: nobody has used it, and its units were free at once.
UNDONE = re.compile(rb'"ZREM" "\{%s\}:permits" "(.+)"' % NAME.encode())
#: The units of a record, as MONITOR writes it.
UNITS = re.compile(rb"\\x0([125])\\x00\\x00\\x00$")


@pytest.mark.more
@pytest.mark.timeout(600)
async def test_a_hundred_thousand_admissions(own_server: EmbeddedServer) -> None:
    records: list[tuple[int, bytes]] = []
    latest: dict[bytes, int] = {}
    undone: set[int] = set()
    async with Redis.from_url(own_server.url) as redis, Monitor(redis) as monitor:
        spared = {int(each["id"]) for each in await redis.client_list()}
        workers = [await started(own_server.url, seed) for seed in range(PROCESSES)]
        outputs = asyncio.gather(*(each.communicate() for each in workers))
        chance, cut = random.Random(1), 0
        while not outputs.done():
            # Read on, or the server would end the connection that reports what it does.
            for row in await monitor.rows():
                if (found := ADDED.search(row)) is not None:
                    latest[found[2]] = len(records)
                    records.append((int(found[1]), found[2]))
                elif (found := UNDONE.search(row)) is not None:
                    undone.add(latest.pop(found[1]))
            cut += await cut_one(redis, spared, chance)
        got = sum(int(output) for output, _ in await outputs)
        assert all(each.returncode == 0 for each in workers)
    assert got >= PROCESSES * EACH
    used = [each for number, each in enumerate(records) if number not in undone]
    assert len(used) >= got
    assert cut > 0
    assert undone
    moments = sorted(at for at, member in used for _ in range(units_of(member)))
    for first, later in zip(moments, moments[RATE:], strict=False):
        assert later - first >= PER * 1000


def units_of(member: bytes) -> int:
    """Return the units of an admission, as MONITOR writes it."""
    found = UNITS.search(member)
    assert found is not None, member
    return int(found[1])


async def started(url: str, seed: int) -> asyncio.subprocess.Process:
    """Start one of the processes."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.system.rate_limiter_worker", url, str(seed), str(EACH)),
        cwd=repository.ROOT,
        stdout=asyncio.subprocess.PIPE,
    )


async def cut_one(redis: Redis, spared: set[int], chance: random.Random) -> int:
    """Sometimes break the connection of one of the processes; return how many were broken."""
    if chance.random() < 0.9:
        return 0
    found: list[dict[str, Any]] = await redis.client_list()
    theirs = [each["id"] for each in found if int(each["id"]) not in spared]
    if not theirs:
        return 0
    return int(await redis.client_kill_filter(_id=chance.choice(theirs)))
