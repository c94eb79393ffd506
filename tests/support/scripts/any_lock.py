"""The scripts of any kind of lock on the key `k`: what is asked and told is the same for each."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.scripts.calls import LEASE, A, Scripts, ask
from tests.support.scripts.fair import FairScripts
from tests.support.scripts.lock import LockScripts
from tests.support.scripts.read_write import ReadWriteScripts, SideScripts
from tests.support.waiting import until_async

AnyLock = LockScripts | SideScripts

#: Fenced locks have the scripts of plain ones, but for acquiring and leases.
LOCKS: dict[str, Callable[[Scripts], AnyLock]] = {
    "plain": LockScripts,
    "fenced": lambda scripts: LockScripts(scripts, fenced=True),
    "fair": FairScripts,
    "read": lambda scripts: ReadWriteScripts(scripts, b"k").read,
    "write": lambda scripts: ReadWriteScripts(scripts, b"k").write,
}


def rivals(lock: AnyLock) -> list[AnyLock]:
    """Return what keeps others out of this lock while somebody has it."""
    if isinstance(lock, LockScripts):
        return [lock]
    sides = ReadWriteScripts(lock.scripts, lock.key)
    return [sides.write] if lock.side == "read" else [sides.write, sides.read]


async def wait_until_gone(lock: AnyLock) -> None:
    """Wait until its key has expired."""

    async def gone() -> bool:
        return not await lock.redis.exists(lock.key)

    await until_async(gone)


async def write_count(lock: AnyLock, count: str) -> None:
    """Have a hold count of A that nobody should have written."""
    field, mode = (A, []) if isinstance(lock, LockScripts) else (lock.field(), ["mode", lock.side])
    await ask(lock.redis, "HSET", lock.key, *mode, field, count)
    await lock.redis.pexpire(lock.key, LEASE)
