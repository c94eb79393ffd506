"""A message that is delivered twice is booked once: the table decides, the lock saves work."""

# pip install ./redisson_py

import asyncio
import os
import sqlite3

from redisson_py import Redisson

URL = os.environ.get("REDISSON_URL", "redis://localhost:6379/0")
database = sqlite3.connect(":memory:", isolation_level=None)
database.execute("CREATE TABLE bookings (message TEXT PRIMARY KEY, cents INTEGER)")
lookups: list[str] = []


async def look_up_price(message: str) -> int:
    """Ask a service that costs money; after a lost lease, a message may ask twice."""
    lookups.append(message)
    return await asyncio.sleep(0.05, 1999)


async def consume(client: Redisson, message: str) -> str:
    """Book a message unless it is booked; deliveries of other messages do not wait."""
    async with client.get_lock(f"message:{message}"):
        if database.execute("SELECT 1 FROM bookings WHERE message = ?", [message]).fetchone():
            return "known"
        cents = await look_up_price(message)
        sql = "INSERT INTO bookings VALUES (?, ?) ON CONFLICT DO NOTHING"
        return "booked" if database.execute(sql, (message, cents)).rowcount else "known"


async def main() -> None:
    """Deliver one message to two consumers, several times."""
    async with Redisson.from_url(URL) as one, Redisson.from_url(URL) as two:
        deliveries = [consume(each, "order-17") for each in (one, two, one, two)]
        print(*sorted(await asyncio.gather(*deliveries)), f"{len(lookups)} look-up")


if __name__ == "__main__":
    asyncio.run(main())
