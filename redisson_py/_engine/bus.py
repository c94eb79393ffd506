"""Joins the table of waiters to the streams that carry their messages.

A channel is subscribed on the stream that `router.stream_for` names for it: the one to the master
of its slot, which also carries the requests of its seats. So SUBSCRIBE comes before the requests,
which is all that the table's rules need. `Channel.stream` is the stream of the last subscription.
When the map changes, the client calls `resubscribe` in the same turn of the event loop, before it
sends any call to the new stream: the channel is unsubscribed on the old stream and subscribed on
the new one. Each stream keeps its order, so this is correct however often a slot moves, with seats
or without. A stream without a connection sends neither command: its next connection subscribes to
what is needed then, and the old subscriptions ended with the old connection.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from redisson_py._answers import Wakes
from redisson_py._engine.server import Source, Sources, Subscription
from redisson_py._engine.wakeups import Channel, Seat, Table
from redisson_py._loop import Future, Timer, call_later, loop_time, new_future, wake
from redisson_py._time import PUNCTUAL

#: Seconds a channel stays subscribed after its last waiter left, so that a hot lock does not
#: subscribe and unsubscribe at every hand-off.
LINGER = 1.0


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
            while channel.messages <= beyond and (left := end - loop_time()) > PUNCTUAL:
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
    """Subscribes to the channels of waiting tasks, and wakes these."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._sources: Sources | None = None
        self._linger: Timer | None = None
        self._closed = False

    def attach(self, sources: Sources) -> None:
        """Subscribe there. Without it nothing is subscribed: a store rings by itself."""
        self._sources = sources

    @property
    def subscribes(self) -> bool:
        """Whether a seat alone makes the messages of its channel come."""
        return self._sources is not None

    @contextmanager
    def listen(
        self, channel: bytes, wakes: Wakes, sleeper: Sleeper | None = None
    ) -> Generator[Sleeper]:
        """Hold a seat on a channel; what is sent inside the block is ordered after SUBSCRIBE."""
        sleeper = sleeper or Sleeper()
        sleeper.seat = seat = self.take_seat(channel, wakes, sleeper.rouse)
        try:
            yield sleeper
        finally:
            self.leave_seat(seat)

    def take_seat(self, channel: bytes, wakes: Wakes, on_wake: Callable[[], object]) -> Seat:
        """Take a seat on a channel, which is subscribed then; `leave_seat` must follow."""
        seat, subscribe = self.table.join(channel, wakes, on_wake)
        if subscribe and self.subscribes:
            self._subscribe(seat.channel)
        return seat

    def leave_seat(self, seat: Seat, *, at_once: bool = False) -> None:
        """Give up a seat; with `at_once` its channel is unsubscribed then, if it was the last."""
        self.table.leave(seat, loop_time())
        channel = seat.channel
        if channel.empty_since is None:
            return
        if at_once:
            self.table.drop(channel)
            if channel.stream is not None:
                channel.stream.unsubscribe(channel.name)
        else:
            self._linger_a_while()

    def own_message(self, channel: bytes) -> int:
        """Return the number of our own next message on this channel; 0 if it is not subscribed."""
        known = self.table.channels.get(channel)
        return 0 if known is None else known.messages + 1

    def resubscribe(self, concerns: Callable[[bytes], bool]) -> None:
        """Subscribe to channels on their present streams, and wake their seats.

        Args:
            concerns: Selects the channels: those of a stream with a new connection, or of slots
                with another master.
        """
        for channel in self._concerned(concerns):
            # Seats ask in the next turn of the event loop, so SUBSCRIBE still comes first, in the
            # same write as their requests.
            self.table.wake(channel)
            self._subscribe(channel)

    def wake(self, concerns: Callable[[bytes], bool]) -> None:
        """Wake the seats of some channels, because their stream is down."""
        for channel in self._concerned(concerns):
            self.table.wake(channel)

    def gone(self, name: bytes, stream: Source, refused: Subscription | None = None) -> bool:
        """Note that a server ended or refused a subscription; return whether it is still needed.

        If so, the router finds the slot's present node and calls `recover`.

        Args:
            name: The channel.
            stream: The stream to that server.
            refused: The command that the server refused; None if it ended the subscription.
        """
        channel = self.table.channel(name)
        if channel is None or channel.stream is not stream:
            # It is already subscribed on another stream.
            return False
        last = channel.subscription
        if last is not None and (last is not refused if refused else not last.is_over):
            # Late news of an earlier subscription: the slot left and came back.
            return False
        channel.stream = None
        if not channel.seats:
            self.table.drop(channel)
        return bool(channel.seats)

    def put_off(self, stream: Source, call: Subscription) -> bool:
        """Return whether a SUBSCRIBE or UNSUBSCRIBE that a server refused still applies."""
        assert call.channel is not None
        channel = self.table.channel(call.channel)
        if channel is None or channel.stream is not stream:
            return not call.subscribes
        if call.subscribes and channel.subscription is not call:
            return False
        if call.subscribes:
            # Requests behind the refused SUBSCRIBE may have been answered: as in `resubscribe`.
            self.table.wake(channel)
        return call.subscribes

    def is_known(self, name: bytes, refusal: str) -> bool:
        """Return whether the other channel of this lock was refused for the same reason."""
        channel = self.table.channel(name)
        beside = None if channel is None else channel.beside
        last = None if beside is None else beside.subscription
        return last is not None and last.why_not == refusal

    def recover(self) -> None:
        """Subscribe again to channels whose subscription a server ended."""
        channels = self.table.channels
        self.resubscribe(lambda name: channels[name].stream is None)

    def _concerned(self, concerns: Callable[[bytes], bool]) -> list[Channel]:
        return [channel for name, channel in self.table.channels.items() if concerns(name)]

    def _subscribe(self, channel: Channel) -> None:
        assert self._sources is not None
        stream, before = self._sources.stream_for(channel.name), channel.stream
        if before is not None and before is not stream:
            before.unsubscribe(channel.name)
        channel.stream = stream
        # None was sent if there is no connection, or if another one still has the last.
        channel.subscription = stream.subscribe(channel.name) or channel.subscription

    def start_over(self) -> None:
        """Forget all subscriptions, and the event loop of the timer."""
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
        for channel in self.table.expired(loop_time() - LINGER / 2):
            if channel.stream is not None:
                channel.stream.unsubscribe(channel.name)
        if self.table.lingering:
            self._linger_a_while()
