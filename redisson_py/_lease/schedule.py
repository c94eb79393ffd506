"""Which hold is due for renewal when, and which lease ends when. Decisions only, no I/O.

All holds that the watchdog renews have the same period, so the order of their last renewal is
the order of their dues: a dictionary in order of insertion serves, at the same small cost for
one hold and for ten thousand. Ends lie in a heap, and a hold's only from the time it is first
due: most are released long before. A renewal does not touch the heap: a row that comes up
before the hold's real end is put back at that end, so each hold is looked at once a lease.
What was released meanwhile is skipped when it comes up, and swept out when it is most of the
heap.
"""

from __future__ import annotations

import heapq
import itertools
import math

from redisson_py._lease.hold import Hold
from redisson_py._lease.lease import Lease

#: Share of the period within which holds are renewed together although not yet due.
_TOGETHER = 0.2

Row = tuple[float, int, Hold | Lease]


class LeaseSchedule:
    """The moments of one client's leases.

    Args:
        period: Seconds from one renewal of a hold to the next.
    """

    def __init__(self, period: float) -> None:
        self.period = period
        self._due: dict[Hold, float] = {}
        self._ends: list[Row] = []
        #: The moment in the one row in force of each hold that has a row.
        self._row: dict[Hold, float] = {}
        self._live_limits = 0
        self._numbers = itertools.count()

    def idle(self) -> bool:
        """Return whether nothing is left to be done at any time."""
        if self._due:
            return False
        self._sweep()
        return not self._ends

    @property
    def watched(self) -> list[Hold]:
        """The holds that are renewed, the one that is due first leading."""
        return list(self._due)

    def watch(self, hold: Hold, now: float) -> float:
        """Renew a hold from now on, or notice that it ends earlier; return when to look."""
        # Taken out first: its place in the order is that of its new moment.
        self._due.pop(hold, None)
        due = self._due[hold] = now + self.period
        if hold.ends_at >= due:
            return due
        self._mind_end(hold)
        return hold.ends_at

    def unwatch(self, hold: Hold) -> None:
        """Renew a hold no more."""
        self._due.pop(hold, None)
        self._row.pop(hold, None)

    def limit(self, lease: Lease, ends_at: float) -> None:
        """End a lease at a moment."""
        self._push(ends_at, lease)

    def next_event(self) -> float | None:
        """Return when something is to be done next."""
        end = self._first_end()
        due = next(iter(self._due.values()), None)
        if end is None or due is None:
            return due if end is None else end[0]
        return min(due, end[0])

    def take_due(self, now: float, batch: int) -> list[Hold]:
        """Return the holds to renew now, filled up to whole batches with those due soon.

        They count as renewed until `failed` says otherwise.
        """
        if not self._due or next(iter(self._due.values())) > now:
            return []
        taken: list[Hold] = []
        soon, early = now + self.period * _TOGETHER, now + self.period / 2
        for hold, due in self._due.items():
            if due > (soon if len(taken) % batch == 0 else early):
                break
            taken.append(hold)
        for hold in taken:
            del self._due[hold]
            self._due[hold] = now + self.period
            self._mind_end(hold)
        return taken

    def renewed(self, hold: Hold, ends_at: float) -> None:
        """Redis confirmed a renewal."""
        if hold in self._due:
            hold.ends_at = max(hold.ends_at, ends_at)

    def failed(self, holds: list[Hold], retry_at: float) -> None:
        """Nobody knows whether these were renewed: ask again, sooner, before all others."""
        again = {hold: retry_at for hold in holds if hold in self._due}
        for hold in again:
            del self._due[hold]
        self._due = {**again, **self._due}

    def take_ended(self, now: float) -> tuple[list[Hold], list[Lease]]:
        """Return the watched holds and the leases whose time is over.

        A hold is returned again and again until it is watched no more.
        """
        for hold, due in self._due.items():
            if due > now:
                break
            # Not taken yet: the event loop was blocked from before it was due.
            self._mind_end(hold)
        holds: dict[Hold, None] = {}
        leases: list[Lease] = []
        while (row := self._first_end()) is not None and row[0] <= now:
            heapq.heappop(self._ends)
            if isinstance(row[2], Lease):
                leases.append(row[2])
            else:
                holds[row[2]] = None
        for hold in holds:
            self._push(hold.ends_at, hold)
        return list(holds), leases

    def _mind_end(self, hold: Hold) -> None:
        """Have a row come up no later than a hold's end."""
        if hold.ends_at < self._row.get(hold, math.inf):
            self._push(hold.ends_at, hold)

    def _first_end(self) -> Row | None:
        """Return the row that ends first, after putting right those that came up too early."""
        while self._ends:
            row = self._ends[0]
            ending = row[2]
            if not self._in_force(row):
                heapq.heappop(self._ends)
            elif isinstance(ending, Hold) and ending.ends_at > row[0]:
                self._row[ending] = ending.ends_at
                heapq.heapreplace(self._ends, (ending.ends_at, row[1], ending))
            else:
                return row
        return None

    def _push(self, moment: float, ending: Hold | Lease) -> None:
        if isinstance(ending, Hold):
            self._row[ending] = moment
        heapq.heappush(self._ends, (moment, next(self._numbers), ending))
        live = len(self._due) + self._live_limits
        if len(self._ends) > 64 and len(self._ends) > 2 * live:
            self._sweep()

    def _sweep(self) -> None:
        limits = [row for row in self._ends if isinstance(row[2], Lease) and self._in_force(row)]
        self._live_limits = len(limits)
        self._row = {hold: hold.ends_at for hold in self._row}
        ends: list[Row] = [(end, next(self._numbers), hold) for hold, end in self._row.items()]
        self._ends = ends + limits
        heapq.heapify(self._ends)

    def _in_force(self, row: Row) -> bool:
        moment, _, ending = row
        if isinstance(ending, Lease):
            return ending._state == "held" and ending._limit == moment
        return self._row.get(ending) == moment
