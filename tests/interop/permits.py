"""The semaphore of the tests, as both sides have it, and holders of it to kill."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from redisson_py import PermitExpirableSemaphore, Redisson
from tests.interop.java import JavaObject

NAME = "semaphore"
#: Of a semaphore whose permits have ids: until when each is taken.
LEASES = "{semaphore}:timeout"
UNKNOWN = "0" * 32
#: Milliseconds, far more than any test takes; seconds for `lease_time`.
LONG = 600_000
LASTING = LONG // 1000


async def from_java(redisson: JavaObject) -> JavaObject:
    """Return the semaphore whose permits have ids, as Java has it."""
    return await redisson.get("getPermitExpirableSemaphore", NAME)


async def counted(ours: PermitExpirableSemaphore, java: JavaObject) -> tuple[int, int]:
    """Return how many permits are free and how many taken, on which both must agree."""
    found = (await ours.available(), await ours.acquired())
    assert await java.call("availablePermits", thread="looks on") == found[0]
    assert await java.call("acquiredPermits", thread="looks on") == found[1]
    assert await java.call("getPermits", thread="looks on") == await ours.permits() == sum(found)
    return found


@asynccontextmanager
async def holder(url: str, lease_time: float, kind: str, units: int = 1) -> AsyncIterator[Process]:
    """Have a Python process hold units of the semaphore, with the watchdog; it is killed after."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, url, str(lease_time), kind, str(units), stdout=PIPE
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(30):
            assert await process.stdout.readline() == b"held\n"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def _hold(url: str, lease_time: float, kind: str, units: int) -> None:
    async with Redisson.from_url(url, lease_time=lease_time) as client:
        if kind == "plain":
            await client.get_semaphore(NAME).acquire(units)
        else:
            await client.get_permit_expirable_semaphore(NAME).acquire_many(units)
        sys.stdout.write("held\n")
        sys.stdout.flush()
        await asyncio.sleep(LASTING)


if __name__ == "__main__":
    asyncio.run(_hold(sys.argv[1], float(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
