"""Replicas of a service start at once: the first migrates, the others wait, later ones pass."""

# pip install ./redisson_py

import asyncio
import os

from redisson_py import Redisson

URL = os.environ.get("REDISSON_URL", "redis://localhost:6379/0")
KEEP = 30 * 24 * 3600  # longer than this release is deployed
columns = ["first name", "last name"]


async def migrate() -> str:
    """Safe to repeat: whoever runs it may die at its end, and then the next one runs it."""
    if "name" not in columns:
        await asyncio.sleep(0.05)  # other replicas start meanwhile
        columns.append("name")
    return "schema 7"


async def replica(number: int) -> str:
    """Serve when the schema is there, whoever has made it."""
    async with Redisson.from_url(URL) as client:
        gate = client.get_once("migrate:7", keep=KEEP)
        return f"replica {number} serves with " + str(await gate.run(migrate))


async def main() -> None:
    """Start three replicas at once, and one more later."""
    print(*await asyncio.gather(*(replica(number) for number in range(3))), sep="\n")
    print(await replica(3))
    print("columns:", *columns, sep=" | ")
    async with Redisson.from_url(URL) as client:
        await client.get_once("migrate:7").forget()  # so that this recipe can be run again


if __name__ == "__main__":
    asyncio.run(main())
