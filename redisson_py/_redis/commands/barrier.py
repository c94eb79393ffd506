"""The commands of a barrier: `lua/barrier/`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from redisson_py import _keys
from redisson_py._redis.commands.replies import stored_number
from redisson_py._redis.commands.request import Receipted
from redisson_py._redis.scripts import source
from redisson_py._redis.scripts.shapes import array, text, whole
from redisson_py._redis.scripts.source import Arg

ABORT = source.load("barrier.abort")
INSPECT = source.load("barrier.inspect", array(*[whole(0)] * 5, rows=(text, text)))
LEAVE = source.load("barrier.leave")
RESET = source.load("barrier.reset")
WAIT = source.load("barrier.wait", array(whole(-3, 1), whole(), whole(0), whole()))


@dataclass(frozen=True, slots=True)
class Released:
    """All parties have arrived.

    Attributes:
        position: The position of this party in the order of arrival; None if Redis no longer
            knows it.
    """

    position: int | None


@dataclass(frozen=True, slots=True)
class Waiting:
    """Not all parties have arrived.

    Attributes:
        generation: The name of the round under way.
        position: As in `Released`.
        look_in: Seconds until the arrival of another party expires; None if no other party waits.
    """

    generation: int
    position: int | None
    look_in: float | None


@dataclass(frozen=True, slots=True)
class Broken:
    """The barrier is broken, or the round of this party was reset or lost."""


@dataclass(frozen=True, slots=True)
class OtherParties:
    """The barrier is in use for another number of parties."""

    parties: int


@dataclass(frozen=True, slots=True)
class Void:
    """This owner has already left, so its arrival was refused."""


WaitReply = Released | Waiting | Broken | OtherParties | Void


@dataclass(frozen=True, slots=True)
class Entry:
    """A party that waits.

    Attributes:
        owner: The owner under which it arrived.
        remaining: Seconds until its arrival expires, unless it looks again before.
    """

    owner: str
    remaining: float


@dataclass(frozen=True, slots=True)
class InspectReply:
    """A barrier as Redis saw it.

    Attributes:
        broken: Whether it is broken.
        generation: The name of the round under way; None if nobody waits.
        parties: The number of parties of that round; None if nobody waits.
        n_waiting: The number of parties that wait.
        entries: Some of them: those whose arrivals expire first.
    """

    broken: bool
    generation: int | None
    parties: int | None
    n_waiting: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class BarrierCommands:
    """The keys of one barrier, and the arguments of its scripts.

    Attributes:
        name_key: The key of the plain name. The barrier does not use it: a lock with the same
            name does.
        barrier: The hash of the round under way.
        arrivals: When the arrival of each waiting party expires.
        released: The rounds in which all parties arrived.
        channel: Whose messages make parties ask again.
    """

    name_key: bytes
    barrier: bytes = field(init=False)
    arrivals: bytes = field(init=False)
    released: bytes = field(init=False)
    channel: bytes = field(init=False)

    def __post_init__(self) -> None:
        for name in ("barrier", "arrivals", "released"):
            key = _keys.suffixed(self.name_key, b"redisson_py:" + name.encode())
            object.__setattr__(self, name, key)
        channel = _keys.barrier_channel(self.name_key)
        object.__setattr__(self, "channel", channel)

    def arrival(self, owner: str) -> bytes:
        """Return the key that records the result of one owner's arrival."""
        return _keys.suffixed(self.name_key, b"redisson_py:arrival:" + owner.encode())

    def wait(
        self, owner: str, parties: int, generation: int, lease_ms: int, receipt_ms: int
    ) -> bytes:
        """Return the arguments of `WAIT`: generation 0 arrives, any other looks again."""
        return WAIT.bind(
            barrier=self.barrier,
            arrivals=self.arrivals,
            released=self.released,
            arrival=self.arrival(owner),
            owner=owner.encode(),
            parties=parties,
            generation=b"%d" % generation,
            lease_ms=lease_ms,
            receipt_ms=receipt_ms,
            channel=self.channel,
        )

    def leave(self, owner: str, lease_ms: int, receipt_ms: int) -> bytes:
        """Return the arguments of `LEAVE`."""
        return LEAVE.bind(
            barrier=self.barrier,
            arrivals=self.arrivals,
            released=self.released,
            arrival=self.arrival(owner),
            owner=owner.encode(),
            channel=self.channel,
            lease_ms=lease_ms,
            receipt_ms=receipt_ms,
        )

    def inspect(self, entries: int) -> bytes:
        """Return the arguments of `INSPECT`, which lists at most `entries` parties."""
        return INSPECT.bind(barrier=self.barrier, arrivals=self.arrivals, entries=entries)

    def abort(self) -> Receipted:
        """Return what breaks the barrier."""
        return ABORT, self._change

    def reset(self) -> Receipted:
        """Return what makes the barrier fresh."""
        return RESET, self._change

    @property
    def _change(self) -> dict[str, Arg]:
        return {"barrier": self.barrier, "arrivals": self.arrivals, "channel": self.channel}


def wait_reply(reply: list[int]) -> WaitReply:
    """Decode the reply of `WAIT`."""
    state, number, generation, other_ms = reply
    position = number if number >= 0 else None
    match state:
        case 1:
            return Released(position)
        case 0:
            return Waiting(generation, position, other_ms / 1000 if other_ms >= 0 else None)
        case -1:
            return Broken()
        case -2:
            return OtherParties(number)
        case -3:
            return Void()
        case _:
            raise ValueError(f"barrier.wait replied {reply!r}")


def leave_reply(reply: int) -> Released | None:
    """Decode the reply of `LEAVE`; None: it was not released."""
    return Released(reply) if reply >= 0 else None


def inspect_reply(reply: list[Any]) -> InspectReply:
    """Decode the reply of `INSPECT`."""
    broken, generation, parties, present_ms, n_waiting, *listed = reply
    entries = tuple(
        Entry(owner.decode(errors="replace"), max(0, stored_number(ends_ms) - present_ms) / 1000)
        for owner, ends_ms in zip(listed[::2], listed[1::2], strict=True)
    )
    return InspectReply(bool(broken), generation or None, parties or None, n_waiting, entries)
