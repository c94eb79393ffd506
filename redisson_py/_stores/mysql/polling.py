"""When those that wait ask again: the first two of a queue soon, the others when it is near."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

from redisson_py._stores.remembered import Remembered
from redisson_py._time import now

#: Seconds between two polls of the first of a queue, or fewer if hand-offs are faster than that.
#: The second asks half as often: it goes first only if the first is silent.
_FAST_POLL: Final = 0.05
_SHORTEST_POLL: Final = 0.005
#: A hold that lasts is asked for that often in the time it has lasted.
_POLLS_A_HOLD: Final = 8
#: So often the first asks in the time from one hand-off to the next, once nobody may go before it.
_POLLS_A_HANDOFF: Final = 5
#: Seconds after the moment from which on nobody may go before it.
_AFTER_OPEN_SECONDS: Final = 0.001
#: How many waiters, the first of the queue, poll fast.
_WATCHERS: Final = 2
#: Seconds from one hand-off to the next where none was seen yet.
_PACE_SECONDS: Final = 0.1
#: Seconds by which the first waiter may be late before a free name goes to another.
_PATIENCE_SECONDS: Final = 0.1
#: Seconds after which one that has become one of the first two says so.
_SETTLED_SECONDS: Final = 0.3
#: The waiting loop sleeps for at least and at most that many seconds.
_SHORTEST_SLEEP: Final = 0.05
_LONGEST_SLEEP: Final = 7.5


@final
@dataclass(slots=True)
class _Waiter:
    """What is known of an owner that waits.

    Attributes:
        position: How many come before it; None: it is not in the queue.
        joined: How many came before it when it joined.
        since: When it joined.
        moved: When its place changed.
        interval: How long it sleeps before it asks again.
        timer: Rings for it.
    """

    position: int | None
    joined: int
    since: float
    moved: float
    interval: float = 0.0
    timer: asyncio.TimerHandle | None = None

    @property
    def watches(self) -> bool:
        """Whether it is one of the first two."""
        return self.position is not None and self.position < _WATCHERS


@final
class Polls:
    """The polls of the owners of one client that wait.

    Args:
        longest: The most seconds between two polls.
        ring: Wakes an owner that waits for a name before the waiting loop would.
    """

    def __init__(self, longest: float, ring: Callable[[str, str], None]) -> None:
        self._longest = longest
        self._ring = ring
        self._waiters: dict[str, _Waiter] = {}
        #: Seconds from one hand-off to the next, when a name was waited for the last time.
        self._paces: Remembered[str, float] = Remembered()

    def __contains__(self, owner: str) -> bool:
        return owner in self._waiters

    def patience(self, owner: str) -> tuple[float, float]:
        """Return for how long a free name must wait for an owner, once that is the first.

        The first value is for an owner that joins as one of the first two.
        """
        waiter, fast = self._waiters.get(owner), _WATCHERS * _FAST_POLL
        usual = max(fast, min(self._longest, _LONGEST_SLEEP))
        if waiter is not None and waiter.watches and waiter.interval <= fast:
            # To write it is worth it only if the name does not go from hand to hand.
            settled = waiter.joined < _WATCHERS or now() - waiter.moved > _SETTLED_SECONDS
            usual = fast if settled else usual
        return _PATIENCE_SECONDS + fast, _PATIENCE_SECONDS + usual

    def again(
        self, name: str, owner: str, position: int | None, left: float, open_for: float = 0.0
    ) -> float:
        """Return in how many seconds an owner asks again that waits with so many before it.

        `left`: seconds until the lease of the holder ends; 0: the name is free. `open_for`: seconds
        in which others may go before it, though it is the first.
        """
        present, waiter = now(), self._waiters.get(owner)
        if waiter is None:
            waiter = self._waiters[owner] = _Waiter(position, position or 0, present, present)
        elif position != waiter.position:
            if position is None or waiter.position is None or position > waiter.position:
                waiter.joined, waiter.since = position or 0, present
            waiter.position, waiter.moved = position, present
        interval = self._interval(name, waiter, present, open_for)
        if waiter.watches:
            # A free name waits for the first.
            interval = min(interval, left or _FAST_POLL)
        waiter.interval = interval
        self._end_timer(waiter)
        if interval < _SHORTEST_SLEEP:
            waiter.timer = asyncio.get_running_loop().call_later(interval, self._ring, name, owner)
        return interval

    def _interval(self, name: str, waiter: _Waiter, present: float, open_for: float) -> float:
        position = _WATCHERS if waiter.position is None else waiter.position
        passed, elapsed = waiter.joined - position, present - waiter.since
        pace = (
            elapsed / passed if passed > 0 else max(elapsed, self._paces.get(name, _PACE_SECONDS))
        )
        if waiter.watches:
            often = 2 if position or open_for else _POLLS_A_HANDOFF
            fast = min(pace / often, _FAST_POLL) * (position + 1)
            interval = max(fast, (present - waiter.moved) / _POLLS_A_HOLD * (position + 1))
            if open_for:
                interval = min(interval, open_for + _AFTER_OPEN_SECONDS)
        else:
            # Half of the way to the second.
            interval = pace * (position + 1 - _WATCHERS) / 2
        return min(max(interval, _SHORTEST_POLL), self._longest) * random.uniform(0.9, 1)

    def granted(self, name: str, owner: str) -> None:
        """Forget an owner that waits no more, and note how long each before it took."""
        waiter = self._waiters.get(owner)
        if waiter is not None:
            self._paces[name] = (now() - waiter.since) / (waiter.joined + 1)
            self._paces.move_to_end(name)
            self.forget(owner)

    def forget(self, owner: str) -> bool:
        """Forget an owner; return whether it waited."""
        waiter = self._waiters.pop(owner, None)
        if waiter is None:
            return False
        self._end_timer(waiter)
        return True

    def clear(self) -> None:
        """Forget everything."""
        for owner in list(self._waiters):
            self.forget(owner)
        self._paces.clear()

    @staticmethod
    def _end_timer(waiter: _Waiter) -> None:
        if waiter.timer is not None:
            waiter.timer.cancel()
            waiter.timer = None
