"""Fencing in PostgreSQL: the row refuses what a holder writes that was overtaken."""

# pip install './redisson_py[postgres]'

import asyncio
import os

import asyncpg

from redisson_py import LeaseLostError
from redisson_py.postgres import Postgres

URL = os.environ.get("DATABASE_URL", "postgresql://localhost/app")
WRITE = "UPDATE account SET cents = $1, token = $2 WHERE id = 'a' AND token <= $2"


async def write(connection: asyncpg.Connection, cents: int, token: int) -> str:
    """Write with a token; the number of changed rows says whether it was accepted."""
    done = await connection.execute(WRITE, cents, token)
    return "accepted" if done == "UPDATE 1" else "refused"


async def main() -> None:
    """Overtake a holder that does not know yet that its lease has ended."""
    connection = await asyncpg.connect(URL)
    await connection.execute(
        "CREATE TEMP TABLE account AS SELECT 'a' AS id, 100 AS cents, 0::bigint AS token"
    )
    async with Postgres.from_url(URL) as one, Postgres.from_url(URL) as two:
        paused = await one.get_fenced_lock("account:a").acquire()
        await two.get_fenced_lock("account:a").force_release()  # stands for the end of its lease
        async with two.get_fenced_lock("account:a") as lease:
            print("new holder:", await write(connection, 150, lease.token))
            print("paused holder:", await write(connection, 120, paused.token))
        try:
            await paused.release()
        except LeaseLostError:
            print("now it hears of it")
    print("balance:", await connection.fetchval("SELECT cents FROM account"))
    await connection.close()


if __name__ == "__main__":
    asyncio.run(main())
