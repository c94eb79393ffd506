"""Gives waiting tasks their seats, and has the bell listen while there are any.

Each name is listened to from its first seat until a moment after its last was left. What is asked
from a seat is asked after that: see `Bell`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from redisson_py._answers import Wakes
from redisson_py._engine.server import Bell
from redisson_py._engine.wakeups import Channel, Seat, Table
from redisson_py._loop import Future, Timer, call_later, loop_time, new_future, wake
from redisson_py._time import PUNCTUAL_SECONDS

#: Seconds for which the bell still listens to a channel after its last waiter left, so that a hot
#: lock does not make it begin and stop at every hand-off.
LINGER_SECONDS = 1.0


class Sleeper:
    """A seat, and a sleep until it is woken."""

    def __init__(self) -> None:
        self._future: Future[None] | None = None
        self.seat: Seat | None = None

    def rouse(self) -> None:
        """End the sleep, if there is one."""
        wake(self._future)

    async def wait(self, seconds: float | None) -> None:
        """Sleep until a wake-up, or for `seconds`."""
        assert self.seat is not None
        if self.seat.woken:
            return
        self._future = new_future()
        timer = None if seconds is None else call_later(max(0.0, seconds), self.rouse)
        try:
            await self._future
        finally:
            self._future = None
            if timer is not None:
                timer.cancel()

    def arm(self) -> None:
        """Forget earlier wake-ups just before a request."""
        assert self.seat is not None
        self.seat.arm()

    async def wait_for_messages(self, beyond: int, seconds: float) -> bool:
        """Sleep until more than `beyond` messages came, or for `seconds`; return whether."""
        seat, channel = self.seat, self._announced_on()
        assert seat is not None
        slept_on = False
        end = loop_time() + seconds
        try:
            while channel.messages <= beyond and (left := end - loop_time()) > PUNCTUAL_SECONDS:
                slept_on = slept_on or seat.woken
                self.arm()
                await self.wait(left)
        except BaseException:
            # It was woken and has not asked again: leaving must pass the wake-up on.
            seat.woken = seat.woken or slept_on
            raise
        return channel.messages > beyond

    def _announced_on(self) -> Channel:
        """Return the channel on which all releases are announced."""
        assert self.seat is not None
        return self.seat.channel


class Bus:
    """The seats of one client's waiting tasks.

    Args:
        table: The seats.
        bell: Listens to their channels; None: the server rings for each request that waits.
    """

    def __init__(self, table: Table, bell: Bell | None = None) -> None:
        self.table = table
        self._bell = bell
        self._linger: Timer | None = None
        self._closed = False

    @property
    def listens(self) -> bool:
        """Whether a seat alone makes the messages of its channel come."""
        return self._bell is not None

    @contextmanager
    def listen(
        self,
        channel: bytes,
        wakes: Wakes,
        sleeper: Sleeper | None = None,
        *,
        beside: bytes | None = None,
    ) -> Generator[Sleeper]:
        """Hold a seat on a channel; `beside` is that of all, if this is a single waiter's own."""
        sleeper = sleeper or Sleeper()
        sleeper.seat = seat = self.take_seat(channel, wakes, sleeper.rouse, beside=beside)
        try:
            yield sleeper
        finally:
            self.leave_seat(seat)

    def take_seat(
        self,
        channel: bytes,
        wakes: Wakes,
        on_wake: Callable[[], object],
        *,
        beside: bytes | None = None,
    ) -> Seat:
        """Take a seat on a channel, as in `listen`; `leave_seat` must follow."""
        seat, is_first = self.table.join(channel, wakes, on_wake, beside=beside)
        if is_first and self._bell is not None:
            self._bell.listen(channel)
        return seat

    def leave_seat(self, seat: Seat, *, at_once: bool = False) -> None:
        """Give up a seat; with `at_once` the bell stops listening then, if it was the last."""
        self.table.leave(seat, loop_time())
        channel = seat.channel
        if channel.empty_since is None:
            return
        if at_once:
            self.table.drop(channel)
            self._stop(channel)
        else:
            self._linger_a_while()

    def _stop(self, channel: Channel) -> None:
        if self._bell is not None:
            self._bell.stop(channel.name)

    def own_message(self, channel: bytes) -> int:
        """Return the number of our own next message on this channel; 0 if nobody listens."""
        known = self.table.channels.get(channel)
        return 0 if known is None else known.messages + 1

    def heard_on(self, channel: bytes) -> tuple[Channel, int] | None:
        """Return what was heard on a channel so far, to compare; None if nobody listens.

        It is another value after a message, and after the bell did not listen for a while.
        """
        known = self.table.channels.get(channel)
        return None if known is None else (known, known.messages)

    def reset(self) -> None:
        """Forget all seats, and the event loop of the timer."""
        self.close()
        self._closed = False
        self.table.reset()

    def close(self) -> None:
        """Stop the timer for good."""
        self._closed = True
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None

    def _linger_a_while(self) -> None:
        if self._linger is None and not self._closed:
            self._linger = call_later(LINGER_SECONDS, self._stop_idle)

    def _stop_idle(self) -> None:
        self._linger = None
        for channel in self.table.expired(loop_time() - LINGER_SECONDS / 2):
            self._stop(channel)
        if self.table.lingering:
            self._linger_a_while()
