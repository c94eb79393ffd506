"""Which tasks wait on which channel, and which of them a message wakes. No I/O.

Invariants:

- A channel is subscribed exactly while it has an entry here, and only on the stream that its
  entry names; entries come and go with the commands that `join` and `expired` ask for.
- SUBSCRIBE travels on the same ordered stream as the requests that follow it, so a seat that asks
  after it joined hears of every release after that request. No task has to wait for the server's
  confirmation; an event set by the first confirmation is wrong as soon as a channel is left
  and joined again before the answers came (wrong in 228 of 300 random schedules). A server
  that is busy, or does not allow it yet, may refuse SUBSCRIBE and serve the request behind it:
  SUBSCRIBE is sent again, and its seats ask again behind it.
- One release wakes one seat of each kind: who waits to read does not use up the message for who
  waits to write. A seat that was woken and leaves without having asked again passes the wake-up on
  to one of its kind (the rule of anyio's Condition).
- An end that the server has named needs no wake-up here: whoever was told asks by itself then.
- A wake-up is a hint. Missed, late or double, it costs time and never correctness.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from redisson_py._answers import CALLED, Wakes
from redisson_py._engine.server import Source, Subscription


class Seat:
    """One waiting task's place on one channel, in order of arrival."""

    __slots__ = ("_on_wake", "channel", "wakes", "woken")

    def __init__(self, channel: Channel, wakes: Wakes, on_wake: Callable[[], object]) -> None:
        self.channel: Channel = channel
        self.wakes: Wakes = wakes
        self._on_wake = on_wake
        self.woken: bool = False

    def wake(self) -> None:
        """Wake the task, which asks again in a later turn of the event loop."""
        self.woken = True
        self._on_wake()

    def arm(self) -> None:
        """Forget earlier wake-ups, because the task asks again after this."""
        self.woken = False


class Channel:
    """One subscribed channel.

    Attributes:
        beside: The channel of the same lock that was subscribed before this one, or None.
        messages: The number of messages since it was subscribed.
        spare: Its last waiter was granted what it waited for, so another one may wait under its
            name.
        empty_since: The time at which its last seat left, or None.
        stream: The stream on which it was subscribed last, or None.
        subscription: The last SUBSCRIBE that was sent for it.
    """

    __slots__ = (
        "beside",
        "empty_since",
        "messages",
        "name",
        "seats",
        "spare",
        "stream",
        "subscription",
    )

    def __init__(self, name: bytes) -> None:
        self.name: bytes = name
        self.seats: dict[Seat, None] = {}
        self.beside: Channel | None = None
        self.messages: int = 0
        self.spare: bool = False
        self.empty_since: float | None = None
        self.stream: Source | None = None
        self.subscription: Subscription | None = None


class Table:
    """The seats of one client, by channel.

    Attributes:
        channels: The channels that must be subscribed.
        wakeups: The number of seats that were woken.
    """

    def __init__(self) -> None:
        self.channels: dict[bytes, Channel] = {}
        #: Those of single owners in a queue on the server, by the channel of the lock.
        self._of_one: defaultdict[bytes, dict[Channel, None]] = defaultdict(dict)
        self.wakeups: int = 0

    @property
    def seats(self) -> int:
        """How many tasks wait."""
        return sum(len(channel.seats) for channel in self.channels.values())

    def channel(self, name: bytes) -> Channel | None:
        """Return a channel if it is subscribed."""
        return self.channels.get(name)

    def start_over(self) -> None:
        """Forget all channels: nobody waits, and the connection is gone."""
        self.channels.clear()
        self._of_one.clear()

    def join(
        self, name: bytes, wakes: Wakes, on_wake: Callable[[], object] = lambda: None
    ) -> tuple[Seat, bool]:
        """Take a seat; return it and whether SUBSCRIBE must be sent."""
        channel = self.channels.get(name)
        is_new = channel is None
        if channel is None:
            channel = self.channels[name] = Channel(name)
            if (common := _common(name)) is not None:
                self._of_one[common][channel] = None
        channel.empty_since = None
        channel.spare = False
        seat = Seat(channel, wakes, on_wake)
        channel.seats[seat] = None
        return seat, is_new

    def spare_name(self, channel: bytes) -> bytes:
        """Return a name under which nobody waits in the queue of this lock any more, or nothing.

        Its own channel is still subscribed.
        """
        for own in self._of_one.get(channel, ()):
            if own.spare and not own.seats:
                return own.name[len(channel) + 1 :]
        return b""

    def leave(self, seat: Seat, now: float) -> None:
        """Give up a seat, and pass its unused wake-up on."""
        channel = seat.channel
        if channel.seats.pop(seat, 0) == 0:
            return
        if seat.woken:
            self._pass_on(channel, seat.wakes)
        if not channel.seats:
            channel.empty_since = now

    def message(self, name: bytes, payload: bytes) -> None:
        """Wake as many seats of each kind as a message is for."""
        channel = self.channels.get(name)
        if channel is None:
            return
        try:
            value = CALLED if payload == b"00" else int(payload)
        except ValueError:
            return
        channel.messages += 1
        left: dict[Wakes, int] = {}
        for seat in list(channel.seats):
            if seat.woken:
                continue
            if seat.wakes not in left:
                left[seat.wakes] = seat.wakes(value)
            if left[seat.wakes] > 0:
                left[seat.wakes] -= 1
                self._wake(seat)

    def ended_early(self, name: bytes) -> None:
        """Wake all that wait for a lock, because a hold ended sooner than they were told.

        Its waiters are on its channel, and on those of single owners in a queue on the server.
        """
        if (common := self.channels.get(name)) is not None:
            self.wake(common)
        for channel in self._of_one.get(name, ()):
            self.wake(channel)

    def wake_all(self) -> None:
        """Wake all seats of all channels."""
        for channel in self.channels.values():
            self.wake(channel)

    def wake(self, channel: Channel) -> None:
        """Wake all seats of a channel, because messages may have been missed."""
        channel.messages += 1
        for seat in list(channel.seats):
            if not seat.woken:
                self._wake(seat)

    def wake_first(self, *names: bytes) -> None:
        """Wake all seats of the first of these channels that is subscribed."""
        for name in names:
            if (channel := self.channels.get(name)) is not None:
                self.wake(channel)
                return

    def drop(self, channel: Channel) -> None:
        """Forget a channel without seats."""
        del self.channels[channel.name]
        if (common := _common(channel.name)) is not None:
            del self._of_one[common][channel]
            if not self._of_one[common]:
                del self._of_one[common]

    def expired(self, before: float) -> list[Channel]:
        """Drop the channels whose last seat left before a moment; UNSUBSCRIBE must be sent."""
        gone = [
            channel
            for channel in self.channels.values()
            if channel.empty_since is not None and channel.empty_since <= before
        ]
        for channel in gone:
            self.drop(channel)
        return gone

    @property
    def lingering(self) -> bool:
        """Whether a channel without seats is still subscribed."""
        return any(channel.empty_since is not None for channel in self.channels.values())

    def _pass_on(self, channel: Channel, wakes: Wakes) -> None:
        for seat in channel.seats:
            if not seat.woken and seat.wakes == wakes:
                self._wake(seat)
                return

    def _wake(self, seat: Seat) -> None:
        self.wakeups += 1
        seat.wake()


def _common(name: bytes) -> bytes | None:
    """Return the channel of the lock, if this one may be an owner's: an owner has one colon."""
    parts = name.rsplit(b":", 2)
    return parts[0] if len(parts) == 3 else None
