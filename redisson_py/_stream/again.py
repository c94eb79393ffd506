"""When to ask again, and how soon."""

from __future__ import annotations

import random

#: Error replies that say "not executed, ask again": the server starts, fails over, or is busy.
TRY_AGAIN = (
    "READONLY",
    "LOADING",
    "BUSY",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "NOREPLICAS",
)
_LONGEST_PAUSE = 1.0


def pause_before(attempt: int) -> float:
    """Return seconds to wait before an attempt: exponential, capped, with full jitter."""
    return random.uniform(0.2, 1.0) * min(0.02 * 2.0 ** min(attempt, 10), _LONGEST_PAUSE)
