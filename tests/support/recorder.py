"""A listener that records its events."""

from __future__ import annotations

from typing import Any, TypeVar

from redisson_py import (
    AcquiredEvent,
    ConnectionLostEvent,
    ConnectionRestoredEvent,
    Listener,
    LostEvent,
    ReleasedEvent,
    RenewedLateEvent,
    WaitEndedEvent,
    WaitStartedEvent,
)

E = TypeVar("E")

#: Events without a name.
Plain = ConnectionLostEvent | ConnectionRestoredEvent


class Recorder(Listener):
    """Keeps every event, in order, and checks that each came to its own method."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        #: All events, including those that a test has cleared.
        self._ever: list[Any] = []

    def acquired(self, event: AcquiredEvent, /) -> None:
        self._keep(event, AcquiredEvent)

    def wait_started(self, event: WaitStartedEvent, /) -> None:
        self._keep(event, WaitStartedEvent)

    def wait_ended(self, event: WaitEndedEvent, /) -> None:
        self._keep(event, WaitEndedEvent)

    def released(self, event: ReleasedEvent, /) -> None:
        self._keep(event, ReleasedEvent)

    def lost(self, event: LostEvent, /) -> None:
        self._keep(event, LostEvent)

    def renewed_late(self, event: RenewedLateEvent, /) -> None:
        self._keep(event, RenewedLateEvent)

    def connection_lost(self, event: ConnectionLostEvent, /) -> None:
        self._keep(event, ConnectionLostEvent)

    def connection_restored(self, event: ConnectionRestoredEvent, /) -> None:
        self._keep(event, ConnectionRestoredEvent)

    def _keep(self, event: object, kind: type) -> None:
        assert type(event) is kind
        self.events.append(event)
        self._ever.append(event)

    def assert_paired(self) -> None:
        """Fail unless each acquisition has its own number, and the event of its end has the same.

        This runs after the events: an error in a listener is logged and would fail no test.
        """
        begun: dict[int, AcquiredEvent] = {}
        for event in self._ever:
            if isinstance(event, AcquiredEvent):
                assert event.acquisition not in (0, *begun)
                begun[event.acquisition] = event
            elif isinstance(event, ReleasedEvent | LostEvent):
                start = begun.pop(event.acquisition)
                known = (start.name, start.kind, start.owner, start.token)
                assert known == (event.name, event.kind, event.owner, event.token)

    def of(self, kind: type[E]) -> list[E]:
        """Return the events of one kind."""
        return [event for event in self.events if type(event) is kind]

    @property
    def story(self) -> list[str]:
        """The events as text, without times: `acquired lock k`, `wait ended lock k: timeout`."""
        return [shown(event) for event in self.events]


def shown(event: Any) -> str:
    """Return an event as text."""
    what = "" if isinstance(event, Plain) else f"{event.kind} {event.name}"
    match event:
        case AcquiredEvent():
            return f"acquired {what}"
        case WaitStartedEvent():
            return f"waits for {what}"
        case WaitEndedEvent():
            return f"wait ended {what}: {event.outcome}"
        case ReleasedEvent():
            return f"released {what}"
        case LostEvent():
            return f"lost {what}: {event.reason}"
        case RenewedLateEvent():
            return f"renewed late {what}"
        case ConnectionLostEvent():
            return "connection lost"
        case _:
            assert type(event) is ConnectionRestoredEvent
            return "connection restored"
