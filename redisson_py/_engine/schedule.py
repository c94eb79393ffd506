"""When each hold is renewed, and when it counts as over. Decisions only, no I/O.

Renewals are kept in buckets by the time they are due, so that adding and removing a hold costs
the same for one hold and for a hundred thousand. A limited number is taken at once: many holds
acquired at one moment are renewed over several turns, and stay spread over the period.

Ends are kept in a heap. A hold has a row there only if it can end before it is renewed: it ends by
itself, or its renewal failed or is late. A row that comes up before the hold's real end is put
back at that end, so a renewal does not touch the heap. Rows of holds that are over are skipped
when they come up, and removed when they are more than half of the heap.

Invariants: a hold with `asked_after` is in exactly one bucket, which is its `bucket`; no other hold
is in a bucket. The row in force of a hold has its moment in `ends_row`.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from redisson_py._engine.hold import Hold

#: Buckets in one period. Holds may be renewed up to one bucket early.
_BUCKETS = 16

#: A renewal this many buckets late was delayed by a blocked event loop: then rows are added for
#: the ends of its bucket. Holds that can end sooner already have a row.
_LATE_BUCKETS = _BUCKETS // 2


class LeaseSchedule:
    """The times at which one client's holds are due, and at which they end.

    Args:
        period: Seconds from one renewal of a hold to the next.
    """

    def __init__(self, period: float) -> None:
        self.period = period
        self._width = period / _BUCKETS
        self._buckets: dict[int, dict[Hold, None]] = {}
        self._order: list[int] = []
        self._ends: list[tuple[float, int, Hold]] = []
        self._rows = 0
        self._numbers = itertools.count()
        #: Holds in earlier buckets are late; they have rows for their ends.
        self._late = 0

    def put(self, hold: Hold, due: float) -> None:
        """Schedule the only renewal of a hold at a moment."""
        number = int(due / self._width)
        try:
            bucket = self._buckets[number]
        except KeyError:
            bucket = self._bucket(number)
        if hold.bucket is bucket:
            return
        if hold.bucket is not None:
            del hold.bucket[hold]
        bucket[hold] = None
        hold.bucket = bucket
        if number < self._late:
            self.watch_end(hold, hold.earliest_end)

    def drop(self, hold: Hold) -> None:
        """Remove the renewal of a hold."""
        if hold.bucket is not None:
            del hold.bucket[hold]
            hold.bucket = None

    def forget(self, hold: Hold) -> None:
        """Remove a hold that is over."""
        if hold.bucket is not None:
            del hold.bucket[hold]
            hold.bucket = None
        if hold.ends_row is not None:
            hold.ends_row = None
            self._rows -= 1

    def watch_end(self, hold: Hold, moment: float) -> None:
        """Make sure that a row of the hold comes up no later than a moment."""
        row = hold.ends_row
        if row is None:
            self._rows += 1
        elif row <= moment:
            return
        hold.ends_row = moment
        heapq.heappush(self._ends, (moment, next(self._numbers), hold))
        if len(self._ends) > 64 and len(self._ends) > 2 * self._rows:
            self._sweep()

    def next_event(self, renewals_after: float = -math.inf) -> float | None:
        """Return the time of the next event; renewals not before `renewals_after`."""
        number = self._first_bucket()
        due = math.inf if number is None else max(number * self._width, renewals_after)
        while self._ends and self._ends[0][2].ends_row != self._ends[0][0]:
            heapq.heappop(self._ends)
        if self._ends:
            due = min(due, self._ends[0][0])
        return None if math.isinf(due) else due

    def take_due(self, now: float, batch: int, most: int) -> list[Hold]:
        """Return at most `most` holds to renew now, and schedule them one period later.

        Holds that are due soon fill the last batch. `put` reschedules those whose renewal fails.
        """
        last, early = int(now / self._width), int((now + self.period / 2) / self._width)
        taken: list[Hold] = []
        while len(taken) < most:
            number = self._first_bucket()
            if number is None or number > (early if len(taken) % batch else last):
                break
            bucket = self._buckets[number]
            room = most - len(taken)
            if number > last:
                room = min(room, batch - len(taken) % batch)
            if len(bucket) <= room:
                taken += bucket
                bucket.clear()
            else:
                some = list(itertools.islice(bucket, room))
                for hold in some:
                    del bucket[hold]
                taken += some
        if taken:
            self._put_next(taken, now)
        return taken

    def asked(self, holds: list[Hold], now: float) -> None:
        """Schedule holds that are renewed now, before they were due, one period later."""
        for hold in holds:
            self.drop(hold)
        self._put_next(holds, now)

    def _put_next(self, taken: list[Hold], now: float) -> None:
        """Schedule holds that are in no bucket one period later."""
        due = now + self.period
        # A bucket begins up to one width before its holds are due; rounding may add another.
        soon = due + (_LATE_BUCKETS + 2) * self._width
        bucket = self._bucket(int(due / self._width))
        for hold in taken:
            bucket[hold] = None
            hold.bucket = bucket
            if hold.ends_at < soon:
                self.watch_end(hold, hold.earliest_end)

    def _bucket(self, number: int) -> dict[Hold, None]:
        bucket = self._buckets.get(number)
        if bucket is None:
            bucket = self._buckets[number] = {}
            heapq.heappush(self._order, number)
        return bucket

    def take_ended(self, now: float) -> list[Hold]:
        """Return the holds of which a lease is over, and remove their rows."""
        late = int(now / self._width) - _LATE_BUCKETS
        for number in self._order:
            # Usually none: the event loop was blocked when these were due.
            if self._late <= number < late:
                for hold in self._buckets[number]:
                    self.watch_end(hold, hold.earliest_end)
        self._late = max(self._late, late)
        ended: list[Hold] = []
        while self._ends and self._ends[0][0] <= now:
            moment, _, hold = heapq.heappop(self._ends)
            if hold.ends_row != moment:
                continue
            hold.ends_row = None
            self._rows -= 1
            end = hold.earliest_end
            if end <= now:
                ended.append(hold)
            else:
                self.watch_end(hold, end)
        return ended

    def _first_bucket(self) -> int | None:
        """Return the number of the first bucket with something in it."""
        while self._order:
            number = self._order[0]
            if self._buckets[number]:
                return number
            heapq.heappop(self._order)
            del self._buckets[number]
        return None

    def _sweep(self) -> None:
        self._ends = [row for row in self._ends if row[2].ends_row == row[0]]
        heapq.heapify(self._ends)

    def check(self, holds: Iterable[Hold]) -> None:
        """Raise `AssertionError` if an invariant does not hold; for tests."""
        kept = set(holds)
        for bucket in self._buckets.values():
            assert all(hold.bucket is bucket for hold in bucket)
            assert kept.issuperset(bucket), "a hold that is over is to be renewed"
        rows = {hold for moment, _, hold in self._ends if hold.ends_row == moment}
        assert kept >= rows, "a hold that is over has an end"
        assert len(rows) == self._rows
        for hold in kept:
            assert hold.ends_row is None or hold in rows
            assert hold.bucket is None or hold in hold.bucket
            assert hold.bucket is not None or hold.ends_row is not None, "nothing watches a hold"
