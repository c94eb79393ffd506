"""Waiting for the loss of a lease for some time."""

from __future__ import annotations

from redisson_py import Lease
from redisson_py._loop import time_limit
from redisson_py._time import Duration, check_timeout


async def until_lost(lease: Lease, timeout: Duration | None) -> bool:
    """Wait until a lease is lost; return whether it is.

    Raises:
        TypeError: The timeout is neither a number nor a timedelta.
        ValueError: It is negative or NaN.
    """
    seconds = check_timeout(timeout)
    try:
        async with time_limit(seconds):
            await lease.wait_lost()
    except TimeoutError:
        pass
    return lease.lost
