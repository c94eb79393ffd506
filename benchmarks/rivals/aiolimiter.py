"""aiolimiter: a leaky bucket in the memory of one process, without a server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

from benchmarks.rivals.side import Side

# Not an import: it is installed for benchmarks only.
_package: Any = import_module("aiolimiter")


class AioLimiter(Side):
    """A limiter for each name."""

    async def open(self, url: str) -> None:
        """It has no server."""

    async def close(self) -> None:
        """There is nothing to close."""

    async def limiter(self, name: str, rate: int, per: float) -> Callable[[], Awaitable[object]]:
        """Return its call that waits."""
        take: Callable[[], Awaitable[object]] = _package.AsyncLimiter(rate, per).acquire
        return take
