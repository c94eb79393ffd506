"""The tasks of one client that wait for one semaphore, and the request of their head.

A lock has one hold, a semaphore has many, so its queue differs: while no task waits, each new task
asks Redis at once. A task that hears "busy" joins the queue. The head asks again and sleeps on the
only seat, for all the others. So tasks are served first come, first served, even if the first
wants more than those behind it.

A released hold is passed to the head if it has the number of units that the head wants: the head's
request wakes up and finds the hold, without asking Redis. The next head need not ask either: the
last answer remains true until a message comes, if the client stands in the queue of clients under
the same name, which says how many units it wants.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from redisson_py._answers import UNKNOWN_WAIT, Answer, Busy, Granted, Wakes
from redisson_py._engine.bus import Sleeper
from redisson_py._engine.hold import Hold
from redisson_py._engine.local_queue import LocalQueue, Waiter
from redisson_py._engine.request import AcquireRequest
from redisson_py._engine.server import Call
from redisson_py._engine.waiting import SAFETY_POLL_SECONDS, HeadStart, is_fresh
from redisson_py._engine.wakeups import Channel
from redisson_py._loop import Future, loop_time
from redisson_py._options import LAST_LOOK_SECONDS
from redisson_py._owner import TaskRef
from redisson_py._time import PUNCTUAL_SECONDS

if TYPE_CHECKING:
    from redisson_py._engine.context import Context
    from redisson_py._engine.server import ClientQueue, UnitCommands, Way
    from redisson_py.semaphores._ownership import PermitOwnership

PASSED = Granted()


class PermitRequest(AcquireRequest):
    """Asks for units under one owner, or takes a hold that is passed to it.

    At the head of the queue it serves as its own `Wakeups`, so that it knows its seat.

    Attributes:
        passed: A hold that another task here passed to it.
        registers: It asks under its client's name in the queue of clients, or has done so.
    """

    __slots__ = (
        "_asked_on",
        "_ended",
        "_heard",
        "_listens_first",
        "_permits",
        "_sleeper",
        "passed",
        "registers",
    )

    def __init__(
        self,
        permits: PermitOwnership[UnitCommands, Context],
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
        self._listens_first = False
        self.registers = False
        self._ended = False
        self._asked_on: Channel | None = None
        self._heard = 0
        self.passed: Hold | None = None

    def listen_first(self, head_start: HeadStart | None) -> None:
        """Subscribe before the first request, so that no message is missed; yield to `head_start`.

        Redis was asked a moment ago, or need not be asked yet.
        """
        self._listens_first, self.head_start = True, head_start

    @property
    def listens_first(self) -> bool:
        """Whether it listens before it asks for the first time."""
        return self._listens_first

    @property
    def clients(self) -> ClientQueue | None:
        """The queue of clients in which it waits."""
        return self._permits.commands.clients_for(self.target)

    @contextmanager
    def listen(self, channel: bytes, wakes: Wakes) -> Generator[Sleeper]:
        """Hold a seat on the channel."""
        with super().listen(channel, wakes) as sleeper:
            self._sleeper, self.registers = sleeper, True
            try:
                yield sleeper
            finally:
                self._sleeper = None

    def take(self, hold: Hold) -> bool:
        """Take a hold instead of asking, unless a request is under way; return whether."""
        if self._ended or self.is_pending or self.passed is not None:
            return False
        self.passed = hold
        if self._sleeper is not None and self._sleeper.seat is not None:
            self._sleeper.seat.wake()
        return True

    async def run(self, deadline: float | None) -> Answer:
        """Ask once, unless a hold was passed or the answer is known."""
        if self.passed is not None:
            if self.passed.valid:
                self.leave_server()
                return PASSED
            self.passed = None
        queue = self._permits.permit_queue
        if self._listens_first and not self._is_last_look(deadline):
            self._listens_first = False
            known = queue.known_busy(self.client, self._channel)
            if (
                known is not None
                and self._queue_sleeper is not None
                and not self._queue_sleeper.placed(known)
            ):
                return known
        answer = await super().run(deadline)
        if isinstance(answer, Busy):
            queue.absent, queue.missing = answer.absent, answer.missing
            if answer.missing:
                self._permits.warn_of_missing()
            queue.units_busy(self._asked_on, self._heard, answer)
        return answer

    def _is_last_look(self, deadline: float | None) -> bool:
        """Whether the time is nearly up, and what Redis said last is too old to be the answer."""
        if deadline is None or is_fresh(self._permits.permit_queue.busy_at, deadline):
            return False
        return loop_time() >= deadline - LAST_LOOK_SECONDS - PUNCTUAL_SECONDS

    def send(
        self,
        deadline: float | None,
        way: Way | None = None,
        future: Future[Any] | None = None,
    ) -> Call:
        """Send the request; the caller must await `run` or call `undo`."""
        # A message may come before the answer is handled; only earlier messages count.
        self._asked_on = self._channel
        self._heard = 0 if self._asked_on is None else self._asked_on.messages
        return super().send(deadline, way, future)

    @property
    def _channel(self) -> Channel | None:
        table = self.ownership.context.bus.table
        # Without any subscription, save the work of making the channel's name.
        return table.channel(self.channel) if table.channels else None

    def leave_server(self) -> None:
        """Give up what it asked the server for, and its wait there: a hold was passed to it."""
        super().undo()

    def undo(self) -> None:
        """Give back what was passed, and what the request may have got."""
        # Do not pass it to this request again, which is still the head.
        self._ended = True
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
    """The tasks of one client that wait for one semaphore.

    Attributes:
        number_known: The client has changed the number of permits, or was warned of it.
        absent: When Redis last said "busy", there was no such semaphore.
        missing: When Redis last said "busy", some permits were neither free nor taken.
    """

    __slots__ = (
        "_busy",
        "_busy_channel",
        "_busy_messages",
        "_busy_until",
        "absent",
        "missing",
        "number_known",
    )

    def __init__(self) -> None:
        self.number_known = False
        super().__init__()

    def reset(self) -> None:
        """Reset everything after the event loop was closed: nothing in it continues."""
        super().reset()
        self.absent = self.missing = False
        self._busy_channel: Channel | None = None
        self._busy_messages = 0
        self._busy_until = 0.0
        self._busy: Busy = UNKNOWN_WAIT

    @property
    def is_ahead(self) -> bool:
        """Whether other tasks here, or another process, come before a new task."""
        return bool(self.waiters) or self.asking or super().is_ahead

    @property
    def first(self) -> PermitWaiter | None:
        """The head, if there is one."""
        return self.head if isinstance(self.head, PermitWaiter) else None

    def close(self, error: BaseException) -> None:
        """Raise `error` in all waiters; nothing is passed any more."""
        super().close(error)
        self.head = None

    def units_busy(self, channel: Channel | None, messages: int, answer: Busy) -> None:
        """Record that Redis said busy, perhaps for how long.

        The answer counts for the number of messages on the channel at the time of the request.
        """
        seconds = answer.retry_in
        poll = SAFETY_POLL_SECONDS if seconds is None else min(seconds, SAFETY_POLL_SECONDS)
        self._busy_channel = channel
        self._busy_messages = messages
        self._busy_until = loop_time() + poll
        self._busy = answer

    def known_busy(self, name: bytes, channel: Channel | None) -> Busy | None:
        """Return the answer to a client with this name in the queue of clients, if it is known."""
        if (
            channel is None
            or channel is not self._busy_channel
            or channel.messages != self._busy_messages
            or self.joined is None
            or self.joined_as != name
        ):
            return None
        left = self._busy_until - loop_time()
        return replace(self._busy, retry_in=left) if left > 0 else None
