"""The commands of a latch: `lua/latch/`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from redisson_py._redis.commands.replies import seconds_left
from redisson_py._redis.commands.request import Receipted
from redisson_py._redis.scripts import source
from redisson_py._redis.scripts.shapes import array, whole

COUNT = source.load("latch.count", array(whole(1), whole(0)))
COUNT_DOWN = source.load("latch.count_down")
DELETE = source.load("latch.delete")
TRY_SET_COUNT = source.load("latch.try_set_count")


@dataclass(frozen=True, slots=True)
class LatchCommands:
    """The keys of one latch, and the arguments of its scripts.

    Attributes:
        latch: The count.
        start: Records that the first count of one object was set; shared by all its calls.
        channel: Where zero and new counts are announced.
    """

    latch: bytes
    start: bytes
    channel: bytes

    def count(self, first_count: int, receipt_ms: int) -> bytes:
        """Return the arguments of `COUNT`; a `first_count` above 0 sets an unset latch."""
        return COUNT.bind(
            latch=self.latch,
            start=self.start,
            counts=first_count,
            channel=self.channel,
            receipt_ms=receipt_ms,
        )

    def count_down(self, steps: int, first_count: int) -> Receipted:
        """Return what counts down; `first_count` as for `count`."""
        return COUNT_DOWN, {
            "latch": self.latch,
            "start": self.start,
            "steps": steps,
            "counts": first_count,
            "channel": self.channel,
        }

    def try_set_count(self, count: int, expire_ms: int) -> Receipted:
        """Return what sets the count of an unset latch; it ends after `expire_ms`; 0: never."""
        return TRY_SET_COUNT, {
            "latch": self.latch,
            "counts": count,
            "expire_ms": expire_ms,
            "channel": self.channel,
        }

    def delete(self) -> Receipted:
        """Return what unsets the latch."""
        return DELETE, {"latch": self.latch, "channel": self.channel}


class LatchState(NamedTuple):
    """What Redis has of a latch.

    Attributes:
        left: What is left, 0 for an open latch.
        ends_in: Seconds until it is unset; None: it has no end.
    """

    left: int
    ends_in: float | None = None


def state(reply: int | list[int]) -> LatchState:
    """Decode the reply of `COUNT`."""
    if isinstance(reply, list):
        left, milliseconds = reply
        return LatchState(left, seconds_left(milliseconds))
    return LatchState(count_left(reply))


def count_left(reply: int) -> int:
    """Decode the reply of `COUNT_DOWN`: what is left, 0 for an open latch."""
    return max(0, reply)


def is_done(reply: int) -> bool:
    """Decode the reply of `DELETE` and `TRY_SET_COUNT`: whether this call changed the latch."""
    return reply == 1
