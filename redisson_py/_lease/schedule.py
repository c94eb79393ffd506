"""Which hold is due for renewal when, and which lease ends when. Decisions only, no I/O.

All holds that the watchdog renews have the same lease, so the order of their renewal is the
order of their dues and of their ends: two dictionaries in order of insertion serve, at the
same small cost for one hold and for ten thousand. Leases that end by themselves have ends of
their own and lie in a heap; what was released meanwhile is skipped when it comes up, and
swept out when it is most of the heap.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator

from redisson_py._lease.hold import Hold
from redisson_py._lease.lease import Lease

#: Share of the period within which holds are renewed together although not yet due.
_TOGETHER = 0.2


class LeaseSchedule:
    """The moments of one client's leases.

    Args:
        period: Seconds from one renewal of a hold to the next.
    """

    def __init__(self, period: float) -> None:
        self.period = period
        self._due: dict[Hold, float] = {}
        self._ending: dict[Hold, None] = {}
        self._limits: list[tuple[float, int, Lease]] = []
        self._live_limits = 0
        self._numbers = itertools.count()

    def idle(self) -> bool:
        """Return whether nothing is left to be done at any time."""
        if self._ending:
            return False
        self._sweep()
        return not self._limits

    @property
    def watched(self) -> list[Hold]:
        """The holds that are renewed, the one that ends first leading."""
        return list(self._ending)

    def watch(self, hold: Hold, now: float) -> None:
        """Renew a hold from now on."""
        self._due[hold] = now + self.period
        self._ending[hold] = None

    def unwatch(self, hold: Hold) -> None:
        """Renew a hold no more."""
        self._due.pop(hold, None)
        self._ending.pop(hold, None)

    def limit(self, lease: Lease, ends_at: float) -> None:
        """End a lease at a moment."""
        heapq.heappush(self._limits, (ends_at, next(self._numbers), lease))
        if len(self._limits) > 64 and len(self._limits) > 2 * self._live_limits:
            self._sweep()

    def _sweep(self) -> None:
        self._limits = [row for row in self._limits if _in_force(row)]
        heapq.heapify(self._limits)
        self._live_limits = len(self._limits)

    def next_event(self, now: float) -> float | None:
        """Return when something is to be done next."""
        moments = []
        if self._due:
            moments.append(next(iter(self._due.values())))
        if self._ending:
            near = [hold.ends_at for hold in self._ending_within(now + self.period)]
            far = next(iter(self._ending)).ends_at - self.period
            moments.append(min(near, default=far))
        if self._limits:
            moments.append(self._limits[0][0])
        return min(moments, default=None)

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
        return taken

    def renewed(self, hold: Hold, ends_at: float) -> None:
        """Redis confirmed a renewal."""
        if hold in self._ending:
            del self._ending[hold]
            self._ending[hold] = None
            hold.ends_at = max(hold.ends_at, ends_at)

    def failed(self, holds: list[Hold], retry_at: float) -> None:
        """Nobody knows whether these were renewed: ask again, sooner, before all others."""
        again = {hold: retry_at for hold in holds if hold in self._due}
        for hold in again:
            del self._due[hold]
        self._due = {**again, **self._due}

    def take_ended(self, now: float) -> tuple[list[Hold], list[Lease]]:
        """Return the watched holds and the leases whose time is over."""
        holds = [h for h in self._ending_within(now + self.period) if h.ends_at <= now]
        leases: list[Lease] = []
        while self._limits and self._limits[0][0] <= now:
            row = heapq.heappop(self._limits)
            if _in_force(row):
                leases.append(row[2])
        return holds, leases

    def _ending_within(self, moment: float) -> Iterator[Hold]:
        """Yield the holds that end before a moment.

        Replies overtake each other by less than a period, so the order of insertion is that
        of the ends to within a period: whoever asks looks that much further.
        """
        for hold in self._ending:
            if hold.ends_at > moment:
                return
            yield hold


def _in_force(row: tuple[float, int, Lease]) -> bool:
    return row[2].state == "held" and row[2].limit == row[0]
