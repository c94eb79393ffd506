"""The error for a task that releases a lock it does not hold."""

from __future__ import annotations

from typing import Any

from redisson_py._engine.context import TaskHolds
from redisson_py._engine.watchdog import Watchdog
from redisson_py.errors import NotHeldError


def not_held(lock: object, holds: TaskHolds[Any], watchdog: Watchdog) -> NotHeldError:
    """Return the error of a release by a task that has no hold; it names the task that has one.

    Args:
        lock: What is released.
        holds: The holds of tasks on it, or on its first member.
        watchdog: Also knows the holds of ended tasks.
    """
    text = f"{lock!r} is not held by the current task"
    for hold in watchdog.holds:
        if getattr(hold.ownership, "holds", None) is not holds or not hold.live:
            continue
        task = hold.task()
        if task is not None and not task.done():
            return NotHeldError(
                f"{text}, but by task {task.get_name()!r} of this client; keep the lease that"
                " `acquire` returns, which any task may release: `lease.release()`"
            )
        return NotHeldError(
            f"{text}, but by a task of this client that has ended: below Python 3.12"
            " `asyncio.wait_for(lock.acquire(), ...)` acquires in a task of its own. Use"
            " `acquire(timeout=...)`, or release the lease that it returns: `lease.release()`"
        )
    return NotHeldError(text)
