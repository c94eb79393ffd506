"""A listener with OpenTelemetry's SDK, and a look at what it has reported."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, MetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from redisson_py.integrations.opentelemetry import OpenTelemetryListener

#: Attributes in any order, as a key.
Labels = frozenset[tuple[str, Any]]


class Telemetry:
    """Providers that keep in memory what they get.

    Args:
        readers: Other readers of metrics.
    """

    def __init__(self, *readers: MetricReader) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.tracers.get_tracer("test")
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader, *readers], shutdown_on_exit=False)

    def listener(self, **options: Any) -> OpenTelemetryListener:
        """Return a listener that reports to it."""
        providers = {"tracer_provider": self.tracers, "meter_provider": self.meters}
        return OpenTelemetryListener(**{**providers, **options})

    def close(self) -> None:
        """Shut both providers down."""
        self.tracers.shutdown()
        self.meters.shutdown()

    # Spans.

    def spans(self, start: str = "") -> list[ReadableSpan]:
        """Return the spans that have ended, first to last, whose names begin with that."""
        return [span for span in self.exporter.get_finished_spans() if span.name.startswith(start)]

    def ours(self) -> list[ReadableSpan]:
        """Return those that the library has made."""
        return [span for span in self.spans() if scope(span) == "redisson_py"]

    @contextmanager
    def current(self, name: str) -> Iterator[int]:
        """Have a span be the current one; yields its id."""
        with self.tracer.start_as_current_span(name) as span:
            yield span.get_span_context().span_id

    # Metrics.

    def points(self, metric: str) -> dict[Labels, float]:
        """Return the values of a metric by their attributes; of a histogram, how many."""
        return {
            frozenset((point.attributes or {}).items()): (
                point.count if isinstance(point, HistogramDataPoint) else point.value
            )
            for point in self.raw(metric)
        }

    def total(self, metric: str, **wanted: Any) -> float:
        """Return the sum of the values whose attributes are these: `kind="lock"`."""
        some = {f"redisson_py.{key.replace('__', '.')}": value for key, value in wanted.items()}
        return sum(v for labels, v in self.points(metric).items() if some.items() <= {*labels})

    def raw(self, metric: str) -> list[Any]:
        """Return the data points of a metric of ours."""
        data = self.reader.get_metrics_data()
        if data is None:
            return []
        return [
            point
            for resource in data.resource_metrics
            for each in resource.scope_metrics
            for one in each.metrics
            if one.name == f"redisson_py.{metric}"
            for point in one.data.data_points
        ]


def scope(span: ReadableSpan) -> str:
    """Return the name of the library that made a span."""
    assert span.instrumentation_scope is not None
    return span.instrumentation_scope.name


def parent(span: ReadableSpan) -> int | None:
    """Return the id of the parent of a span."""
    return None if span.parent is None else span.parent.span_id


def seconds(span: ReadableSpan) -> float:
    """Return how long a span lasted."""
    assert span.start_time is not None
    assert span.end_time is not None
    return (span.end_time - span.start_time) / 1e9
