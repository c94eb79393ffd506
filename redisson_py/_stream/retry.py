"""When to ask again, and how soon."""

from __future__ import annotations

import random
import re

#: Error replies that mean "not executed, ask again": the server starts, fails over, or is busy.
TRY_AGAIN = (
    "READONLY",
    "LOADING",
    "BUSY",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "NOREPLICAS",
)
#: How Redis 6.2 wraps the error of a command that a script called.
_IN_SCRIPT = re.compile(r"ERR Error running script .*: -(?=[A-Z]+ )")
#: Error replies while a slot moves key by key; a call for one of the keys may be served.
_MOVING = ("TRYAGAIN", "ASK ")
#: The slot left, or began to leave, before a script used a key whose name it computes.
_NOT_LOCAL = " non local key "
_LONGEST_PAUSE = 1.0
#: Error replies that hold until the map of the cluster changes, or a key has followed the others.
_UNTIL_MOVED = (*_MOVING, "MOVED ", "CLUSTERDOWN Hash slot")
#: The longest pause where the reply was one of these, in seconds: for all calls of a server that
#: wait, and for each of them. So a few calls are soon served, and many are no storm.
MOVE_PAUSE, _MOVE_PAUSE_EACH = 0.05, 0.001
#: Seconds after which a subscription is asked for again that somebody must allow first.
UNTIL_ALLOWED = 5.0


def is_try_again(text: str) -> bool:
    """Return whether an error reply means "not executed, ask again"."""
    return _begins(text, TRY_AGAIN) or _NOT_LOCAL in text


def _begins(text: str, words: tuple[str, ...]) -> bool:
    wrapped = _IN_SCRIPT.match(text)
    return text.startswith(words, wrapped.end() if wrapped else 0)


def is_moving(text: str) -> bool:
    """Return whether an error reply says that some keys of a call may be elsewhere already."""
    return text.startswith(_MOVING) or _NOT_LOCAL in text


def is_half_done(text: str) -> bool:
    """Return whether an error reply may have ended a script after it had changed something."""
    return _NOT_LOCAL in text


def pause_before(attempt: int, longest: float = _LONGEST_PAUSE) -> float:
    """Return seconds to wait before an attempt: exponential, capped, with full jitter."""
    return random.uniform(0.2, 1.0) * min(0.02 * 2.0 ** min(attempt, 10), longest)


def longest_pause(text: str, waiting: int) -> float:
    """Return the longest pause in seconds after an error reply.

    Args:
        text: The reply.
        waiting: How many calls wait so at the same server.
    """
    if not _begins(text, _UNTIL_MOVED) and _NOT_LOCAL not in text:
        return _LONGEST_PAUSE
    return min(max(MOVE_PAUSE, waiting * _MOVE_PAUSE_EACH), _LONGEST_PAUSE)
