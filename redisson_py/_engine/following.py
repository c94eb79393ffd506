"""Moves seats and holds along when their keys move to another node."""

from __future__ import annotations

from collections.abc import Callable

from redisson_py._engine.bus import Bus
from redisson_py._engine.server import Source, Sources, Subscription
from redisson_py._engine.watchdog import Watchdog


class Followers:
    """The seats and the holds of a client, which rely on the servers of their keys.

    Args:
        bus: The seats.
    """

    _watchdog: Watchdog

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    def attach(self, watchdog: Watchdog) -> None:
        """Set the watchdog whose holds follow."""
        self._watchdog = watchdog

    def moved(self, concerns: Callable[[bytes], bool]) -> None:
        """Subscribe again and check holds: keys have a new master, or a new connection."""
        self._bus.resubscribe(concerns)
        self._watchdog.ask_now(concerns)

    def cut_off(self, concerns: Callable[[bytes], bool]) -> None:
        """Wake the waiters of keys whose connection to the master is down."""
        self._bus.wake(concerns)

    def gone(self, stream: Source, channel: bytes, refused: Subscription | None = None) -> bool:
        """Note that a server ended or refused a subscription; return whether it is needed."""
        return self._bus.gone(channel, stream, refused)

    def recover(self) -> None:
        """Subscribe again to channels whose subscription a server ended."""
        self._bus.recover()

    def rely_on(self, stream: Source, router: Sources) -> bool:
        """Return whether tasks hold or wait for keys that a stream serves."""
        serves = router.stream_for
        return any(
            serves(hold.ownership.commands.key) is stream for hold in self._watchdog.holds
        ) or any(serves(channel) is stream for channel in self._bus.table.channels)

    @property
    def any(self) -> bool:
        """Whether tasks hold or wait for anything."""
        return bool(self._watchdog.holds) or self._bus.table.seats > 0
