"""No lock of ours: a unique key makes a repeated request the same request."""

# pip install asyncpg

import asyncio
import os
import uuid

import asyncpg

URL = os.environ.get("DATABASE_URL", "postgresql://localhost/app")
TABLES = """
CREATE TABLE recipe_requests (key uuid PRIMARY KEY, answer text);
CREATE TABLE recipe_bookings (id integer GENERATED ALWAYS AS IDENTITY, cents integer)"""
CLAIM = "INSERT INTO recipe_requests (key) VALUES ($1) ON CONFLICT DO NOTHING"
BOOK = "INSERT INTO recipe_bookings (cents) VALUES ($1) RETURNING id"
SAVE = "UPDATE recipe_requests SET answer = $2 WHERE key = $1"


async def book(pool: asyncpg.Pool, key: uuid.UUID, cents: int) -> str:
    """Book once for each key. A second request waits for the first, and has its answer."""
    async with pool.acquire() as connection, connection.transaction():
        if await connection.execute(CLAIM, key) == "INSERT 0 0":
            known = "SELECT answer FROM recipe_requests WHERE key = $1"
            return str(await connection.fetchval(known, key))
        answer = f"booking {await connection.fetchval(BOOK, cents)}"
        await connection.execute(SAVE, key, answer)
        return answer


async def main() -> None:
    """Send one request three times at once."""
    async with asyncpg.create_pool(URL) as pool:
        await pool.execute(TABLES)
        try:
            key = uuid.uuid4()  # made by the client, and sent again with each repetition
            print(*await asyncio.gather(*[book(pool, key, 1999) for _ in range(3)]), sep=", ")
            print("rows:", await pool.fetchval("SELECT count(*) FROM recipe_bookings"))
        finally:
            await pool.execute("DROP TABLE recipe_requests, recipe_bookings")


if __name__ == "__main__":
    asyncio.run(main())
