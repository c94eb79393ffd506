"""The parts of a client of Redis."""

from __future__ import annotations

from dataclasses import dataclass

from redisson_py._engine.context import Context
from redisson_py._redis.executor import Executor


def redis_of(context: Context) -> RedisContext | None:
    """Return the parts of a client if it is one of Redis."""
    return context if isinstance(context, RedisContext) else None


@dataclass(frozen=True, slots=True)
class RedisContext(Context):
    """The parts of one client of Redis that its synchronizers are built on."""

    executor: Executor
