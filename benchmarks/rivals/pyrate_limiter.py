"""pyrate-limiter: a sliding window log on Redis, by the clocks of its clients."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

from redis.asyncio import Redis

from benchmarks.rivals.side import Side

# Not an import: it is installed for benchmarks only.
_package: Any = import_module("pyrate_limiter")


class PyrateLimiter(Side):
    """A bucket and a limiter for each name."""

    async def open(self, url: str) -> None:
        """Make a client."""
        self._client = Redis.from_url(url, max_connections=2000)
        self._limiters: list[Any] = []
        await self._client.ping()

    async def close(self) -> None:
        """Close the limiters and the client."""
        for each in self._limiters:
            each.close()
        await self._client.aclose()

    async def limiter(self, name: str, rate: int, per: float) -> Callable[[], Awaitable[object]]:
        """Return its call that waits; the tasks of one limiter ask one after the other."""
        rates = [_package.Rate(rate, round(per * 1000))]
        bucket = await _package.RedisBucket.init(rates, self._client, name)
        limiter = _package.Limiter(bucket)
        self._limiters.append(limiter)
        take: Callable[[], Awaitable[object]] = limiter.try_acquire_async
        return take
