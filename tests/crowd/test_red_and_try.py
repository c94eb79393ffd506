"""Those who do not join the queue of clients, beside those who do."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from redis.asyncio import Redis

from redisson_py import RedLock
from tests.crowd.queue_look import until_nobody_is_left
from tests.fixtures.client import ClientFactory

#: Seconds in which everybody must have come who needs no safety poll.
SOON = 60


@pytest.mark.parametrize("section", [0, 0.001, 0.05], ids=["empty", "short", "long"])
async def test_red_and_multi_locks_over_a_lock_in_a_crowd_come_too(
    clients: ClientFactory, redis: Redis, section: float
) -> None:
    granted = Counter[str]()
    enough = asyncio.Event()

    async def work(number: int, kind: str) -> None:
        client = clients()
        lock = client.get_lock("k")
        shared = {
            "lock": lock,
            "red": RedLock(lock),
            "multi": client.get_multi_lock(lock, client.get_lock("{k}other")),
        }[kind]
        while not enough.is_set():
            async with shared:
                await asyncio.sleep(section)
                granted[f"{kind} {number}"] += 1
            if len(granted) == 8 and min(granted.values()) >= 3:
                enough.set()

    kinds = ["lock"] * 6 + ["red", "multi"]
    async with asyncio.timeout(SOON), asyncio.TaskGroup() as group:
        for number, kind in enumerate(kinds):
            group.create_task(work(number, kind))
    await until_nobody_is_left(redis)
