"""No lock of ours: `SELECT … FOR UPDATE` lets one transaction at a time decide about a row."""

# pip install asyncpg

import asyncio
import os

import asyncpg

URL = os.environ.get("DATABASE_URL", "postgresql://localhost/app")
TABLE = "CREATE TABLE recipe_row_lock (id text PRIMARY KEY, cents integer NOT NULL)"
READ = "SELECT cents FROM recipe_row_lock WHERE id = $1 FOR UPDATE"
WRITE = "UPDATE recipe_row_lock SET cents = cents - $2 WHERE id = $1"


async def pay(pool: asyncpg.Pool, account: str, cents: int) -> str:
    """Pay if there is enough; whoever reads the row meanwhile waits for our commit."""
    async with pool.acquire() as connection, connection.transaction():
        if await connection.fetchval(READ, account) < cents:
            return "refused"
        await asyncio.sleep(0.05)  # a rate, a limit: whatever decides
        await connection.execute(WRITE, account, cents)
        return "paid"


async def main() -> None:
    """Pay 60 of 100 cents three times at once."""
    async with asyncpg.create_pool(URL) as pool:
        await pool.execute(TABLE)
        try:
            await pool.execute("INSERT INTO recipe_row_lock VALUES ('a', 100)")
            print(*sorted(await asyncio.gather(*[pay(pool, "a", 60) for _ in range(3)])))
            print("balance:", await pool.fetchval("SELECT cents FROM recipe_row_lock"))
        finally:
            await pool.execute("DROP TABLE recipe_row_lock")


if __name__ == "__main__":
    asyncio.run(main())
