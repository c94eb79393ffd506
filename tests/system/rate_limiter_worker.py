"""Takes units of a rate limiter in one process, and gives up on some of the waits.

    python -m tests.system.rate_limiter_worker URL SEED COUNT

Prints how many admissions its callers got.
"""

from __future__ import annotations

import asyncio
import random
import sys

from redisson_py import ConnectionLostError, RateLimiter, Redisson

#: The limiter of the test; units and seconds.
NAME, RATE, PER = "k", 100, 0.02
TASKS = 50


async def main(url: str, seed: int, count: int) -> int:
    """Return how many admissions there were: `count`, and those that were under way then."""
    chance = random.Random(seed)
    got = 0
    async with Redisson.from_url(url, command_timeout=30) as client:
        limiter = client.get_rate_limiter(NAME, RATE, PER)

        async def take() -> None:
            nonlocal got
            while got < count:
                admitted = await one(limiter, chance)
                got += admitted

        async with asyncio.TaskGroup() as group:
            for _ in range(TASKS):
                group.create_task(take())
    return got


async def one(limiter: RateLimiter, chance: random.Random) -> bool:
    """Acquire, try, or be cancelled while it waits; return whether it was admitted."""
    how, n = chance.random(), chance.choice((1, 1, 1, 2, 5))
    try:
        if how < 0.8:
            return bool(await limiter.acquire(n))
        if how < 0.9:
            return bool(await limiter.try_acquire(n, timeout=0.01))
        async with asyncio.timeout(chance.random() * 0.01):
            return bool(await limiter.acquire(n))
    except (TimeoutError, ConnectionLostError):
        return False


if __name__ == "__main__":
    got = asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
    sys.stdout.write(str(got))
