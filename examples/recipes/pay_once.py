"""An order is paid once: the record that it is paid commits with the booking, or not at all."""

# pip install './redisson_py[postgres]'

import asyncio
import os

import asyncpg

from redisson_py.postgres import Postgres

URL = os.environ.get("DATABASE_URL", "postgresql://localhost/app")
BOOK = "INSERT INTO recipe_payments (cents) VALUES ($1) RETURNING id"


async def pay(store: Postgres, order: str, cents: int, *, breaks: bool = False) -> str:
    """Pay an order, or return what it was paid with; others wait meanwhile."""
    async with store.get_once(f"pay:{order}") as once:
        if not once.done:
            connection = await asyncpg.connect(URL)
            try:
                async with connection.transaction():
                    payment = await connection.fetchval(BOOK, cents)
                    if breaks:
                        raise ConnectionError("the bank does not answer")
                    await once.complete(f"payment {payment}", connection=connection)
            finally:
                await connection.close()
        return str(once.result)


async def main() -> None:
    """One request fails in the middle, then three come at once, and one more afterwards."""
    async with Postgres.from_url(URL) as store:
        await store.get_once("pay:7").forget()
        db = await asyncpg.connect(URL)
        await db.execute("CREATE TABLE recipe_payments (id serial, cents integer)")
        print(*await asyncio.gather(pay(store, "7", 1999, breaks=True), return_exceptions=True))
        print(*await asyncio.gather(*(pay(store, "7", 1999) for _ in range(3))), sep=", ")
        print(
            await pay(store, "7", 1999),
            "of",
            await db.fetchval("SELECT count(*) FROM recipe_payments"),
        )
        await db.execute("DROP TABLE recipe_payments")
        await db.close()


if __name__ == "__main__":
    asyncio.run(main())
