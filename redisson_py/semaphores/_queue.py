"""The tasks of one client that wait for one semaphore, and the request of their head.

Where a lock has one hold, a semaphore has many, so its queue is of another kind: nobody is in
the way of a task that comes while nobody waits. A task that hears "busy" joins the queue; its
head asks again and sleeps on the one seat, for all the others. So they are served first come,
first served, also where the first wants more than those behind it.

A hold that is released is passed to the head where both want the same number of units: its
request wakes up and finds the hold, and Redis is asked nothing. The next head need not ask
either: what the last one heard is true while no message has come since it asked.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from redisson_py._commands.replies import Answer, Busy, Granted
from redisson_py._commands.wakes import Wakes
from redisson_py._engine.bus import Sleeper
from redisson_py._engine.hold import Hold
from redisson_py._engine.local_queue import LocalQueue, Waiter
from redisson_py._engine.request import AcquireRequest
from redisson_py._engine.waiting import SAFETY_POLL, Turn, is_fresh
from redisson_py._engine.wakeups import Channel
from redisson_py._loop import running_loop
from redisson_py._options import LAST_LOOK
from redisson_py._owner import TaskRef
from redisson_py._stream.call import Call
from redisson_py._time import PUNCTUAL

if TYPE_CHECKING:
    from redisson_py._stream.stream import Stream
    from redisson_py.semaphores._ownership import PermitOwnership

PASSED = Granted()


class PermitRequest(AcquireRequest):
    """Asks for units under one owner, or takes a hold that is passed to it.

    At the head of the queue it is its own `Wakeups`, so that it knows its seat.

    Attributes:
        passed: A hold that another task here passed to it.
    """

    __slots__ = ("_asked_on", "_heard", "_over", "_permits", "_sleeper", "passed")

    def __init__(
        self,
        permits: PermitOwnership,
        owner: str,
        units: int,
        lease_time: float,
        *,
        once: bool,
        deadline: float | None,
    ) -> None:
        super().__init__(permits, owner, units, lease_time, once=once, deadline=deadline)
        self._permits = permits
        self._sleeper: Sleeper | None = None
        self._over = False
        self._asked_on: Channel | None = None
        self._heard = 0
        self.passed: Hold | None = None

    def listen_first(self, turn: Turn | None) -> None:
        """Listen before asking: until another process had its turn, or only in order not to miss.

        A moment ago Redis has answered already, or need not be asked.
        """
        self.turn = turn or Turn(-1, 0.0, 0.0)

    @contextmanager
    def listen(self, channel: bytes, wakes: Wakes) -> Generator[Sleeper]:
        """Hold a seat on the channel."""
        with self.ownership.context.bus.listen(channel, wakes) as sleeper:
            self._sleeper = sleeper
            try:
                yield sleeper
            finally:
                self._sleeper = None

    @property
    def listens(self) -> bool:
        """Whether it has a seat."""
        return self._sleeper is not None

    def take(self, hold: Hold) -> bool:
        """Take a hold instead of asking, unless a request is under way; return whether."""
        if self._over or self.is_pending or self.passed is not None:
            return False
        self.passed = hold
        if self._sleeper is not None and self._sleeper.seat is not None:
            self._sleeper.seat.wake()
        return True

    async def run(self, deadline: float | None) -> Answer:
        """Ask once, unless something was passed or the answer is known."""
        if self.passed is not None:
            if self.passed.valid:
                return PASSED
            self.passed = None
        if self._sleeper is not None and not self._is_last_look(deadline):
            left = self._permits.permit_queue.known_busy(self.target, self._channel)
            if left is not None:
                return Busy(left)
        answer = await super().run(deadline)
        if isinstance(answer, Busy):
            queue = self._permits.permit_queue
            queue.absent = answer.absent
            queue.units_busy(self.target, self._asked_on, self._heard, answer.retry_in)
        return answer

    def _is_last_look(self, deadline: float | None) -> bool:
        """Whether the time is nearly up, and what Redis said last is too old to be the answer."""
        if deadline is None or is_fresh(self._permits.permit_queue.busy_at, deadline):
            return False
        return running_loop().time() >= deadline - LAST_LOOK - PUNCTUAL

    def send(self, deadline: float | None, stream: Stream | None = None) -> Call:
        """Send the request; its answer must follow, or `undo`. A stream given has room for it."""
        # A message may come before the answer is looked at: what counts is what came before.
        self._asked_on = self._channel
        self._heard = 0 if self._asked_on is None else self._asked_on.messages
        return super().send(deadline, stream)

    @property
    def _channel(self) -> Channel | None:
        table = self.ownership.context.bus.table
        # Mostly nobody listens to anything, and the name of the channel need not be put together.
        return table.channel(self.channel) if table.channels else None

    def undo(self) -> None:
        """Give back what was passed, and what the request may have got."""
        # Not to be passed to this one again, which is still the head.
        self._over = True
        hold, self.passed = self.passed, None
        super().undo()
        if hold is not None:
            self.ownership.give_back(hold)


class PermitWaiter(Waiter):
    """A waiter, with the request to be sent when it is the head."""

    __slots__ = ("request",)

    def __init__(self, task: TaskRef, passable: bool, request: PermitRequest) -> None:
        super().__init__(task, passable)
        self.request = request


class PermitQueue(LocalQueue[Hold]):
    """The tasks of one client that wait for one semaphore, and the permits others have.

    Attributes:
        holds: What tasks of this client hold, by permit id, oldest first.
        number_known: The client has changed the number of permits, or was warned of it.
        absent: When Redis last said "busy", there was no such semaphore.
    """

    __slots__ = (
        "_busy_channel",
        "_busy_messages",
        "_busy_units",
        "_busy_until",
        "absent",
        "holds",
        "number_known",
    )

    def __init__(self) -> None:
        self.number_known = False
        super().__init__()

    def start_over(self) -> None:
        """Be as new: an event loop was closed, and whatever it left here goes on no more."""
        super().start_over()
        self.absent = False
        self.holds: dict[bytes, Hold] = {}
        self._busy_channel: Channel | None = None
        self._busy_messages = 0
        self._busy_units = 0
        self._busy_until = 0.0

    def needed(self, present: float) -> bool:
        """Whether somebody waits here, holds, or must yield, at a loop time."""
        return bool(self.holds) or super().needed(present)

    @property
    def is_ahead(self) -> bool:
        """Whether somebody is before a task that comes now: here, or another process."""
        return bool(self.waiters) or self.asking or super().is_ahead

    @property
    def first(self) -> PermitWaiter | None:
        """The head, if there is one."""
        return self.head if isinstance(self.head, PermitWaiter) else None

    def close(self, error: BaseException) -> None:
        """Send everybody away; nothing is passed any more."""
        super().close(error)
        self.head = None

    def units_busy(
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

    def check(self) -> None:
        """Raise `AssertionError` if an invariant does not hold; for tests."""
        if any(not waiter.future.done() for waiter in self.waiters):
            assert self.asking, "somebody waits, and nobody asks"
        assert all(hold.state == "held" for hold in self.holds.values())
