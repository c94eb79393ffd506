"""Shared by latch and barrier."""

from __future__ import annotations

import math

from redisson_py._loop import loop_time
from redisson_py._options import TOMBSTONE
from redisson_py._time import LONGEST_LEASE


def receipt_time(deadline: float | None) -> float:
    """Return the seconds for which Redis must remember a request that has this deadline.

    After an outage it can be repeated until then. If Redis had forgotten it, it would be carried
    out a second time.
    """
    if deadline is None:
        return TOMBSTONE
    left = max(0.0, deadline - loop_time())
    # Whole seconds: the conversion to milliseconds is cached.
    return math.ceil(min(left, LONGEST_LEASE)) + TOMBSTONE
