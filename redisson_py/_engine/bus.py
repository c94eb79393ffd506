"""Joins the table of waiters to the streams that carry their messages."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from redisson_py._commands.wakes import Wakes
from redisson_py._engine.wakeups import Seat, Table
from redisson_py._loop import Future, Timer, call_later, new_future, running_loop, wake
from redisson_py._stream.router import Router

#: Seconds a channel stays subscribed after its last waiter left, so that a hot lock does not
#: subscribe and unsubscribe at every hand-off.
LINGER = 1.0


class Sleeper:
    """A seat, and the means to sleep on it."""

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
        """Forget earlier wake-ups, just before asking."""
        assert self.seat is not None
        self.seat.arm()

    async def wait_for_messages(self, beyond: int, seconds: float) -> bool:
        """Sleep until more than `beyond` messages came, or for `seconds`; return whether."""
        seat = self.seat
        assert seat is not None
        slept_on = False
        end = running_loop().time() + seconds
        try:
            while seat.channel.messages <= beyond and (left := end - running_loop().time()) > 0:
                slept_on = slept_on or seat.woken
                seat.arm()
                await self.wait(left)
        except BaseException:
            # Woken and not asked: leaving must pass that on.
            seat.woken = seat.woken or slept_on
            raise
        return seat.channel.messages > beyond


class Bus:
    """Subscribes for those who wait, and wakes them."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._router: Router | None = None
        self._linger: Timer | None = None
        self._closed = False

    def attach(self, router: Router) -> None:
        """Use these streams."""
        self._router = router

    @contextmanager
    def listen(
        self, channel: bytes, wakes: Wakes, sleeper: Sleeper | None = None
    ) -> Generator[Sleeper]:
        """Hold a seat on a channel; what is sent inside the block is ordered after SUBSCRIBE."""
        sleeper = sleeper or Sleeper()
        sleeper.seat, subscribe = self.table.join(channel, wakes, sleeper.rouse)
        if subscribe and self._router is not None:
            self._router.stream_for(channel).subscribe(channel)
        try:
            yield sleeper
        finally:
            self.table.leave(sleeper.seat, running_loop().time())
            if sleeper.seat.channel.empty_since is not None:
                self._linger_a_while()

    def own_message(self, channel: bytes) -> int:
        """Return the number that our own next message on this channel will have; 0: not heard."""
        known = self.table.channels.get(channel)
        return 0 if known is None else known.messages + 1

    def resubscribe(self, concerns: Callable[[bytes], bool]) -> None:
        """A connection is new: subscribe again, then have everybody look again."""
        assert self._router is not None
        for channel in list(self.table.channels):
            if concerns(channel):
                self._router.stream_for(channel).subscribe(channel)
        self.table.wake_all()

    def start_over(self) -> None:
        """Forget what was subscribed, and the event loop of the timer."""
        self.close()
        self._closed = False
        self.table.start_over()

    def close(self) -> None:
        """Stop the timer for good."""
        self._closed = True
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None

    def _linger_a_while(self) -> None:
        if self._linger is None and not self._closed:
            self._linger = call_later(LINGER, self._unsubscribe_idle)

    def _unsubscribe_idle(self) -> None:
        self._linger = None
        assert self._router is not None
        for channel in self.table.expired(running_loop().time() - LINGER / 2):
            self._router.stream_for(channel).unsubscribe(channel)
        if self.table.lingering:
            self._linger_a_while()
