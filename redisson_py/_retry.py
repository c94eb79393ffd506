"""How soon to try again."""

from __future__ import annotations

import random

#: The longest pause before an attempt, in seconds.
LONGEST_PAUSE_SECONDS = 1.0


def pause_before(attempt: int, longest: float = LONGEST_PAUSE_SECONDS) -> float:
    """Return seconds to wait before an attempt: exponential, capped, with full jitter."""
    return random.uniform(0.2, 1.0) * min(0.02 * 2.0 ** min(attempt, 10), longest)
