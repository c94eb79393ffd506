"""What the interop tests wait for."""

from __future__ import annotations

from redis.asyncio import Redis

from tests.support import until_async


async def until_java_waits(redis: Redis, channel: str | bytes, clients: int = 1) -> None:
    """Return when so many clients have subscribed to a channel: who waits subscribes first."""

    async def subscribed() -> bool:
        ((_, count),) = await redis.pubsub_numsub(channel)
        return int(count) == clients

    await until_async(subscribed)
