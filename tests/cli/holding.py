"""Holds one resource of each kind, for commands that look."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from redisson_py import LockLike, Redisson
from redisson_py.locks.election import candidate_of
from tests.cli.terminals import run
from tests.support.waiting import until_async, until_listening, until_waiting

#: An owner as Redisson's clients are.
JAVA = "12345678-1234-4321-8765-1234567890ab:47"

#: What `one_of_each` holds, with the kind that is found.
KINDS = {
    "lock": "lock",
    "fenced": "fenced-lock",
    "fair": "fair-lock",
    "led": "election",
    "pay": "once",
    "read": "read-write-lock",
    "written": "read-write-lock",
    "semaphore": "semaphore",
    "semaphore:ids": "permit-expirable-semaphore",
    "barrier": "barrier",
    "limiter": "rate-limiter",
}

#: Those of them for which a client waits, as Redis knows.
WAITED_FOR = ("lock", "fenced", "fair", "led")


async def documents(*arguments: str) -> Any:
    """Return what a command prints with --json; it must succeed."""
    result = await run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


async def inspected(url: str, name: str, *options: str) -> list[dict[str, Any]]:
    """Return what `inspect` finds of a name."""
    document = await documents("inspect", name, "--url", url, *options)
    found: list[dict[str, Any]] = document["found"]
    return found


@asynccontextmanager
async def one_of_each(holder: Redisson, waiter: Redisson) -> AsyncIterator[None]:
    """Hold `KINDS` for the time of a block; `waiter` waits for `WAITED_FOR` and at `barrier`."""
    locks: tuple[LockLike, ...] = (
        holder.get_lock("lock"),
        holder.get_fenced_lock("fenced"),
        holder.get_fair_lock("fair"),
        candidate_of(holder.get_election("led")),
        holder.get_once("pay"),
        holder.get_read_write_lock("read").read_lock(),
        holder.get_read_write_lock("written").write_lock(),
    )
    leases = [await lock.acquire() for lock in locks]
    leases.append(await holder.get_semaphore("semaphore", 5).acquire(2))
    leases.append(await holder.get_permit_expirable_semaphore("semaphore:ids", 3).acquire())
    limiter = holder.get_rate_limiter("limiter", 2, 3600)
    await limiter.acquire(2)
    waits: list[asyncio.Task[object]] = [
        asyncio.create_task(waiter.get_lock("lock").acquire()),
        asyncio.create_task(waiter.get_fenced_lock("fenced").acquire()),
        asyncio.create_task(waiter.get_fair_lock("fair").acquire()),
        asyncio.create_task(waiter.get_election("led").acquire("host-2")),
        asyncio.create_task(waiter.get_barrier("barrier", 3).wait()),
    ]

    async def all_wait() -> bool:
        looks = [await lock.inspect() for lock in locks[: len(WAITED_FOR)]]
        barrier = await holder.get_barrier("barrier", 3).inspect()
        return bool(all(look.waiters for look in looks) and barrier.waiting)

    try:
        await until_async(all_wait)
        # And listen: they subscribe after their first answer.
        await until_waiting(waiter, len(waits))
        await until_listening(waiter)
        yield
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        for lease in leases:
            await lease.release()
        await limiter.delete()
