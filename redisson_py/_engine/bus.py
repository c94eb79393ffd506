"""Joins the table of waiters to the streams that carry their messages.

A channel is subscribed on the stream that `router.stream_for` names for it: the one to the master
of its slot, on which its seats ask too. So SUBSCRIBE comes before the asks, which is all that the
table's rules need. `Channel.stream` is where it was subscribed last. When the map changes, the
client calls `resubscribe` in the same turn of the event loop, before it sends any call to the new
place: the channel is unsubscribed there, and subscribed here. Each stream keeps its order, so this
holds however often a slot moves, and whether anybody sits there or the channel lingers. A stream
without a connection takes neither command: what its next connection needs is subscribed when that
is there, and what was left behind is gone with the last.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from redisson_py._commands.wakes import Wakes
from redisson_py._engine.wakeups import Channel, Seat, Table
from redisson_py._loop import Future, Timer, call_later, new_future, running_loop, wake
from redisson_py._stream.router import Router

if TYPE_CHECKING:
    from redisson_py._stream.stream import Stream

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
            self._subscribe(sleeper.seat.channel)
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
        """Subscribe to channels where they are now, and have their seats ask there.

        Args:
            concerns: Says which: those of a stream that has a new connection, or of slots that
                have another master.
        """
        for channel in self._concerned(concerns):
            # Seats ask in the next turn of the event loop, so SUBSCRIBE comes first all the same,
            # and is written together with what they ask.
            self.table.wake(channel)
            self._subscribe(channel)

    def wake(self, concerns: Callable[[bytes], bool]) -> None:
        """Have the seats of some channels look again: their stream is down."""
        for channel in self._concerned(concerns):
            self.table.wake(channel)

    def gone(self, name: bytes, stream: Stream) -> bool:
        """A server has ended a subscription, or refused it: return whether it is needed again.

        Then the router finds out where the slot is now, and calls `recover`.
        """
        channel = self.table.channel(name)
        if channel is None or channel.stream is not stream:
            # It is subscribed elsewhere already.
            return False
        channel.stream = None
        if not channel.seats:
            self.table.drop(channel)
        return bool(channel.seats)

    def recover(self) -> None:
        """Subscribe to what is subscribed nowhere since a server has ended it."""
        channels = self.table.channels
        self.resubscribe(lambda name: channels[name].stream is None)

    def _concerned(self, concerns: Callable[[bytes], bool]) -> list[Channel]:
        return [channel for name, channel in self.table.channels.items() if concerns(name)]

    def _subscribe(self, channel: Channel) -> None:
        assert self._router is not None
        stream, before = self._router.stream_for(channel.name), channel.stream
        if before is not None and before is not stream:
            before.unsubscribe(channel.name)
        channel.stream = stream
        stream.subscribe(channel.name)

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
        for channel in self.table.expired(running_loop().time() - LINGER / 2):
            if channel.stream is not None:
                channel.stream.unsubscribe(channel.name)
        if self.table.lingering:
            self._linger_a_while()
