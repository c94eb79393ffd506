"""Counts the commands that a server executes."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from redis.asyncio import Redis

#: The sharded commands that clients of a cluster send instead.
_SHARDED = {"spublish": "publish", "ssubscribe": "subscribe", "sunsubscribe": "unsubscribe"}


class Counted:
    """Counts the commands that the server executes inside a block, except those that count.

    Sharded commands of a cluster are counted under the names that a single server uses.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self.calls: dict[str, int] = {}

    async def __aenter__(self) -> Self:
        await self._redis.config_resetstat()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        stats: dict[str, Any] = await self._redis.info("commandstats")
        self.calls = {
            _SHARDED.get(name, name): int(values["calls"])
            for name, values in (
                (name.removeprefix("cmdstat_"), values) for name, values in stats.items()
            )
            if name not in ("config|resetstat", "info", "config", "replconf")
        }
