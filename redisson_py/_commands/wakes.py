"""How many waiters a message on a channel is for."""

from __future__ import annotations

from collections.abc import Callable

#: Wakes every waiter of a channel.
ALL = 1 << 30

#: Tells how many waiters a message wakes.
Wakes = Callable[[int], int]


def lock_wakes(message: int) -> int:
    """A lock: 0 is one release, 1 wakes everybody."""
    return {0: 1, 1: ALL}.get(message, 0)


def read_write_wakes(message: int) -> int:
    """A read-write lock: 0, the last reader left; 1, a writer left; 2, a writer goes on reading.

    All readers waited for a writer together. Only this library says 2, and Redisson ignores it.
    """
    return {0: 1, 1: ALL, 2: ALL}.get(message, 0)


def writers_first_wakes(message: int) -> int:
    """A read-write lock whose readers wait for writers too: after each message all look again.

    The last reader's is for a writer, and one that yields to a writer must not take it.
    """
    return ALL if message in (0, 1, 2) else 0


def permit_wakes(message: int) -> int:
    """A semaphore: as many as there are units.

    Redisson publishes negative numbers too; they are no chance for anybody.
    """
    return max(0, message)


def wakes_everybody(message: int) -> int:
    """A latch, a barrier: whatever the message says, all look again."""
    return ALL
