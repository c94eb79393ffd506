"""The scripts of any kind of lock on the key `k`: what is asked and told is the same for each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from redisson_py._scripts.source import Arg
from tests.support.scripts.calls import LEASE, A, Scripts, ask
from tests.support.scripts.fair import WAIT, FairScripts
from tests.support.scripts.lock import LockScripts
from tests.support.scripts.read_write import ReadWriteScripts, SideScripts

AnyLock = LockScripts | SideScripts

#: Fenced locks have the scripts of plain ones, but for acquiring and leases.
LOCKS: dict[str, Callable[[Scripts], AnyLock]] = {
    "plain": LockScripts,
    "fenced": lambda scripts: LockScripts(scripts, fenced=True),
    "fair": FairScripts,
    "read": lambda scripts: ReadWriteScripts(scripts, b"k").read,
    "write": lambda scripts: ReadWriteScripts(scripts, b"k").write,
}


class TriedOnce(FairScripts):
    """A fair lock whose acquires take no place in the queue unless they say so."""

    async def acquire(
        self,
        owner: str = A,
        holds: Arg = 1,
        lease_ms: Arg = LEASE,
        tokens: Arg = 0,
        *,
        wait_ms: Arg = WAIT,
        alive_ms: Arg = LEASE,
        places: Arg = 0,
        version: Arg = 0,
        version_ms: Arg = 0,
    ) -> int | None:
        """Ask for a hold, and for nothing else."""
        return await super().acquire(
            owner,
            holds,
            lease_ms,
            wait_ms=wait_ms,
            alive_ms=alive_ms,
            places=places,
            version=version,
            version_ms=version_ms,
        )


def rivals(lock: AnyLock) -> list[AnyLock]:
    """Return what keeps others out of this lock while somebody has it."""
    if isinstance(lock, LockScripts):
        return [lock]
    sides = ReadWriteScripts(lock.scripts, lock.key)
    return [sides.write] if lock.side == "read" else [sides.write, sides.read]


async def wait_until_gone(lock: AnyLock) -> None:
    """Wait until its key has expired."""
    while await lock.redis.exists(lock.key):
        await asyncio.sleep(0.001)


async def write_count(lock: AnyLock, count: str) -> None:
    """Have a hold count of A that nobody should have written."""
    field, mode = (A, []) if isinstance(lock, LockScripts) else (lock.field(), ["mode", lock.side])
    await ask(lock.redis, "HSET", lock.key, *mode, field, count)
    await lock.redis.pexpire(lock.key, LEASE)
