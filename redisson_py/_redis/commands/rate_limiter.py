"""The commands of a rate limiter: `lua/rate_limiter/`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from redisson_py import _keys
from redisson_py._redis.commands.request import RECEIPT_MS, Receipted
from redisson_py._redis.scripts import source
from redisson_py._redis.scripts.shapes import array, whole

#: What left, rate and interval may be: Redisson's clients write what they like.
ACQUIRE = source.load(
    "rate_limiter.acquire",
    array(whole(0), whole(0), whole(0, 1), whole(), whole(0), whole(0)),
)
DELETE = source.load("rate_limiter.delete")
SET = source.load("rate_limiter.set")
UNDO = source.load("rate_limiter.undo")

#: Bytes of the id of a request; as many as Redisson's have.
ID_BYTES = 16

#: The most units of one request: Redisson's record has four bytes for them.
MOST_UNITS = (1 << 32) - 1


class Limit(NamedTuple):
    """A rate.

    Attributes:
        rate: Units in each interval.
        interval_ms: The interval in milliseconds.
        per_client: Each client has that many, instead of all together.
    """

    rate: int
    interval_ms: int
    per_client: bool

    def idle_ms(self, idle_ms: int) -> int:
        """Return how long it outlives its last use: an interval or more, as Redisson wants it."""
        return max(idle_ms, self.interval_ms) if idle_ms else 0


class Ruling(NamedTuple):
    """What the server says to requests.

    Attributes:
        limit: The rate; None: the limiter has none, and nothing was decided.
        left: The units that are left now.
        retry_in: Seconds until the first request that was refused fits; 0 if none was.
        admitted: How many of the requests were admitted, from the first on.
    """

    limit: Limit | None
    left: int
    retry_in: float
    admitted: int


@dataclass(frozen=True, slots=True)
class RateLimiterCommands:
    """The keys of one rate limiter, and the arguments of its scripts.

    Attributes:
        key: Its rate, a hash.
        client_id: The client whose units count if each client has its own.
        idle_ms: How long a limiter outlives its last use; 0: forever.
    """

    key: bytes
    client_id: str
    idle_ms: int

    @property
    def channel(self) -> bytes:
        """The channel on which a new rate, and units that come back early, are announced."""
        return _keys.rate_channel(self.key)

    @property
    def _counters(self) -> dict[str, bytes]:
        client = self.client_id.encode()
        value, permits = (_keys.suffixed(self.key, each) for each in (b"value", b"permits"))
        return {
            "value": value,
            "client_value": _keys.suffixed(value, client),
            "permits": permits,
            "client_permits": _keys.suffixed(permits, client),
        }

    @property
    def _undone(self) -> bytes:
        return _keys.suffixed(self.key, b"redisson_py:undone")

    def keys(self, per_client: bool) -> tuple[bytes, ...]:
        """Return the keys that Redisson knows."""
        counters = self._counters
        prefix = "client_" if per_client else ""
        return (self.key, counters[f"{prefix}value"], counters[f"{prefix}permits"])

    def acquire(
        self, requests: Sequence[tuple[bytes, int]], first: Limit | None, *, looks: bool
    ) -> bytes:
        """Return the arguments of `ACQUIRE`.

        Args:
            requests: The id of each, and how many units it wants.
            first: The rate that a limiter without one gets.
            looks: Only ask what would happen to the first of them.
        """
        return ACQUIRE.bind(
            config=self.key,
            **self._counters,
            undone=self._undone,
            ids=b"".join(each for each, _ in requests),
            units=b"".join(units.to_bytes(4, "big") for _, units in requests),
            looks=int(looks),
            rate=0 if first is None else first.rate,
            interval_ms=0 if first is None else first.interval_ms,
            per_client=0 if first is None else int(first.per_client),
            idle_ms=0 if first is None else first.idle_ms(self.idle_ms),
        )

    def undo(self, request_id: bytes, units: int) -> bytes:
        """Return the arguments of `UNDO`; with 0 units it only refuses late copies."""
        return UNDO.bind(
            **self._counters,
            undone=self._undone,
            id=request_id,
            units=units,
            undone_ms=RECEIPT_MS,
            channel=self.channel,
        )

    def set(self, limit: Limit, *, replaces: bool) -> Receipted:
        """Return what sets the rate; without `replaces` only of a limiter that has none."""
        return SET, {
            "config": self.key,
            **self._counters,
            "rate": limit.rate,
            "interval_ms": limit.interval_ms,
            "per_client": int(limit.per_client),
            "idle_ms": limit.idle_ms(self.idle_ms),
            "replaces": int(replaces),
            "channel": self.channel,
        }

    def delete(self) -> Receipted:
        """Return what removes the limiter."""
        return DELETE, {"config": self.key, **self._counters, "channel": self.channel}


def ruling(reply: list[int]) -> Ruling:
    """Decode the reply of `ACQUIRE`."""
    rate, interval_ms, per_client, left, micros, admitted = reply
    limit = Limit(rate, interval_ms, per_client == 1) if rate else None
    return Ruling(limit, left, micros / 1_000_000, admitted)


def is_done(reply: int) -> bool:
    """Decode the reply of `DELETE` and `SET`: whether this call changed the limiter."""
    return reply == 1
