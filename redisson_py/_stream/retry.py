"""When to ask again, and how soon."""

from __future__ import annotations

import random
import re

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
#: How Redis 6.2 wraps what a command answered to a script that called it.
_IN_SCRIPT = re.compile(r"ERR Error running script .*: -(?=[A-Z]+ )")
_LONGEST_PAUSE = 1.0


def is_try_again(text: str) -> bool:
    """Return whether an error reply says "not executed, ask again"."""
    wrapped = _IN_SCRIPT.match(text)
    return text.startswith(TRY_AGAIN, wrapped.end() if wrapped else 0)


def pause_before(attempt: int) -> float:
    """Return seconds to wait before an attempt: exponential, capped, with full jitter."""
    return random.uniform(0.2, 1.0) * min(0.02 * 2.0 ** min(attempt, 10), _LONGEST_PAUSE)
