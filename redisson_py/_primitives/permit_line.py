"""The line of the tasks that wait for one semaphore, and the question of its head.

Where a lock has one hold, a semaphore has many, so its line is of another kind: nobody stands
in the way of a task that comes while nobody waits. Whoever hears "busy" stands in line; its
head asks again and sleeps on the one seat, for all the others. So they are served first come,
first served, also where the first wants more than those behind it.

A hold that is released is passed to the head where both want the same number of units: its
attempt wakes up and finds the hold, and Redis is asked nothing. The next head need not ask
either: what the last one heard is true while no message has come since it asked.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from redisson_py._handoff import Line, Place
from redisson_py._lease.hold import Hold
from redisson_py._loop import running_loop
from redisson_py._owner import TaskRef
from redisson_py._primitives.attempt import HoldAttempt
from redisson_py._primitives.context import Context
from redisson_py._primitives.permit import Permit
from redisson_py._waiting import SAFETY_POLL, Busy, Granted, Turn
from redisson_py._wakeups.bus import Waiter
from redisson_py._wakeups.table import Channel, Wakes

if TYPE_CHECKING:
    from redisson_py._primitives.permit_holds import PermitHolds

_PASSED = Granted(0)


def permit_wakes(message: int) -> int:
    """Return how many seats a message wakes: as many as it says there are units.

    Redisson publishes negative numbers too; they are no chance for anybody.
    """
    return max(0, message)


class PermitAttempt(HoldAttempt):
    """Asks for units under one owner, or takes a hold that is passed to it.

    At the head of the line it is its own `Wakeups`, so that it knows its seat.

    Args:
        context: The parts of the client.
        source: The semaphore.
        owner: Under which owner.
        units: How many.
        lease_time: Seconds.

    Attributes:
        passed: A hold that another task here passed to it.
    """

    __slots__ = ("_asked_on", "_over", "_source", "_told", "_waiter", "passed", "units")

    def __init__(
        self, context: Context, source: PermitHolds, owner: str, units: int, lease_time: float
    ) -> None:
        super().__init__(context, source, owner, units, lease_time, None)
        self._source = source
        self._waiter: Waiter | None = None
        self._over = False
        self._asked_on: Channel | None = None
        self._told = 0
        self.units = units
        self.passed: Hold | None = None

    def listen_first(self, turn: Turn | None) -> None:
        """Listen before asking: until another process had its turn, or only in order not to miss.

        The question of a moment ago was answered already, or is not needed.
        """
        self.turn = turn or Turn(-1, 0.0, 0.0)

    @contextmanager
    def listen(self, channel: bytes, wakes: Wakes) -> Generator[Waiter]:
        """Hold a seat on the channel."""
        with self._context.bus.listen(channel, wakes) as waiter:
            self._waiter = waiter
            try:
                yield waiter
            finally:
                self._waiter = None

    @property
    def listens(self) -> bool:
        """Whether it has a seat."""
        return self._waiter is not None

    def take(self, hold: Hold) -> bool:
        """Take a hold instead of asking, unless a question is under way; return whether."""
        if self._over or self._call is not None or self.passed is not None:
            return False
        self.passed = hold
        if self._waiter is not None and self._waiter.seat is not None:
            self._waiter.seat.wake()
        return True

    async def run(self, deadline: float | None) -> Granted[int] | Busy:
        """Ask once, unless something was passed or the answer is known."""
        if self.passed is not None:
            if self.passed.held:
                return _PASSED
            self.passed = None
        if self._waiter is not None:
            left = self._source._line.known_busy(self.units, self._channel)
            if left is not None:
                return Busy(left)
        return await super().run(deadline)

    @property
    def _channel(self) -> Channel | None:
        return self._context.bus.table.channel(self.channel)

    def _undo_all(self) -> None:
        self._source._undo_units(self.owner, self.units, self._lease_time)

    def ask(self, deadline: float | None) -> None:
        """Send the question; `answer` must follow, or `undo`."""
        # A message may come before the answer is looked at: what counts is what came before.
        self._asked_on = self._channel
        self._told = 0 if self._asked_on is None else self._asked_on.messages
        super().ask(deadline)

    def _busy(self, answer: int) -> Busy:
        busy = super()._busy(answer)
        self._source._line.heard_busy(self.units, self._asked_on, self._told, busy.retry_in)
        return busy

    def undo(self) -> None:
        """Give back what was passed, and what the last question may have got."""
        # Not to be passed to this one again, which is still the head.
        self._over = True
        hold, self.passed = self.passed, None
        super().undo()
        if hold is not None:
            self._source._give_back(hold)


class PermitPlace(Place):
    """A place in line, with the question to be asked when it is the head."""

    __slots__ = ("attempt",)

    def __init__(self, task: TaskRef, passable: bool, attempt: PermitAttempt) -> None:
        super().__init__(task, passable)
        self.attempt = attempt


class PermitLine(Line):
    """The tasks of one client that wait for one semaphore, and the permits others have.

    Attributes:
        permits: What tasks of this client hold, by id, oldest first. Kept alive here: any
            task may give back what another took, as with any semaphore.
    """

    __slots__ = ("_busy_channel", "_busy_messages", "_busy_units", "_busy_until", "permits")

    def __init__(self) -> None:
        super().__init__()
        self.permits: dict[str, Permit] = {}
        self._busy_channel: Channel | None = None
        self._busy_messages = 0
        self._busy_units = 0
        self._busy_until = 0.0

    def needed(self, present: float) -> bool:
        """Whether somebody stands here, holds, or must respect a turn, at a loop time."""
        return bool(self.permits) or super().needed(present)

    @property
    def crowded(self) -> bool:
        """Whether somebody is before who comes now: in line, or another process in its turn."""
        turn = self.turn
        owes_a_turn = turn is not None and turn.until > running_loop().time()
        return bool(self.places) or self.asking or owes_a_turn

    @property
    def first(self) -> PermitPlace | None:
        """The head, if there is one."""
        return self.head if isinstance(self.head, PermitPlace) else None

    def close(self, error: BaseException) -> None:
        """Send everybody away; nothing is passed any more."""
        super().close(error)
        self.head = None

    def heard_busy(
        self, units: int, channel: Channel | None, messages: int, seconds: float | None
    ) -> None:
        """Redis says that so many units are not available, perhaps for so long.

        It was asked when so many messages had come on the channel.
        """
        poll = SAFETY_POLL if seconds is None else min(seconds, SAFETY_POLL)
        self._busy_channel = channel
        self._busy_messages = messages
        self._busy_units = units
        self._busy_until = running_loop().time() + poll

    def known_busy(self, units: int, channel: Channel | None) -> float | None:
        """Return for how many seconds so many units are known not to be available, if they are."""
        if (
            channel is None
            or channel is not self._busy_channel
            or channel.messages != self._busy_messages
            or units < self._busy_units
        ):
            return None
        left = self._busy_until - running_loop().time()
        return left if left > 0 else None
