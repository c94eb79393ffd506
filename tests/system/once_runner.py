"""A process that runs something once, and says how far it is, until it is killed.

Run as `python -m tests.system.once_runner URL LEASE_TIME NAME STEP`. Prints `entered` with what it
was told, then each step, up to STEP, and stays there. The steps are `running`, `effect` and
`completed`; in PostgreSQL, where the effect is a row of the transaction that completes it,
`inside` and `committed` follow `effect`.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import asyncpg

from redisson_py import OnceLease, Redisson
from redisson_py.postgres import Postgres


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def client_of(url: str, lease_time: float) -> Any:
    if url.startswith("postgres"):
        return Postgres.from_url(url, lease_time=lease_time)
    return Redisson.from_url(url, lease_time=lease_time)


async def reach(reached: str, step: str) -> None:
    """Say that a step was reached, and stay there if it is the last one."""
    say(reached)
    if reached == step:
        await asyncio.Event().wait()


async def take_effect(client: Any, name: str, token: int) -> None:
    """Write where everybody sees it who has written: the token."""
    await client.get_latch(f"effect:{name}:{token}", 1).try_set_count(1, expire_in=60)


async def in_steps(client: Any, once: OnceLease, name: str, step: str) -> None:
    if isinstance(client, Redisson):
        await take_effect(client, name, once.token)
    await reach("effect", step)
    await once.complete(b"theirs")
    await reach("completed", step)


async def in_a_transaction(url: str, once: OnceLease, name: str, step: str) -> None:
    connection = await asyncpg.connect(url)
    async with connection.transaction():
        await connection.execute("INSERT INTO effects VALUES ($1)", name)
        await reach("effect", step)
        await once.complete(b"theirs", connection=connection)
        await reach("inside", step)
    await reach("committed", step)


async def main(url: str, lease_time: float, name: str, step: str) -> None:
    async with client_of(url, lease_time) as client, client.get_once(name) as once:
        say(f"entered {once.done} {once.token}")
        if step == "running":
            await asyncio.Event().wait()
        if name.startswith("row"):
            await in_a_transaction(url, once, name, step)
        await in_steps(client, once, name, step)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2]), *sys.argv[3:]))
