"""Fencing with SQL: the table refuses the write of a holder that was overtaken."""

# pip install ./redisson_py

import asyncio
import os
import sqlite3
from contextlib import suppress

from redisson_py import LeaseLostError, Redisson

URL = os.environ.get("REDISSON_URL", "redis://localhost:6379/0")
TABLE = "CREATE TABLE account (id TEXT PRIMARY KEY, cents INTEGER, token INTEGER)"
WRITE = "UPDATE account SET cents = ?, token = ? WHERE id = 'a' AND token <= ?"


def write(database: sqlite3.Connection, cents: int, token: int) -> str:
    """Write with a token; the number of changed rows says whether it was accepted."""
    with database:
        changed = database.execute(WRITE, (cents, token, token)).rowcount
    return "accepted" if changed else "refused"


async def main() -> None:
    """Overtake a holder that does not know yet that its lease has ended."""
    database = sqlite3.connect(":memory:")
    database.execute(TABLE)
    database.execute("INSERT INTO account VALUES ('a', 100, 0)")
    async with Redisson.from_url(URL) as one, Redisson.from_url(URL) as two:
        paused = await one.get_fenced_lock("account:a").acquire()
        await two.get_fenced_lock("account:a").force_release()  # stands for the end of its lease
        async with two.get_fenced_lock("account:a") as lease:
            print("new holder:", write(database, 150, lease.token))
            print("paused holder:", write(database, 120, paused.token))
        with suppress(LeaseLostError):  # now it hears of it
            await paused.release()
    print("balance:", *database.execute("SELECT cents FROM account").fetchone())


if __name__ == "__main__":
    asyncio.run(main())
