"""A migration that waits for running requests, and that no request sees half done."""

# pip install ./redisson_py

import asyncio
import os

from redisson_py import ReadWriteLock, Redisson

URL = os.environ.get("REDISSON_URL", "redis://localhost:6379/0")
row = {"first name": "Ada", "last name": "Lovelace"}
seen: list[str] = []


async def request(schema: ReadWriteLock) -> None:
    """Read the row: any number of requests do so at a time."""
    async with schema.read_lock():
        columns = sorted(row)
        await asyncio.sleep(0.001)
        seen.append(", ".join(columns) if columns == sorted(row) else "torn")


async def migrate(schema: ReadWriteLock) -> None:
    """Change the row in two steps, alone."""
    async with schema.write_lock():
        first = row.pop("first name")
        await asyncio.sleep(0.05)  # here a request would see half a name
        row["name"] = f"{first} {row.pop('last name')}"


async def main() -> None:
    """Migrate between two groups of requests."""
    async with Redisson.from_url(URL) as web, Redisson.from_url(URL) as job:
        reads, writes = (c.get_read_write_lock("schema", prefer="writers") for c in (web, job))
        for others in ([], [migrate(writes)], []):
            await asyncio.gather(*(request(reads) for _ in range(20)), *others)
    print({columns: seen.count(columns) for columns in sorted(set(seen))})


if __name__ == "__main__":
    asyncio.run(main())
