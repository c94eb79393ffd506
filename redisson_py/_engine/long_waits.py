"""Warns about tasks that wait long for a hold of their own client: perhaps a deadlock.

`async with lock: await gather(helper())` never ends if `helper` wants the same lock: the holder
waits for `helper`, and `helper` for the holder. asyncio does not say which task another waits
for, so the warning can only name the tasks and the lock.

The check runs when a hold is renewed, every third of a lease, so acquiring costs nothing more.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from redisson_py._owner import TaskRef

if TYPE_CHECKING:
    from redisson_py._engine.hold import Hold
    from redisson_py._engine.local_queue import Waiter

log = logging.getLogger("redisson_py")

#: Most waiting tasks that one warning names.
_NAMED = 3


def warn_of_long_waits(hold: Hold, waiters: Iterable[Waiter], present: float, long: float) -> None:
    """Warn, once for each wait, of tasks that have waited `long` seconds for a hold."""
    late: list[Waiter] = []
    for waiter in waiters:
        if not waiter.told and waiter.since <= present - long:
            waiter.told = True
            late.append(waiter)
    if not late:
        return
    names = ", ".join(_name_of(waiter.task) for waiter in late[:_NAMED])
    more = f" and {len(late) - _NAMED} more" if len(late) > _NAMED else ""
    holder = _name_of(hold.task)
    log.warning(
        "%s%s: waiting for %s %r for more than %.1f s, which %s of this client holds; if %s awaits"
        " one of them (gather, TaskGroup), both wait forever",
        *(names, more, hold.ownership.kind, hold.ownership.name, long, holder, holder),
    )


def _name_of(reference: TaskRef) -> str:
    task = reference()
    return "a task that has ended" if task is None else f"task {task.get_name()!r}"
