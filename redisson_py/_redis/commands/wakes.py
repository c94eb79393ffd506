"""How many waiters a message on a channel is for."""

from __future__ import annotations

from redisson_py._answers import ALL, CALLED


def lock_wakes(message: int) -> int:
    """A lock: it is free, which is for one waiter; 1 wakes all."""
    return {0: 1, CALLED: 1, 1: ALL}.get(message, 0)


def read_write_wakes(message: int) -> int:
    """A read-write lock: 0, the last reader left; 1, a writer left; 2, a writer goes on reading.

    When a writer leaves, all waiting readers may enter. Only this library publishes 2; Redisson
    ignores it.
    """
    return {0: 1, CALLED: ALL, 1: ALL, 2: ALL}.get(message, 0)


def yielding_reader_wakes(message: int) -> int:
    """A reader that yields to writers: the message of the last reader is meant for a writer."""
    return ALL if message in (CALLED, 1, 2) else 0


def permit_wakes(message: int) -> int:
    """A semaphore: one waiter for each unit.

    Redisson publishes negative numbers too; they wake nobody.
    """
    return max(0, message)
