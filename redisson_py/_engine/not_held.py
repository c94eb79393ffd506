"""The error for a task that releases a lock it does not hold."""

from __future__ import annotations

from collections.abc import Sequence

from redisson_py._engine.hold import Hold
from redisson_py.errors import NotHeldError


def not_held(lock: object, holds: Sequence[Hold]) -> NotHeldError:
    """Return the error of a release by a task that has no hold; it names the task that has one.

    Args:
        lock: What is released.
        holds: The client's holds on it, or on its first member.
    """
    text = f"{lock!r} is not held by the current task"
    for hold in holds:
        if not hold.live:
            continue
        task = hold.task()
        if task is not None and not task.done():
            return NotHeldError(
                f"{text}, but by task {task.get_name()!r} of this client; keep the lease that"
                " `acquire` returns: any task may call `lease.release()`"
            )
        return NotHeldError(
            f"{text}, but by a task of this client that has ended: below Python 3.12"
            " `asyncio.wait_for(lock.acquire(), ...)` acquires in a new task. Use"
            " `acquire(timeout=...)`, or keep the lease that it returns and call `lease.release()`"
        )
    return NotHeldError(text)
