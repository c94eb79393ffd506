"""Local counters, for people. The library decides nothing from them; reading needs no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn


def _refuse(*_: object, **__: object) -> NoReturn:
    raise TypeError("statistics cannot be changed")


_unchangeable: Any = _refuse


class FrozenCounts(dict[str, int]):
    """Counts that cannot be changed.

    A mapping proxy would have no pickle, no deep copy and no JSON.
    """

    __slots__ = ()

    clear = pop = popitem = setdefault = update = _unchangeable
    __setitem__ = __delitem__ = __ior__ = _unchangeable

    def __reduce__(self) -> tuple[object, ...]:
        return FrozenCounts, (dict(self),)


@dataclass(frozen=True, slots=True)
class ClientStatistics:
    """Counters of one client, for people: decide nothing from them.

    For a composite lock, each member's client counts what that member acquires and loses. The
    client of the member that sorts first by name and server counts the caller's wait.

    Attributes:
        waiters: Tasks that wait for something now.
        held_leases: Leases held now.
        renewals: Batches of leases renewed.
        losses: Leases lost, for any reason.
        wake_ups: Waiters woken by messages and reconnections.
        commands_sent: Commands written, scripts included.
        connections: Connections opened.
        acquires: Leases acquired: granted by the server, passed inside this process, or re-entered.
        waits: Waits that have ended, with any outcome. A caller waits when the server answers busy
            or other tasks of this client are ahead; latches and barriers count too.
        waited: Total seconds of these waits.
        longest_wait: Seconds of the longest.
        timeouts: Waits that ended because their time was up. A call that only asks once
            (`timeout=0`) does not wait.
        losses_by_reason: `losses` by `LeaseLostError.reason`; also `"abandoned"`: leases that
            nothing could release, because their task had ended.
        reconnects: Outages that are over: the connection was lost or failed, and then succeeded.
        late_renewals: Renewals confirmed when less than a third of the lease was left. They are
            due when a third has passed.
        evictions: Calls given up before they were sent, because there was no connection.
    """

    waiters: int
    held_leases: int
    renewals: int
    losses: int
    wake_ups: int
    commands_sent: int
    connections: int
    acquires: int
    waits: int
    waited: float
    longest_wait: float
    timeouts: int
    losses_by_reason: Mapping[str, int] = field(hash=False)
    reconnects: int
    late_renewals: int
    evictions: int


@dataclass(frozen=True, slots=True)
class PrimitiveStatistics:
    """How this client uses one name now, for people: decide nothing from it.

    Attributes:
        waiters: Tasks of this client that wait for it.
        held_leases: Its leases that tasks of this client hold.
    """

    waiters: int
    held_leases: int


@dataclass(slots=True)
class Counts:
    """The running counters of one client; see `ClientStatistics`."""

    acquires: int = 0
    waits: int = 0
    waited: float = 0.0
    longest_wait: float = 0.0
    timeouts: int = 0
    reconnects: int = 0
    late_renewals: int = 0
    losses: dict[str, int] = field(
        default_factory=lambda: {
            "expired": 0,
            "ended": 0,
            "taken": 0,
            "forced": 0,
            "abandoned": 0,
        }
    )

    def wait_ended(self, seconds: float) -> None:
        """Count a wait."""
        self.waits += 1
        self.waited += seconds
        if seconds > self.longest_wait:
            self.longest_wait = seconds
