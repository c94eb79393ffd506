"""Random walks of a semaphore whose keys vanish: in the end nobody has, or gets, too many units."""

from __future__ import annotations

import random

import pytest
from redis.asyncio import Redis

from tests.support.scripts.calls import Scripts
from tests.support.scripts.permits import SemaphoreScripts

UNITS = 3


class Walk:
    """Clients of one semaphore, each with one owner; some die, and keys vanish."""

    def __init__(self, scripts: Scripts, seed: int) -> None:
        self._random = random.Random(seed)
        self._semaphore = SemaphoreScripts(scripts)
        self._owners = 0
        self.held: dict[str, int] = {}

    async def step(self) -> None:
        """Do something at random."""
        dice = self._random.random()
        if dice < 0.45:
            await self._acquire()
        elif dice < 0.7 and self.held:
            await self._release(self._any_owner())
        elif dice < 0.8 and self.held:
            await self._die(self._any_owner())
        elif dice < 0.9:
            await self._lose_keys()

    def _any_owner(self) -> str:
        return self._random.choice(sorted(self.held))

    async def _acquire(self) -> None:
        self._owners += 1
        owner, units = f"owner:{self._owners}", self._random.choice((1, 1, 2))
        if await self._semaphore.acquire(owner, units, start_units=UNITS) is None:
            self.held[owner] = units

    async def _release(self, owner: str) -> None:
        await self._semaphore.release(owner, had=self.held.pop(owner))

    async def _die(self, owner: str) -> None:
        del self.held[owner]
        if await self._semaphore.redis.zscore(self._semaphore.permits, owner) is not None:
            await self._semaphore.end(owner)

    async def _lose_keys(self) -> None:
        keys = [self._semaphore.key, self._semaphore.permits, self._semaphore.counts]
        gone = self._random.sample(keys, self._random.randint(1, 3))
        await self._semaphore.redis.delete(*gone)

    async def renew(self) -> None:
        """Renew what is held; a client that hears of a loss gives back what it may have."""
        for owner in list(self.held):
            if not await self._semaphore.renew(owner, idle_ms=0):
                await self._release(owner)

    async def end(self) -> None:
        """Give everything back."""
        await self.renew()
        for owner in list(self.held):
            await self._release(owner)

    def chance(self) -> bool:
        """Return whether all renew now."""
        return self._random.random() < 0.2


@pytest.mark.more
@pytest.mark.parametrize("seeds", [range(120, 150), range(150, 180)])
async def test_no_walk_ends_with_more_than_there_are(
    seeds: range, scripts: Scripts, redis: Redis
) -> None:
    for seed in seeds:
        await redis.flushdb()
        walk = Walk(scripts, seed)
        for _ in range(40):
            await walk.step()
            if walk.chance():
                await walk.renew()
                assert sum(walk.held.values()) <= UNITS, seed
        await walk.end()
        assert int(await redis.get("semaphore") or 0) <= UNITS, seed
    await redis.flushdb()
