"""Traces and metrics of locks for OpenTelemetry, as a `Listener`. Needs the extra `otel`.

docs/telemetry.md lists every span, instrument and attribute.
"""

from __future__ import annotations

import inspect
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Any, TypeAlias, final

import redisson_py
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

try:
    from opentelemetry.metrics import Histogram, MeterProvider, get_meter
    from opentelemetry.trace import Span, Status, StatusCode, TracerProvider, get_tracer
except ModuleNotFoundError as _error:
    raise ModuleNotFoundError(
        "redisson_py.integrations.opentelemetry needs OpenTelemetry:"
        " pip install 'redisson-py[otel]'",
        name=_error.name,
    ) from _error

__all__ = ["MAX_OPEN_SPANS", "NamePolicy", "OpenTelemetryListener"]

#: Which names of locks may leave the process; see `OpenTelemetryListener`.
NamePolicy: TypeAlias = bool | Collection[str] | Callable[[str], str | None]

#: How many holds may have open spans at once. Beyond that, the oldest span ends early with the
#: outcome `"unknown"`, so that holds whose end is never reported cannot fill memory.
MAX_OPEN_SPANS = 10_000

#: Upper bounds in seconds, of all histograms: from a hand-off in one process to a long job.
BOUNDS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0),
    *(60.0, 120.0, 300.0, 900.0, 3600.0),
)

#: How many names are remembered with their labels, and how many labels with their attributes.
_NAMES_KEPT = 4096

_LOSSES = ("expired", "ended", "taken", "forced", "abandoned")
#: Outcomes that are no errors: it went well, the caller gave up, or the lease ended as agreed.
_NO_ERRORS = ("granted", "cancelled", "released", "ended")

Attributes: TypeAlias = dict[str, str | int]


@final
class OpenTelemetryListener(Listener):
    """Reports the waits, holds, losses and outages of clients as spans and metrics.

    Pass it to every client: `Redisson.from_url(url, listener=OpenTelemetryListener())`. One object
    serves any number of clients. `redisson_py.Listeners` combines it with another listener.

    The span of a wait or a hold is a child of the current span of the task that waits or acquires.
    It does not become the current span: spans of the block's body are not its children.

    Names of locks are omitted unless a policy allows them, because each name is a time series of
    its own. A policy is `True` (every name), a collection of names (others are omitted), or a
    function from a name to the reported name or None, which must return the same for the same name.
    Names that are bytes are decoded first. `names` also decides whether the name is part of the
    span's name, which should have few values; `span_names` decides only about the attribute.

    Args:
        tracer_provider: Creates the spans. Default: the global provider
        meter_provider: Creates the instruments. Default: the global provider
        names: The policy for names in metrics, and in spans unless `span_names` is given.
            Default: False
        span_names: The policy for the attribute `redisson_py.name` of spans. Default: `names`
        traces: Whether to report spans. Default: True
        metrics: Whether to report metrics. Default: True

    Raises:
        TypeError: A policy is none of those, or an async function.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        names: NamePolicy = False,
        span_names: NamePolicy | None = None,
        traces: bool = True,
        metrics: bool = True,
    ) -> None:
        label = _label_by(names, "names")
        span_label = label if span_names is None else _label_by(span_names, "span_names")
        self._spans = _Spans(tracer_provider, label, span_label) if traces else None
        self._metrics = _Metrics(meter_provider, label) if metrics else None

    def acquired(self, event: AcquiredEvent, /) -> None:
        """Count the hold, and begin its span."""
        if self._metrics is not None:
            self._metrics.acquired(event)
        if self._spans is not None:
            self._spans.acquired(event)

    def wait_started(self, event: WaitStartedEvent, /) -> None:
        """Count the wait."""
        if self._metrics is not None:
            self._metrics.wait_started(event)

    def wait_ended(self, event: WaitEndedEvent, /) -> None:
        """Record the wait, and report its span."""
        if self._metrics is not None:
            self._metrics.wait_ended(event)
        if self._spans is not None:
            self._spans.wait_ended(event)

    def released(self, event: ReleasedEvent, /) -> None:
        """Record the hold, and end its span."""
        if self._metrics is not None:
            self._metrics.hold_ended(event, "released")
        if self._spans is not None:
            self._spans.hold_ended(event, "released")

    def lost(self, event: LostEvent, /) -> None:
        """Record the hold and its loss, and end its span."""
        if self._metrics is not None:
            self._metrics.hold_ended(event, event.reason)
        if self._spans is not None:
            self._spans.hold_ended(event, event.reason)

    def renewed_late(self, event: RenewedLateEvent, /) -> None:
        """Record how late the renewal was."""
        if self._metrics is not None:
            self._metrics.renewed_late(event)

    def connection_lost(self, event: ConnectionLostEvent, /) -> None:
        """Count the outage."""
        if self._metrics is not None:
            self._metrics.connection_lost(event)

    def connection_restored(self, event: ConnectionRestoredEvent, /) -> None:
        """Record the outage."""
        if self._metrics is not None:
            self._metrics.connection_restored(event)


#: Returns what is reported for a name of a lock, or None.
_Label: TypeAlias = Callable[[str | bytes], str | None]


def _label_by(policy: Any, argument: str) -> _Label | None:
    """Return the function of a policy; None if it allows no name at all.

    Raises:
        TypeError: It is not a policy.
    """
    if policy is False:
        return None
    if policy is True:
        return lru_cache(_NAMES_KEPT)(_text)
    if callable(policy) and not inspect.iscoroutinefunction(policy):

        def called(name: str | bytes) -> str | None:
            label = policy(_text(name))
            return None if label is None else _text(label)

        return lru_cache(_NAMES_KEPT)(called)
    if isinstance(policy, Collection) and not isinstance(policy, str | bytes):
        allowed = frozenset(_text(name) for name in policy)

        def listed(name: str | bytes) -> str | None:
            text = _text(name)
            return text if text in allowed else None

        return lru_cache(_NAMES_KEPT)(listed)
    raise TypeError(
        f"{argument} must be True, False, a collection of names or a plain function, not {policy!r}"
    )


def _text(name: object) -> str:
    """Return a name as text that every exporter can encode."""
    if isinstance(name, str):
        name = name.encode("utf-8", "surrogatepass")
    if not isinstance(name, bytes):
        raise TypeError(f"a name must be str or bytes, not {type(name).__name__}")
    return name.decode("utf-8", "backslashreplace")


class _Spans:
    """Makes the spans."""

    def __init__(
        self, provider: TracerProvider | None, few: _Label | None, label: _Label | None
    ) -> None:
        self._tracer = get_tracer("redisson_py", redisson_py.__version__, provider)
        #: Returns the part of a lock's name that may be in the name of a span: few values.
        self._few = few
        self._label = label
        #: Open spans and when they began, in nanoseconds, by acquisition, oldest first.
        self._open: OrderedDict[int, tuple[Span, int]] = OrderedDict()

    def acquired(self, event: AcquiredEvent) -> None:
        words, attributes = self._describe("hold", event)
        attributes["redisson_py.owner"] = event.owner
        if event.token is not None:
            attributes["redisson_py.token"] = event.token
        began = time.time_ns()
        span = self._tracer.start_span(words, attributes=attributes, start_time=began)
        if span.is_recording():
            self._open[event.acquisition] = (span, began)
            if len(self._open) > MAX_OPEN_SPANS:
                _, (oldest, _) = self._open.popitem(last=False)
                oldest.set_attribute("redisson_py.hold.outcome", "unknown")
                oldest.end()

    def hold_ended(self, event: ReleasedEvent | LostEvent, outcome: str) -> None:
        found = self._open.pop(event.acquisition, None)
        if found is not None:
            span, began = found
            _conclude(span, "hold", outcome)
            # Measured by a clock that cannot be set.
            span.end(began + _nanoseconds(event.held_for))

    def wait_ended(self, event: WaitEndedEvent) -> None:
        words, attributes = self._describe("wait", event)
        ended = time.time_ns()
        began = ended - _nanoseconds(event.waited)
        # Made at its end, in the task that has waited, so nothing has to be kept meanwhile.
        span = self._tracer.start_span(words, attributes=attributes, start_time=began)
        _conclude(span, "wait", event.outcome)
        span.end(ended)

    def _describe(self, act: str, event: AcquiredEvent | WaitEndedEvent) -> tuple[str, Attributes]:
        """Return the name of a span and its first attributes."""
        kind, name = event.kind, event.name
        attributes: Attributes = {"db.system.name": event.system, "redisson_py.kind": kind}
        label = None if self._label is None else self._label(name)
        if label is None:
            return f"{act} {kind}", attributes
        attributes["redisson_py.name"] = label
        few = None if self._few is None else self._few(name)
        return f"{act} {kind}" if few is None else f"{act} {kind} {few}", attributes


def _conclude(span: Span, act: str, outcome: str) -> None:
    """Set the outcome, and the status if it is an error."""
    span.set_attribute(f"redisson_py.{act}.outcome", outcome)
    if outcome not in _NO_ERRORS:
        span.set_attribute("error.type", outcome)
        span.set_status(Status(StatusCode.ERROR, f"{act}: {outcome}"))


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


class _Metrics:
    """Records the metrics."""

    def __init__(self, provider: MeterProvider | None, label: _Label | None) -> None:
        meter = get_meter("redisson_py", redisson_py.__version__, provider)

        def histogram(name: str, description: str) -> Histogram:
            return meter.create_histogram(
                name, "s", description, explicit_bucket_boundaries_advisory=BOUNDS
            )

        self._waited = histogram("redisson_py.wait.duration", "How long callers waited.")
        self._waiting = meter.create_up_down_counter(
            "redisson_py.wait.active", "{wait}", "Callers waiting now."
        )
        self._timeouts = meter.create_counter(
            "redisson_py.wait.timeouts", "{timeout}", "Waits that timed out."
        )
        self._held_for = histogram("redisson_py.hold.duration", "How long acquisitions were held.")
        self._held = meter.create_up_down_counter(
            "redisson_py.hold.active", "{hold}", "Acquisitions held now."
        )
        self._losses = meter.create_counter(
            "redisson_py.hold.losses", "{loss}", "Acquisitions that ended without a release."
        )
        self._delays = meter.create_counter(
            "redisson_py.renewal.delays", "{renewal}", "Renewals confirmed late."
        )
        self._lag = histogram(
            "redisson_py.renewal.lag",
            "Delay of late renewals: from when they were due until they were confirmed.",
        )
        self._outages = meter.create_counter(
            "redisson_py.connection.losses", "{loss}", "Connections lost."
        )
        self._reconnects = meter.create_counter(
            "redisson_py.connection.reconnects", "{reconnect}", "Connections restored."
        )
        self._away = histogram(
            "redisson_py.connection.outage.duration", "How long a connection was down."
        )
        self._label = label
        # Bounded: names may come and go.
        self._series_of = lru_cache(_NAMES_KEPT)(self._new_series)

    def acquired(self, event: AcquiredEvent) -> None:
        self._held.add(1, self._series(event.kind, event.name).plain)

    def hold_ended(self, event: ReleasedEvent | LostEvent, outcome: str) -> None:
        series = self._series(event.kind, event.name)
        self._held.add(-1, series.plain)
        self._held_for.record(event.held_for, series.with_outcome("hold", outcome))
        if outcome != "released":
            self._losses.add(1, series.with_outcome("hold", outcome))

    def wait_started(self, event: WaitStartedEvent) -> None:
        self._waiting.add(1, self._series(event.kind, event.name).plain)

    def wait_ended(self, event: WaitEndedEvent) -> None:
        series = self._series(event.kind, event.name)
        self._waiting.add(-1, series.plain)
        self._waited.record(event.waited, series.with_outcome("wait", event.outcome))
        if event.outcome == "timeout":
            self._timeouts.add(1, series.plain)

    def renewed_late(self, event: RenewedLateEvent) -> None:
        series = self._series(event.kind, event.name)
        self._delays.add(1, series.plain)
        self._lag.record(event.late, series.plain)

    def connection_lost(self, event: ConnectionLostEvent) -> None:
        server = _server(event.where)
        self._reconnects.add(0, server)
        self._outages.add(1, server)

    def connection_restored(self, event: ConnectionRestoredEvent) -> None:
        server = _server(event.where)
        self._reconnects.add(1, server)
        self._away.record(event.away, server)

    def _series(self, kind: str, name: str | bytes) -> _Series:
        """Return the attributes of what is reported under a name."""
        return self._series_of(kind, None if self._label is None else self._label(name))

    def _new_series(self, kind: str, label: str | None) -> _Series:
        series = _Series(kind, label)
        # Start from zero, so that an alert sees the first loss as an increase.
        self._timeouts.add(0, series.plain)
        self._delays.add(0, series.plain)
        for reason in _LOSSES:
            self._losses.add(0, series.with_outcome("hold", reason))
        return series


class _Series:
    """The attributes of one kind and label, made once."""

    __slots__ = ("_with_outcome", "plain")

    def __init__(self, kind: str, label: str | None) -> None:
        self.plain: Attributes = {"redisson_py.kind": kind}
        if label is not None:
            self.plain["redisson_py.name"] = label
        self._with_outcome: dict[str, Attributes] = {}

    def with_outcome(self, act: str, outcome: str) -> Attributes:
        """Return those of something that has ended."""
        # One cache for both acts: no outcome of a wait is also one of a hold.
        attributes = self._with_outcome.get(outcome)
        if attributes is None:
            attributes = {**self.plain, f"redisson_py.{act}.outcome": outcome}
            if outcome not in _NO_ERRORS:
                attributes["error.type"] = outcome
            self._with_outcome[outcome] = attributes
        return attributes


def _server(where: str) -> Attributes:
    """Return the attributes of an address, or of servers that have another description."""
    host, _, port = where.rpartition(":")
    if not port.isdecimal() or "," in host or " " in host:
        return {"server.address": where}
    return {"server.address": host.removeprefix("[").removesuffix("]"), "server.port": int(port)}
