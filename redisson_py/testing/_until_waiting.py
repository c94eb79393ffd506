"""Waiting until others wait."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

#: Seconds between two looks.
_LOOK_AGAIN: Final = 0.001


class _Counts(Protocol):
    @property
    def waiters(self) -> int: ...


class Counting(Protocol):
    """A client, or a lock, semaphore, latch or barrier: what says how many tasks wait for it."""

    def statistics(self) -> _Counts:
        """Return local counters."""
        ...


async def until_waiting(of: Counting, tasks: int = 1, *, timeout: float = 10.0) -> None:
    """Return once tasks wait: for a lock, or for anything of a client. Cancelling is harmless.

    Use it instead of a sleep, before a test does what waiters should notice. Only tasks of this
    client count, from the moment they ask: Redis may not have answered yet.

    Args:
        of: The client, or what they wait for; another object of the same name will do.
        tasks: Minimum number of waiting tasks. Default: 1
        timeout: Seconds to wait for them. Default: 10

    Raises:
        ValueError: `tasks` is less than 1.
        TimeoutError: It took longer; the message says how many wait.
    """
    if tasks < 1:
        raise ValueError(f"tasks must be 1 or more, not {tasks}")
    waiting = 0
    try:
        async with asyncio.timeout(timeout):
            while True:
                waiting = of.statistics().waiters
                if waiting >= tasks:
                    return
                await asyncio.sleep(_LOOK_AGAIN)
    except TimeoutError:
        raise TimeoutError(
            f"after {timeout:g} s, {waiting} tasks wait for {of!r}, not {tasks}"
        ) from None
