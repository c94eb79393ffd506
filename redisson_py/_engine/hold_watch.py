"""Notices that a hold for which tasks of its own client wait was released by force.

Such tasks do not ask the server: the release of the hold calls the next. If another client releases
the hold by force, only a message tells of it, and nobody here listens for it: the watchdog would
notice at the next renewal, up to a third of a lease later. So where the first of the local queue
has waited for a moment, the client listens for it, and checks the hold after each message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redisson_py._answers import ALL
from redisson_py._engine.wakeups import Seat
from redisson_py._loop import Timer, call_later

if TYPE_CHECKING:
    from redisson_py._engine.context import Context
    from redisson_py._engine.local_queue import LocalQueue, Waiter
    from redisson_py._engine.server import Commands

#: Seconds before the first look at a queue, and most between two; each pause doubles. Whoever is
#: its first at two looks waits long: where holds go from task to task faster, nobody listens.
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 2.0


class HoldWatch:
    """Listens while tasks wait long in a local queue for a hold of their own client.

    Args:
        context: The parts of the client.
        commands: Names the lock, and the channel on which a forced release is announced.
        queue: The local queue, in which somebody waits.

    Attributes:
        seat: Its seat on the channel while it listens.
    """

    __slots__ = ("_commands", "_context", "_first", "_pause", "_queue", "_timer", "seat")

    def __init__(self, context: Context, commands: Commands, queue: LocalQueue[Any]) -> None:
        self._context: Context = context
        self._commands: Commands = commands
        self._queue: LocalQueue[Any] = queue
        self._first: Waiter | None = None
        self._pause: float = _FIRST_PAUSE_SECONDS
        self._timer: Timer = call_later(_FIRST_PAUSE_SECONDS, self._look)
        self.seat: Seat | None = None

    def _look(self) -> None:
        queue = self._queue
        first = next(iter(queue.waiters), None)
        if first is None:
            queue.end_watch()
        elif first is self._first and queue.hold is not None:
            channel = self._commands.channel
            self.seat = self._context.bus.take_seat(channel, _every_message, self._heard)
            # It may have been released before the bell listened.
            self._check_hold()
        else:
            self._first = first
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)
            self._timer = call_later(self._pause, self._look)

    def _heard(self) -> None:
        self._check_hold()
        if self.seat is not None:
            self.seat.arm()
            if next(iter(self._queue.waiters), None) is not self._first:
                self._stop_listening()
                self._pause = _FIRST_PAUSE_SECONDS
                self._timer = call_later(self._pause, self._look)

    def _check_hold(self) -> None:
        key = self._commands.key
        self._context.watchdog.ask_now(lambda each: each == key)

    def end(self) -> None:
        """Stop for good."""
        self._timer.cancel()
        self._stop_listening()

    def _stop_listening(self) -> None:
        if self.seat is not None:
            self._context.bus.leave_seat(self.seat)
            self.seat = None


def _every_message(message: int) -> int:
    """Each message is for the watch of a hold, which uses up no message of a waiter."""
    return ALL
