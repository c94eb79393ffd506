"""No lock of ours: a version column refuses a write that is based on an old reading."""

# pip install asyncpg

import asyncio
import os

import asyncpg

URL = os.environ.get("DATABASE_URL", "postgresql://localhost/app")
TABLE = "CREATE TABLE recipe_version (id text PRIMARY KEY, title text, version integer)"
READ = "SELECT title, version FROM recipe_version WHERE id = $1"
WRITE = """\
UPDATE recipe_version SET title = $2, version = version + 1 WHERE id = $1 AND version = $3"""


async def add_word(pool: asyncpg.Pool, page: str, word: str) -> int:
    """Append a word, however long that takes; return how many attempts it took."""
    attempts = 0
    while True:
        attempts += 1
        title, version = await pool.fetchrow(READ, page)
        await asyncio.sleep(0.05)  # somebody thinks, and holds no connection
        if await pool.execute(WRITE, page, f"{title} {word}", version) == "UPDATE 1":
            return attempts


async def main() -> None:
    """Have three editors change one page at once."""
    async with asyncpg.create_pool(URL) as pool:
        await pool.execute(TABLE)
        try:
            await pool.execute("INSERT INTO recipe_version VALUES ('page', 'words:', 1)")
            attempts = await asyncio.gather(*[add_word(pool, "page", word) for word in "abc"])
            title, version = await pool.fetchrow(READ, "page")
            print(f"{title}; version {version}; {sum(attempts)} attempts")
        finally:
            await pool.execute("DROP TABLE recipe_version")


if __name__ == "__main__":
    asyncio.run(main())
