"""Money behind a lease: `guard` binds a transaction to it, and a takeover waits for the commit."""

# pip install './redisson_py[postgres]'

import asyncio
import os

import asyncpg

from redisson_py import LeaseLostError
from redisson_py.postgres import Postgres, PostgresLease

URL = os.environ.get("DATABASE_URL", "postgresql://localhost/app")
BOOK = "UPDATE account SET cents = cents + 10"


async def book(connection: asyncpg.Connection, lease: PostgresLease) -> str:
    """Book under a lease; one that is gone books nothing."""
    try:
        async with connection.transaction():
            await lease.guard(connection)
            await connection.execute(BOOK)
    except LeaseLostError:
        return "refused"
    return "booked"


async def main() -> None:
    """Take the lock away from a holder: in its transaction, and between two of them."""
    connection = await asyncpg.connect(URL)
    await connection.execute("CREATE TEMP TABLE account AS SELECT 100 AS cents")
    async with Postgres.from_url(URL) as one, Postgres.from_url(URL) as two:
        paused, other = await one.get_lock("account:a").acquire(), two.get_lock("account:a")
        async with connection.transaction():
            await paused.guard(connection)
            await other.force_release()  # stands for the end of its lease
            print("taken over before the commit:", await other.try_acquire() is not None)
            await connection.execute(BOOK)
        async with other as lease:
            print("new holder:", await book(connection, lease))
            print("paused holder:", await book(connection, paused))
    print("balance:", await connection.fetchval("SELECT cents FROM account"))
    await connection.close()


if __name__ == "__main__":
    asyncio.run(main())
