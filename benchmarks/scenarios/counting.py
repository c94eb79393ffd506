"""What a server counted between two moments, without what the looking cost."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import Any, Self

import redis

#: What a side sends, as opposed to what its scripts call on the server.
_SENT = ("evalsha", "ping", "subscribe", "unsubscribe", "set", "blpop")

#: What ours sends for a lock. Some of its scripts call SET, so that is not counted.
SENT_BY_OURS = ("evalsha", "ping", "subscribe", "unsubscribe")


@dataclass(frozen=True)
class Counts:
    """Totals, or their growth.

    Attributes:
        at: Seconds.
        commands: Commands sent by clients, scripts as one.
        received: Bytes the server got.
        sent: Bytes it sent.
        cpu: Seconds of its processor time.
        memory: Bytes it uses for data and clients.
    """

    at: float
    commands: float
    received: float
    sent: float
    cpu: float
    memory: float

    def __sub__(self, other: Counts) -> Counts:
        return Counts(
            at=self.at - other.at,
            commands=self.commands - other.commands,
            received=self.received - other.received,
            sent=self.sent - other.sent,
            cpu=self.cpu - other.cpu,
            memory=self.memory - other.memory,
        )


def processor_time(client: redis.Redis) -> float:
    """Return the seconds of processor time that a server has used."""
    found: Any = client.info("cpu")
    return float(found["used_cpu_user"] + found["used_cpu_sys"])


class Counter:
    """Looks at one server; what a look itself adds is measured first and taken off."""

    def __init__(self, url: str, sent: tuple[str, ...] = _SENT) -> None:
        self._sent = sent
        self._client = redis.Redis.from_url(url)
        self._total()
        self._start = self._total()
        # Two looks with nothing between: what is counted now is looking.
        self._own = self._total() - self._start

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def begin(self) -> None:
        """Count from here."""
        self._start = self._total()

    def since(self) -> Counts:
        """Return what was counted since `begin`."""
        grown = self._total() - self._start
        return Counts(
            at=grown.at,
            commands=grown.commands,
            received=max(0.0, grown.received - self._own.received),
            sent=max(0.0, grown.sent - self._own.sent),
            cpu=max(0.0, grown.cpu),
            memory=grown.memory,
        )

    def _total(self) -> Counts:
        facts: dict[str, Any] = self._client.info("everything")
        calls = {name: facts.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in self._sent}
        return Counts(
            at=monotonic(),
            commands=sum(calls.values()),
            received=facts["total_net_input_bytes"],
            sent=facts["total_net_output_bytes"],
            cpu=facts["used_cpu_user"] + facts["used_cpu_sys"],
            memory=facts["used_memory"],
        )
