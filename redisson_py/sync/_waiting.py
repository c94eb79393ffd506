"""Waiting for the loss of a lease for some time, and for the states of an election."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator

from redisson_py import Leader, Lease
from redisson_py._loop import time_limit
from redisson_py._time import Duration, check_timeout
from redisson_py.sync._wrapping import Wrapper


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


def states(election: Wrapper) -> Generator[Leader | None]:
    """Yield what an election's `observe` does, each after a wait of this thread.

    When this ends, or becomes garbage, the event loop closes the generator that it reads.
    """

    async def begin(own: object) -> AsyncGenerator[Leader | None]:
        made: AsyncGenerator[Leader | None] = own.observe()  # type: ignore[attr-defined]
        return made

    observed = election._call(begin)

    async def next_state(_: object) -> Leader | None:
        return await anext(observed)

    while True:
        yield election._call(next_state)
