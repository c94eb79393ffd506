"""Thousands of leases held through an outage, and the account of what became of each."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from redis.asyncio import Redis

from redisson_py import Lease, LeaseLostError, Redisson
from tests.support.waiting import until_async

#: Of a hundred leases, how many are of that kind.
_FAIR, _READ, _IN_BLOCKS = 5, 5, 1
_AT_ONCE = 200


class Keeper:
    """Holds leases of one client, some of them in blocks.

    Args:
        client: Whose leases they are.
        count: How many.
        names: What their names begin with; the first ones are `<names>:0` and so on, plain locks.
    """

    def __init__(self, client: Redisson, count: int, names: str) -> None:
        self.client = client
        self.count = count
        self._names = names
        self._leases: list[Lease] = []
        self._end_blocks = asyncio.Event()
        self._blocks: list[asyncio.Task[bool]] = []

    async def take(self) -> None:
        """Acquire them all."""
        blocks = self.count * _IN_BLOCKS // 100
        outside = self.count - blocks
        for first in range(0, outside, _AT_ONCE):
            part = range(first, min(first + _AT_ONCE, outside))
            self._leases += await asyncio.gather(*map(self._acquire, part))
        entered = asyncio.Semaphore(0)
        self._blocks = [
            asyncio.create_task(self._stay_inside(f"{self._names}:block:{n}", entered))
            for n in range(blocks)
        ]
        for _ in range(blocks):
            await entered.acquire()

    def _acquire(self, number: int) -> Coroutine[Any, Any, Lease]:
        name, share = f"{self._names}:{number}", number % 100
        if share >= 100 - _FAIR:
            return self.client.get_fair_lock(name).acquire()
        if share >= 100 - _FAIR - _READ:
            return self.client.get_read_write_lock(name).read_lock().acquire()
        return self.client.get_lock(name).acquire()

    async def _stay_inside(self, name: str, entered: asyncio.Semaphore) -> bool:
        """Return whether the block told of a loss."""
        try:
            async with self.client.get_lock(name) as lease:
                self._leases.append(lease)
                entered.release()
                await self._end_blocks.wait()
        except LeaseLostError:
            return True
        return False

    @property
    def lost(self) -> int:
        """How many leases are lost, as their holders are told."""
        return sum(lease.lost for lease in self._leases)

    async def account(self, redis: Redis, seconds: float) -> list[str]:
        """Return of which leases Redis and their holders say different things; release the rest.

        Holders learn at the next renewal what Redis forgot; this waits that long for it.
        """
        wrong: list[str] = []

        async def agreed() -> bool:
            wrong[:] = await self._differences(redis)
            return not wrong

        with suppress(TimeoutError):
            await until_async(agreed, seconds)
        wrong = wrong[:3] + ([f"and {len(wrong) - 3} more"] if len(wrong) > 3 else [])
        if self.client.statistics().losses != self.lost:
            wrong.append(f"{self.client.statistics().losses} losses counted of {self.lost}")
        return wrong + await self._end()

    async def _differences(self, redis: Redis) -> list[str]:
        found: list[bool] = []
        for first in range(0, len(self._leases), 1000):
            pipeline = redis.pipeline(transaction=False)
            for lease in self._leases[first : first + 1000]:
                pipeline.hexists(str(lease.name), lease.owner)
            found += map(bool, await pipeline.execute())
        return [
            f"{lease!r}: {'told lost, and held' if held else 'gone, and not told'}"
            for lease, held in zip(self._leases, found, strict=True)
            if held is lease.lost
        ]

    async def _end(self) -> list[str]:
        in_blocks = [lease for lease in self._leases if ":block:" in str(lease.name)]
        left = [each for each in self._leases if not each.lost and each not in in_blocks]
        lost = sum(lease.lost for lease in in_blocks)
        self._end_blocks.set()
        reported = sum(await asyncio.gather(*self._blocks))
        wrong = [] if reported == lost else [f"{reported} blocks were told of a loss, of {lost}"]
        for first in range(0, len(left), _AT_ONCE):
            releases = [lease.release() for lease in left[first : first + _AT_ONCE]]
            wrong += [
                f"a lease that was held is not released: {outcome!r}"
                for outcome in await asyncio.gather(*releases, return_exceptions=True)
                if outcome is not None
            ]
        return wrong
