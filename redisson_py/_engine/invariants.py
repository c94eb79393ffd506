"""The invariants of a client between any two steps; tests check them."""

from __future__ import annotations

from typing import Protocol

from redisson_py._engine.context import Context
from redisson_py._engine.watchdog import Watchdog


class Client(Protocol):
    """A client of any store, with what its invariants are about."""

    @property
    def _watchdog(self) -> Watchdog: ...
    @property
    def _context(self) -> Context: ...


def check_client(client: Client) -> None:
    """Raise `AssertionError` if an invariant of a hold, a queue or the schedule does not hold.

    See the top of `hold.py`, `holds.py`, `local_queue.py` and `schedule.py`. The tasks see the
    holds that there are, and no others.
    """
    watchdog, context = client._watchdog, client._context
    for hold in list(watchdog.holds):
        hold.check()
        hold.ownership.check_tasks_view(hold)
    watchdog.check()
    context.registry.check()
