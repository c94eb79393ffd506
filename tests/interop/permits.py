"""The semaphore of the tests, as both sides have it."""

from __future__ import annotations

from redisson_py import PermitExpirableSemaphore
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
