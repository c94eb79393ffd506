"""How soon to ask again."""

from __future__ import annotations

import random

from redisson_py._error_replies import waits_for_map

_LONGEST_PAUSE = 1.0
#: The longest pause while a slot moves, in seconds: for all calls of a server that wait, and for
#: each of them. So a few calls are soon served, and many are no storm.
MOVE_PAUSE, _MOVE_PAUSE_EACH = 0.05, 0.001
#: Seconds after which a subscription is asked for again that somebody must allow first.
UNTIL_ALLOWED = 5.0


def pause_before(attempt: int, longest: float = _LONGEST_PAUSE) -> float:
    """Return seconds to wait before an attempt: exponential, capped, with full jitter."""
    return random.uniform(0.2, 1.0) * min(0.02 * 2.0 ** min(attempt, 10), longest)


def longest_pause(text: str, waiting: int) -> float:
    """Return the longest pause in seconds after an error reply.

    Args:
        text: The reply.
        waiting: How many calls wait so at the same server.
    """
    if not waits_for_map(text):
        return _LONGEST_PAUSE
    return min(max(MOVE_PAUSE, waiting * _MOVE_PAUSE_EACH), _LONGEST_PAUSE)
