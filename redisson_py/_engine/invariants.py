"""The invariants of a client between any two steps; tests check them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from redisson_py._client import Redisson


def check_client(client: Redisson) -> None:
    """Raise `AssertionError` if an invariant of a hold, a queue or the schedule does not hold.

    See the top of `hold.py`, `local_queue.py` and `schedule.py`.
    """
    watchdog, context = client._watchdog, client._context
    for hold in list(watchdog.holds):
        hold.check()
    watchdog.check()
    context.registry.check()
