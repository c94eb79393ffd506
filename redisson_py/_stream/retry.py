"""How soon to ask again."""

from __future__ import annotations

import random

_LONGEST_PAUSE = 1.0
#: Seconds after which a subscription is asked for again that somebody must allow first.
UNTIL_ALLOWED = 5.0


def pause_before(attempt: int) -> float:
    """Return seconds to wait before an attempt: exponential, capped, with full jitter."""
    return random.uniform(0.2, 1.0) * min(0.02 * 2.0 ** min(attempt, 10), _LONGEST_PAUSE)
