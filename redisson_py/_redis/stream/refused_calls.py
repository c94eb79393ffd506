"""Calls that the whole server refuses for now: it loads, cannot save, lacks replicas.

One refusal stands for all of them. One call is sent again at a time, at growing intervals; when the
server takes it, the others follow in growing numbers. So thousands of refused calls cost a sick
server about one command a second. A new call is sent once all the same: what a server refuses to
one it may do for another, as a full one takes releases.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Callable, Iterator

from redisson_py._loop import Timer, call_later
from redisson_py._redis.error_replies import unwrapped
from redisson_py._redis.stream.call import Call
from redisson_py._retry import pause_before
from redisson_py._time import now

log = logging.getLogger("redisson_py")

#: Seconds without a refusal after which a server counts as serving what was sent again.
_TAKEN_SECONDS = 0.05
#: How many times more calls are sent again each time the server has taken the last ones.
_GROWTH_FACTOR = 8
#: Seconds without a refusal after which the same one is logged again.
_QUIET_SECONDS = 60.0


class RefusedCalls:
    """The refused calls of one stream, in order.

    Args:
        where: The address of the server.
        send_again: Sends one of them.
    """

    def __init__(self, where: str, send_again: Callable[[Call], None]) -> None:
        self._where = where
        self._send_again = send_again
        self._calls: dict[Call, str] = {}
        #: Sent again since the last refusal.
        self._tried: set[Call] = set()
        self._number = 1
        #: How often a call that was sent again has been refused.
        self._attempt = 0
        self._timer: Timer | None = None
        #: What was logged, and when the server last refused anything.
        self._said = ""
        self._refused_at = -math.inf

    def __iter__(self) -> Iterator[Call]:
        return iter(self._calls)

    def __len__(self) -> int:
        return len(self._calls)

    def reason(self, call: Call) -> str:
        """Return why a call is here; empty if it is not."""
        return self._calls.get(call, "")

    def add(self, call: Call, reason: str) -> None:
        """Take a call that was refused."""
        self._tell(reason)
        self._calls[call] = reason
        if call in self._tried:
            self._attempt += 1
            self._number = 1
            self._stop()
        if self._timer is None:
            self._timer = call_later(pause_before(self._attempt), self._try)

    def drop(self, call: Call) -> None:
        """Forget a call that is over, or that another server has now."""
        self._tried.discard(call)
        if self._calls.pop(call, "") and not (self._calls or self._tried):
            self._stop()

    def clear(self) -> None:
        """Forget all of them."""
        self._calls.clear()
        self._stop()

    def _stop(self) -> None:
        self._tried.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _try(self) -> None:
        """Send some again; this is called once more, and sends more, unless they are refused."""
        self._timer = None
        if self._tried and not any(call.future.done() for call in self._tried):
            # A slow server has not answered yet: silence does not mean that it takes them.
            self._timer = call_later(_TAKEN_SECONDS, self._try)
            return
        if self._tried:
            self._attempt = 0
            self._number *= _GROWTH_FACTOR
        self._calls = {call: reason for call, reason in self._calls.items() if call.wanted}
        tried = list(itertools.islice(self._calls, self._number))
        if not tried:
            self._tell_end()
            return
        self._tried.update(tried)
        self._timer = call_later(_TAKEN_SECONDS, self._try)
        for call in tried:
            del self._calls[call]
            self._send_again(call)

    def _tell(self, reason: str) -> None:
        """Log a refusal once, and again only when it is another one, or after a quiet time."""
        reason, present = unwrapped(reason), now()
        code = reason.partition(" ")[0]
        if code != self._said or present - self._refused_at > _QUIET_SECONDS:
            log.warning("Redis at %s refuses calls for now: %s", self._where, reason)
        self._said, self._refused_at = code, present

    def _tell_end(self) -> None:
        """Log the end, if the server has answered one of those that were sent again."""
        futures = [call.future for call in self._tried]
        self._attempt, self._number = 0, 1
        self._tried.clear()
        if any(each.done() and not each.cancelled() and not each.exception() for each in futures):
            log.info("Redis at %s no longer refuses calls", self._where)
            self._said = ""
