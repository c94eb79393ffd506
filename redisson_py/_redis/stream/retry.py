"""How soon to ask again after an error reply."""

from __future__ import annotations

from redisson_py._redis.error_replies import waits_for_map
from redisson_py._retry import LONGEST_PAUSE

#: The longest pause while a slot moves, in seconds: for all calls of a server that wait, and for
#: each of them. So a few calls are soon served, and many are no storm.
MOVE_PAUSE, _MOVE_PAUSE_EACH = 0.05, 0.001
#: Seconds after which a subscription is asked for again that somebody must allow first.
UNTIL_ALLOWED = 5.0


def longest_pause(text: str, waiting: int) -> float:
    """Return the longest pause in seconds after an error reply.

    Args:
        text: The reply.
        waiting: How many calls wait so at the same server.
    """
    if not waits_for_map(text):
        return LONGEST_PAUSE
    return min(max(MOVE_PAUSE, waiting * _MOVE_PAUSE_EACH), LONGEST_PAUSE)
