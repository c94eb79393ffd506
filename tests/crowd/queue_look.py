"""The queue of clients of `k`, seen from outside."""

from __future__ import annotations

from redis.asyncio import Redis

from redisson_py import _keys
from tests.support.scripts.calls import ask
from tests.support.waiting import until_async

QUEUE = _keys.waiting_clients(b"k")


async def members(redis: Redis) -> list[str]:
    """Return who is in the queue, the first one first."""
    found = [each.decode() for each in await ask(redis, "ZRANGE", QUEUE, 0, -1)]
    return [each for each in found if not each.startswith((">", "<"))]


async def until_in_queue(redis: Redis, count: int) -> None:
    """Return when `count` clients are in the queue."""

    async def there() -> bool:
        return len(await members(redis)) == count

    await until_async(there)


async def until_nobody_is_left(redis: Redis) -> None:
    """Return when the queue is gone."""

    async def gone() -> bool:
        return not await redis.exists(QUEUE)

    await until_async(gone)


async def called(redis: Redis) -> list[str]:
    """Return who was called and has not answered yet."""
    found = [each.decode() for each in await ask(redis, "ZRANGE", QUEUE, 0, -1)]
    return [each[1:] for each in found if each.startswith(">")]


async def lease_left(redis: Redis, kind: str) -> int:
    """Return the milliseconds left of the one lease."""
    if kind in ("lock", "fenced", "write"):
        return int(await redis.pttl("k"))
    suffix = b"redisson_py:permits" if kind == "semaphore" else b"timeout"
    ((_, ends_at),) = await ask(redis, "ZRANGE", _keys.suffixed(b"k", suffix), 0, -1, "WITHSCORES")
    seconds, micros = await ask(redis, "TIME")
    return int(float(ends_at)) - int(seconds) * 1000 - int(micros) // 1000
