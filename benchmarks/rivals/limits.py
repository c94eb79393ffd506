"""limits: a moving window on Redis, which records every grant as ours does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib import import_module
from time import time
from typing import Any

from benchmarks.rivals.side import Side

# Not imports: it is installed for benchmarks only.
_package: Any = import_module("limits")
_storage: Any = import_module("limits.aio.storage")
_strategies: Any = import_module("limits.aio.strategies")


class Limits(Side):
    """On redis-py, with a connection for each call under way."""

    async def open(self, url: str) -> None:
        """Make a client."""
        options = {"implementation": "redispy", "max_connections": 2000}
        storage = _storage.RedisStorage(f"async+{url}", **options)
        self._limiter: Any = _strategies.MovingWindowRateLimiter(storage)
        assert await storage.check()

    async def close(self) -> None:
        """Nothing closes its client."""

    async def limiter(self, name: str, rate: int, per: float) -> Callable[[], Awaitable[object]]:
        """Return a loop: it has no call that waits."""
        item = _package.RateLimitItemPerSecond(rate, round(per))

        async def take() -> None:
            while not await self._limiter.hit(item, name):
                window = await self._limiter.get_window_stats(item, name)
                await asyncio.sleep(max(0.0, window.reset_time - time()))

        return take
