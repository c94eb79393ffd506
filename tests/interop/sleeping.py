"""When a Java thread sleeps: it asks, subscribes, asks again and waits as long as it was told."""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis

from tests.support import until_async


async def scripts_run(redis: Redis) -> int:
    """Return how many scripts the server was asked to run."""
    stats: dict[str, Any] = await redis.info("commandstats")
    return sum(stats.get(f"cmdstat_{each}", {}).get("calls", 0) for each in ("eval", "evalsha"))


async def subscribers(redis: Redis, channel: str | bytes) -> int:
    """Return how many clients listen to a channel."""
    ((_, count),) = await redis.pubsub_numsub(channel)
    return int(count)


async def until_java_sleeps(
    redis: Redis, channel: str | bytes, asked: int, listening: int = 0
) -> None:
    """Return when a thread has asked twice and its client listens.

    Args:
        redis: Where to look.
        channel: Where it is told.
        asked: What `scripts_run` said before; nobody else may run scripts meanwhile, and
            Redisson's script must have been run once, so that the server knows it.
        listening: What `subscribers` said before.
    """

    async def asleep() -> bool:
        there = await subscribers(redis, channel)
        return there > listening and await scripts_run(redis) >= asked + 2

    await until_async(asleep)
