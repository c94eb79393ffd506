"""A migration that waits for running requests, and that no request sees half done."""

import asyncio
import os

from redisson_py import ReadWriteLock, Redisson

URL = os.environ.get("REDISSON_URL", "redis://localhost:6379/0")
row = {"first name": "Ada", "last name": "Lovelace"}
seen: list[str] = []


def schema(client: Redisson) -> ReadWriteLock:
    """Return the lock; requests that come while a migration waits let it go first."""
    return client.get_read_write_lock("schema:customers", prefer="writers")


async def request(client: Redisson) -> None:
    """Read the row: any number of requests do so at a time."""
    async with schema(client).read_lock():
        columns = sorted(row)
        await asyncio.sleep(0.001)
        seen.append(", ".join(columns) if columns == sorted(row) else "torn")


async def migrate(client: Redisson) -> None:
    """Change the row in two steps, alone."""
    async with schema(client).write_lock():
        first = row.pop("first name")
        await asyncio.sleep(0.05)  # here a request would see half a name
        row["name"] = f"{first} {row.pop('last name')}"


async def main() -> None:
    """Migrate between two groups of requests."""
    async with Redisson.from_url(URL) as web, Redisson.from_url(URL) as deployment:
        await asyncio.gather(*(request(web) for _ in range(20)))
        await asyncio.gather(migrate(deployment), *(request(web) for _ in range(20)))
        await asyncio.gather(*(request(web) for _ in range(20)))
    print({columns: seen.count(columns) for columns in sorted(set(seen))})


if __name__ == "__main__":
    asyncio.run(main())
