"""When each call is given up: one timer, and a heap that is empty unless answers are late.

The timer is set for the earliest deadline. When it fires, the calls still in flight are put in the
heap, each once, and those whose deadline has passed are given up. A call that was answered before
that never enters the heap. So a deadline costs at most a logarithm of the number of waiting calls.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterable

from redisson_py._loop import Timer, call_at, loop_time
from redisson_py._redis.stream.call import Call

#: How many entries must be over before the heap is searched for them.
_SWEEP_FROM_ENTRIES = 128


class Deadlines:
    """The deadlines of the calls of one stream.

    Args:
        sent_since: Returns the calls in flight that were sent since it was last called.
        give_up: Called with each call whose deadline has passed and whose answer is awaited.

    Attributes:
        next: When the timer fires, in loop time. The sender of a call with an earlier deadline
            must `arm` it.
    """

    def __init__(
        self, sent_since: Callable[[], Iterable[Call]], give_up: Callable[[Call], None]
    ) -> None:
        self._sent_since = sent_since
        self._give_up = give_up
        self._heap: list[tuple[float, int, Call]] = []
        self._number = itertools.count().__next__
        self._timer: Timer | None = None
        #: How many entries are over, at most.
        self._stale = 0
        self.next = math.inf

    def __len__(self) -> int:
        return len(self._heap)

    def arm(self, deadline: float) -> None:
        """Fire at this moment, which is earlier than any before."""
        if self._timer is not None:
            self._timer.cancel()
        self.next = deadline
        self._timer = call_at(deadline, self._fire)

    def rearm(self) -> None:
        """Fire for the earliest deadline in the heap, if not before."""
        if self._heap and self._heap[0][0] < self.next:
            self.arm(self._heap[0][0])

    def add(self, call: Call) -> None:
        """Remember the deadline of a call that waits for a connection, or for a long answer."""
        if call.deadline and call.timed_by is not self:
            call.timed_by = self
            self._push(call)

    def release(self, call: Call) -> None:
        """A call waits elsewhere from now on."""
        if call.timed_by is self:
            call.timed_by = None
            self.forget()

    def forget(self) -> None:
        """Note that one of the calls is over, perhaps long before its deadline."""
        self._stale += 1
        if self._stale > max(_SWEEP_FROM_ENTRIES, len(self._heap) / 2):
            self._stale = 0
            self._heap[:] = [entry for entry in self._heap if not self._is_stale(entry[2])]
            heapq.heapify(self._heap)

    def close(self) -> None:
        """Stop for good."""
        if self._timer is not None:
            self._timer.cancel()
        self._heap.clear()

    def _is_stale(self, call: Call) -> bool:
        return call.timed_by is not self or call.is_settled

    def _push(self, call: Call) -> None:
        heapq.heappush(self._heap, (call.deadline, self._number(), call))

    def _fire(self) -> None:
        self._timer, self.next = None, math.inf
        for call in self._sent_since():
            self.add(call)
        heap, present = self._heap, loop_time()
        while heap and (heap[0][0] <= present or self._is_stale(heap[0][2])):
            call = heapq.heappop(heap)[2]
            if not self._is_stale(call) and call.deadline <= present:
                self._give_up(call)
            if not self._is_stale(call):
                # It has to arrive, although nobody waits for it any more.
                self._push(call)
        # A call that was sent meanwhile, because another one failed, may have set it already.
        self.rearm()
