"""Waiting in the queue of clients that the server keeps for one lock or semaphore.

Without it a release would wake a task of every client, and all but one would ask in vain. A client
that has to wait joins the queue, and a release calls the first of it, on a channel of that client
alone; of a semaphore as many as units came back. The client, not its task, stands in the queue: of
its tasks the head of the `LocalQueue` waits here, or all readers `Together`. The server decides who
may take it; messages are hints.

Invariants:

- A client in the queue listens to its own channel, and did so before the request that joins. Where
  nobody hears a call, that client is gone.
- Each of the first two in the queue knows it, from an answer or a message; of a semaphore, each of
  the first two that were not called. After `WATCH_DELAY_SECONDS` seconds without news it watches
  the channel on which all releases are announced; at once if the holder calls nobody, as Redisson's
  clients do. So the second comes if the first does not answer its call, and both hear of a release
  that calls nobody. The others sleep.
- Nobody stays in the queue when no task of its client waits: see `LocalQueue.joined`, and
  `Together.joined`.
"""

from __future__ import annotations

from collections.abc import Callable

from redisson_py._answers import ALL, CALLED, Busy, Wakes
from redisson_py._engine.bus import Bus, Sleeper
from redisson_py._engine.wakeups import Channel, Seat, Table
from redisson_py._loop import call_later, loop_time, new_future
from redisson_py._time import PUNCTUAL_SECONDS

#: Seconds without news after which the first two in the queue look.
WATCH_DELAY_SECONDS = 0.05

#: The message to the client that is the second now. All others call.
_SECOND_CLIENT_MESSAGE = 2


class Together:
    """The tasks of one client that wait in the queue for what all of them can have: readers.

    All hear the call of their client and ask. One of them watches for it, and alone asks when a
    lease ends; when it leaves, another one asks and watches.

    Attributes:
        channel: The channel of their client, once one of them listens.
        joined: Takes the client out of the queue, if it is or may be there; else None.
        watcher: The sleep of the one that watches.
        roused: All were woken because one of them was granted it, which took their client out of
            the queue; nobody was refused since.
    """

    __slots__ = ("channel", "joined", "roused", "watcher")

    def __init__(self) -> None:
        self.channel: bytes = b""
        self.joined: Callable[..., object] | None = None
        self.watcher: QueueSleeper | None = None
        self.roused: bool = False

    def leave(self, *, closing: bool = False) -> None:
        """Take the client out of the queue, if it may be there."""
        leave, self.joined = self.joined, None
        if leave is not None:
            leave(closing=closing)

    def granted(self, table: Table, waiting: int) -> None:
        """Note a grant to one of so many, which took their client out of the queue."""
        if waiting == 1:
            self.joined = None
        elif not self.roused:
            self.rouse(table)

    def rouse(self, table: Table) -> None:
        """Have all of them ask."""
        self.roused = True
        table.wake_first(self.channel)


class QueueSleeper(Sleeper):
    """A sleep in the queue of clients; its seat is on the client's own channel.

    Args:
        bus: Gives out the seats.
        channel: The channel on which all releases are announced.
        wakes: Says whether a message there is worth asking.
        together: Who waits beside this task for the same; None: nobody does.
    """

    def __init__(
        self, bus: Bus, channel: bytes, wakes: Wakes, together: Together | None = None
    ) -> None:
        super().__init__()
        self._together = together
        self._bus = bus
        self._channel = channel
        self._wakes = wakes
        self._watch: Seat | None = None
        #: When to look although nothing was heard, in loop time; None: not at all.
        self._look_at: float | None = None

    @property
    def watches(self) -> bool:
        """Whether it watches for its client."""
        return self._together is None or self._together.watcher is self

    def heard(self, message: int) -> int:
        """Take a message on the client's own channel; return how many waiters it wakes."""
        if message != _SECOND_CLIENT_MESSAGE:
            return ALL
        if self.watches or (self._together is not None and self._together.watcher is None):
            self._look_in_a_while()
        return 0

    def _overheard(self, message: int) -> int:
        """Take a message on the channel of all releases."""
        if message != CALLED:
            return self._wakes(message)
        self._look_in_a_while()
        return 0

    def _look_in_a_while(self) -> None:
        self._look_at = loop_time() + WATCH_DELAY_SECONDS
        self.rouse()

    def placed(self, answer: Busy) -> bool:
        """Take the place in the queue; return whether to ask again, because it watches from now.

        What was heard since the request may be younger than the answer: then it looks.
        """
        if (together := self._together) is not None:
            together.roused = False
            together.watcher = together.watcher or self
        if not self.watches:
            self._look_at = None
            self.stop_watching()
        elif answer.position is None or answer.position > 1:
            self.stop_watching()
        elif self._watch is None and not answer.calls:
            self._start_watching()
            return True
        elif answer.retry_in is not None and answer.retry_in < WATCH_DELAY_SECONDS:
            # `waiting` would ask later: it does not know that the server named this moment.
            self._look_at = loop_time() + answer.retry_in
        elif self._watch is None:
            self._look_at = loop_time() + WATCH_DELAY_SECONDS
        return False

    def arm(self) -> None:
        """Forget earlier wake-ups just before a request; watch if there was no news for long."""
        super().arm()
        due = self._look_at is not None and self._look_at <= loop_time() + PUNCTUAL_SECONDS
        self._look_at = None
        if self._watch is not None:
            self._watch.arm()
        elif due:
            self._start_watching()

    async def wait(self, seconds: float | None) -> None:
        """Sleep until a wake-up, for `seconds`, or until it is time to look."""
        assert self.seat is not None
        end = None if seconds is None else loop_time() + seconds
        early = 0.0
        while not self.seat.woken:
            until = min((each for each in (end, self._look_at) if each is not None), default=None)
            left = None if until is None else until - loop_time()
            if left is not None and left <= early:
                return
            # Only a timer is early: who looks just before a lease ends has to look again.
            early = PUNCTUAL_SECONDS
            self._future = new_future()
            timer = None if left is None else call_later(left, self.rouse)
            try:
                await self._future
            finally:
                self._future = None
                if timer is not None:
                    timer.cancel()

    def _announced_on(self) -> Channel:
        self._look_at = None
        return self._start_watching().channel

    def _start_watching(self) -> Seat:
        if self._watch is None:
            self._watch = self._bus.take_seat(self._channel, self._overheard, self._woken)
        return self._watch

    def _woken(self) -> None:
        assert self.seat is not None
        self.seat.wake()

    def left(self) -> None:
        """End it: its seat was given up."""
        self.stop_watching()
        together, seat = self._together, self.seat
        if together is None or seat is None:
            return
        is_next = together.watcher is self or seat.woken
        if together.watcher is self:
            together.watcher = None
        if is_next and not together.roused:
            self._bus.table.wake_one(seat.channel.name)

    def stop_watching(self) -> None:
        """Hear no more of all releases."""
        watch, self._watch = self._watch, None
        if watch is not None:
            self._bus.leave_seat(watch, at_once=True)
