"""How soon to ask again after an error reply."""

from __future__ import annotations

from redisson_py._redis.error_replies import waits_for_map
from redisson_py._retry import LONGEST_PAUSE_SECONDS

#: The longest pause while a slot moves, in seconds: for all calls of a server that wait, and for
#: each of them. So a few calls are soon served, and many are no storm.
MOVE_PAUSE_SECONDS, _MOVE_PAUSE_SECONDS_EACH = 0.05, 0.001
#: Seconds after which a subscription is asked for again that somebody must allow first.
PERMISSION_PAUSE_SECONDS = 5.0


def longest_pause(text: str, waiting: int) -> float:
    """Return the longest pause in seconds after an error reply.

    Args:
        text: The reply.
        waiting: How many calls wait so at the same server.
    """
    if not waits_for_map(text):
        return LONGEST_PAUSE_SECONDS
    return min(max(MOVE_PAUSE_SECONDS, waiting * _MOVE_PAUSE_SECONDS_EACH), LONGEST_PAUSE_SECONDS)
