"""Where a waiter stands, as `sleeps` records it.

Nothing of the package is imported here: the checkers run beside its older versions too.
"""

from __future__ import annotations

from enum import IntEnum


class Place(IntEnum):
    """Where a waiter stands, which says whether a release wakes it."""

    #: In no queue of Redis: every release wakes it.
    NOWHERE = 0
    #: In the queue of a fair lock: the release whose turn it is.
    IN_TURN = 1
    #: The first in the queue of clients: every release calls it.
    FIRST = 2
    #: Further back in the queue of clients: none wakes it. As the second it looks by a timer.
    BEHIND = 3
