"""Which tasks wait on which channel, and which of them a message wakes. No I/O.

Invariants:

- The bell listens to a channel exactly while it has an entry here: it begins when `join` says
  that the seat is the first, and stops after `drop` and `expired`.
- A seat that asks after it joined hears of every release after that request: the server serves the
  request after the bell has begun to listen, or the seat is woken when it has.
- One release wakes one seat of each kind: who waits to read does not use up the message for who
  waits to write. A seat that was woken and leaves without having asked again passes the wake-up on
  to one of its kind (the rule of anyio's Condition).
- An end that the server has named needs no wake-up here: whoever knows it asks by itself then.
- A wake-up is a hint. Missed, late or double, it costs time and never correctness.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from redisson_py._answers import Wakes


class Seat:
    """One waiting task's place on one channel, in order of arrival."""

    __slots__ = ("_on_wake", "channel", "wakes", "woken")

    def __init__(self, channel: Channel, wakes: Wakes, on_wake: Callable[[], object]) -> None:
        self.channel: Channel = channel
        self.wakes: Wakes = wakes
        self._on_wake = on_wake
        self.woken: bool = False

    def wake(self) -> None:
        """Wake the task, which asks again in a later iteration of the event loop."""
        self.woken = True
        self._on_wake()

    def arm(self) -> None:
        """Forget earlier wake-ups, because the task asks again after this."""
        self.woken = False


class Channel:
    """One channel on which tasks wait.

    Attributes:
        beside: The channel of all who wait for the same, if this one is a single waiter's; or None.
        messages: The number of messages since the bell listens.
        spare: The name in the queue on the server of its last waiter, which was granted what it
            waited for: another one may wait under it. Else nothing.
        empty_since: The time at which its last seat left, or None.
    """

    __slots__ = ("beside", "empty_since", "messages", "name", "seats", "spare")

    def __init__(self, name: bytes, beside: bytes | None) -> None:
        self.name: bytes = name
        self.seats: dict[Seat, None] = {}
        self.beside: bytes | None = beside
        self.messages: int = 0
        self.spare: bytes = b""
        self.empty_since: float | None = None


class Table:
    """The seats of one client, by channel.

    Attributes:
        channels: The channels to which the bell listens.
        wakeups: The number of seats that were woken.
    """

    def __init__(self) -> None:
        self.channels: dict[bytes, Channel] = {}
        #: Those of single waiters in a queue on the server, by the channel of all.
        self._of_one: defaultdict[bytes, dict[Channel, None]] = defaultdict(dict)
        self.wakeups: int = 0

    @property
    def seats(self) -> int:
        """How many tasks wait."""
        return sum(len(channel.seats) for channel in self.channels.values())

    def channel(self, name: bytes) -> Channel | None:
        """Return a channel if the bell listens to it."""
        return self.channels.get(name)

    def reset(self) -> None:
        """Forget all channels: nobody waits, and the connection is gone."""
        self.channels.clear()
        self._of_one.clear()

    def join(
        self,
        name: bytes,
        wakes: Wakes,
        on_wake: Callable[[], object] = lambda: None,
        *,
        beside: bytes | None = None,
    ) -> tuple[Seat, bool]:
        """Take a seat; return it and whether it is the first, so that the bell must listen."""
        channel = self.channels.get(name)
        is_new = channel is None
        if channel is None:
            channel = self.channels[name] = Channel(name, beside)
            if beside is not None:
                self._of_one[beside][channel] = None
        channel.empty_since = None
        channel.spare = b""
        seat = Seat(channel, wakes, on_wake)
        channel.seats[seat] = None
        return seat, is_new

    def spare_name(self, channel: bytes) -> bytes:
        """Return a name under which nobody waits in the queue of this lock any more, or nothing.

        The bell still listens to its own channel.
        """
        for own in self._of_one.get(channel, ()):
            if own.spare and not own.seats:
                return own.spare
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

    def rang(self, name: bytes, message: int) -> None:
        """Wake as many seats of each kind as a message is for."""
        channel = self.channels.get(name)
        if channel is None:
            return
        channel.messages += 1
        left: dict[Wakes, int] = {}
        for seat in list(channel.seats):
            if seat.woken:
                continue
            if seat.wakes not in left:
                left[seat.wakes] = seat.wakes(message)
            if left[seat.wakes] > 0:
                left[seat.wakes] -= 1
                self._wake(seat)

    def ended_early(self, name: bytes) -> None:
        """Wake all that wait for a lock, because a hold ended sooner than they know.

        Its waiters are on its channel, and on those of single waiters in a queue on the server.
        """
        if (common := self.channels.get(name)) is not None:
            self.wake(common)
        for channel in self._of_one.get(name, ()):
            self.wake(channel)

    def missed(self, name: bytes) -> None:
        """Wake all seats of a channel of which the bell may have missed a message."""
        self.wake(self.channels[name])

    def ended(self, name: bytes) -> bool:
        """Return whether somebody waits on a channel to which the bell listens no more.

        If nobody does, it is forgotten, and no `Bell.stop` follows.
        """
        channel = self.channels[name]
        if not channel.seats:
            self.drop(channel)
        return bool(channel.seats)

    def wake_all(self) -> None:
        """Wake all seats of all channels."""
        for channel in self.channels.values():
            self.wake(channel)

    def wake(self, channel: Channel) -> None:
        """Wake all seats of a channel, whatever they wait for."""
        channel.messages += 1
        for seat in list(channel.seats):
            if not seat.woken:
                self._wake(seat)

    def wake_first(self, *names: bytes) -> None:
        """Wake all seats of the first of these channels on which anybody waits, or did just now."""
        for name in names:
            if (channel := self.channels.get(name)) is not None:
                self.wake(channel)
                return

    def wake_one(self, name: bytes) -> None:
        """Wake the first seat of a channel that was not woken yet."""
        channel = self.channels.get(name)
        seats = () if channel is None else channel.seats
        seat = next((each for each in seats if not each.woken), None)
        if seat is not None:
            self._wake(seat)

    def drop(self, channel: Channel) -> None:
        """Forget a channel without seats."""
        del self.channels[channel.name]
        if (beside := channel.beside) is not None:
            del self._of_one[beside][channel]
            if not self._of_one[beside]:
                del self._of_one[beside]

    def expired(self, before: float) -> list[Channel]:
        """Drop the channels whose last seat left before a moment; the bell must stop."""
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
        """Whether the bell listens to a channel without seats."""
        return any(channel.empty_since is not None for channel in self.channels.values())

    def _pass_on(self, channel: Channel, wakes: Wakes) -> None:
        for seat in channel.seats:
            if not seat.woken and seat.wakes == wakes:
                self._wake(seat)
                return

    def _wake(self, seat: Seat) -> None:
        self.wakeups += 1
        seat.wake()
