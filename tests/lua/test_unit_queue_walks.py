"""Random walks of clients in the queue of a semaphore: nothing lies idle that one of them wants."""

from __future__ import annotations

import random
from contextlib import AsyncExitStack
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.lua.test_golden_vectors import listening
from tests.support.scripts.calls import Scripts
from tests.support.scripts.client_queue import LONG
from tests.support.scripts.unit_queue import UnitQueue

PERMITS = 4
ALIVE = ["client-a", "client-b", "client-c:2", "client-d:3"]
DEAD = ["client-y", "client-z:2"]


def units_of(client: str) -> int:
    return int(client.partition(":")[2] or 1)


class Walk:
    """Clients of one semaphore, some of which do not listen, and Redisson's beside them."""

    def __init__(self, queue: UnitQueue, seed: int) -> None:
        self._random = random.Random(seed)
        self._queue = queue
        self._number = 0
        self.held: list[tuple[str, int]] = []
        self.foreign = 0
        self.said: list[Any] = []

    async def step(self) -> bool:
        """Do something at random; return whether it was one of our scripts that had to call."""
        queue, dice = self._queue, self._random.random()
        client = self._random.choice(ALIVE + DEAD)
        if dice < 0.45:
            self._number += 1
            waits, yields = self._random.random() < 0.8, self._random.randrange(2)
            reply = await queue.asks(client, number=self._number, waits=waits, yields=yields)
            if reply is None:
                self.held.append((client, self._number))
            self.said.append(("asks", client, waits, yields, reply))
            return True
        if dice < 0.7 and self.held:
            holder, number = self.held.pop(self._random.randrange(len(self.held)))
            self.said.append(("releases", holder, await queue.release(holder, number)))
            return True
        if dice < 0.8:
            self.said.append(("leaves", client, await queue.leaves(client)))
            return True
        if dice < 0.88:
            if await queue.called():
                silent = self._random.choice(sorted(await queue.called()))
                await queue.called_ago(silent, LONG)
                self.said.append(("is silent", silent))
        elif dice < 0.94 and await queue.semaphore.value():
            await queue.gives(-1)
            self.foreign += 1
            self.said.append("Redisson takes one")
        elif self.foreign:
            await queue.gives(1)
            self.foreign -= 1
            self.said.append("Redisson gives one back")
        return False

    async def check(self) -> None:
        """Raise `AssertionError` if somebody waits for what nobody was called for."""
        waiting, called = await self._queue.waiting(), await self._queue.called()
        assert called <= {*waiting}, (self.said, waiting, called)
        free = await self._queue.semaphore.value() or 0
        left = free - sum(map(units_of, called))
        # Units may gather for one that wants many and has waited for long.
        others = [each for each in waiting if each not in called]
        joined, present = await self._queue.entries(), await self._queue.now()
        gathers = (
            index
            for index, each in enumerate(others)
            if units_of(each) > left and present - joined[each] >= 100_000
        )
        idle = [each for each in others[: next(gathers, None)] if units_of(each) <= left]
        assert not idle, (self.said, waiting, called, free)
        held = sum(units_of(client) for client, _ in self.held)
        assert free + held + self.foreign == PERMITS, self.said


@pytest.mark.parametrize("kind", ["plain", "with ids"])
@pytest.mark.parametrize("seeds", [range(12), pytest.param(range(12, 30), marks=pytest.mark.more)])
async def test_nothing_lies_idle_that_somebody_wants(
    scripts: Scripts, redis: Redis, kind: str, seeds: range
) -> None:
    queue = UnitQueue(scripts, kind)
    async with AsyncExitStack() as stack:
        for each in ALIVE:
            await stack.enter_async_context(listening(redis, queue.own_channel(each)))
        for seed in seeds:
            await redis.flushdb()
            await queue.semaphore.start(PERMITS)
            walk = Walk(queue, seed)
            for _ in range(60):
                if await walk.step():
                    await walk.check()
            # All end, and leave nothing.
            for client, number in walk.held:
                await queue.release(client, number)
            for client in ALIVE + DEAD:
                await queue.leaves(client)
            assert await queue.entries() == {}
            assert await queue.semaphore.value() == PERMITS - walk.foreign
        await redis.flushdb()
