"""Redisson, the Java library whose protocol ours speaks; a Java machine a side.

The program is `Bench` of the driver that the interop tests use; Maven builds it on first use.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from asyncio.subprocess import PIPE
from time import monotonic
from typing import Any, ClassVar

from benchmarks.crew import LONGEST, Worker
from benchmarks.rivals.side import CannotError, Pairs, ProgramSide
from tests.interop.driver_build import RELEASE, JavaNotFoundError, command

#: Full speed: both compilers and the collector that such a machine gets by default, with a heap
#: that never has to grow.
_OPTIONS = ("-XX:+UseG1GC", "-Xms1g", "-Xmx1g")

#: Warm when so many slices in a row brought less than a hundredth.
_STALE = 4
_SLICE = 0.5


class Redisson(ProgramSide):
    """One client; its users are threads that call `lock()` and `unlock()`."""

    settings: ClassVar[dict[str, object]] = {}
    asynchronous = False

    async def open(self, url: str) -> None:
        """Start the Java machine and wait until it is connected."""
        try:
            words = await asyncio.to_thread(command, RELEASE, *_OPTIONS, main="Bench")
        except JavaNotFoundError as error:
            raise CannotError(str(error)) from error
        except subprocess.CalledProcessError as error:
            raise CannotError(f"Maven could not build it ({error})") from error
        self._program = Worker(
            await asyncio.create_subprocess_exec(
                *(*words, url, json.dumps(self.settings)), stdin=PIPE, stdout=PIPE, limit=LONGEST
            )
        )
        await self._program.hear()

    async def close(self) -> None:
        """Have it end."""
        await self._program.end()

    async def warm_up(self, seconds: float) -> bool:
        """Run what will be measured until it gets no faster, or the time is over."""
        end = monotonic() + seconds
        each = min(_SLICE, seconds) / 4
        best = 0.0
        stale = 0
        while stale < _STALE and monotonic() < end:
            rate = 0.0
            for tasks in (1, 64, 512):
                found = await self.pairs(tasks, each, "warm up")
                rate += found.done / found.seconds
            name = f"warm up:{monotonic()}"
            await self.sections(tasks=10, seconds=each, name=name)
            stale = stale + 1 if rate < best * 1.01 else 0
            best = max(best, rate)
        return stale == _STALE

    async def pairs(self, tasks: int, seconds: float, prefix: str) -> Pairs:
        """Have threads do it, or as many chains of calls."""
        order = {"tasks": tasks, "seconds": seconds, "prefix": prefix}
        found = await self._program.do("pairs", **order, **{"async": self.asynchronous})
        return Pairs(**found)

    async def order(self, job: str, **order: Any) -> Any:
        """Have the program do it."""
        return await self._program.do(job, **order)

    async def sections(self, **order: Any) -> list[tuple[int, int, int]]:
        """Have threads do it."""
        every = {"stay": 0.0, "start_at": 0.0, **order, "rest": order.get("pause", 0.0)}
        return [
            (begin, end, party) for begin, end, party in await self._program.do("sections", **every)
        ]


class RedissonAsync(Redisson):
    """Its users are chains of `lockAsync(owner)` and `unlockAsync(owner)`; no thread waits."""

    asynchronous = True


class RedissonAsyncSmallPool(RedissonAsync):
    """The same with what was found to suit it best on two processors."""

    settings: ClassVar[dict[str, object]] = {
        "nettyThreads": 2,
        "connectionPoolSize": 8,
        "connectionMinimumIdleSize": 8,
    }
