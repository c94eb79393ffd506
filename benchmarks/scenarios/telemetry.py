"""What a listener costs: pairs a second without one, with an idle one and with OpenTelemetry."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from time import perf_counter, process_time

from benchmarks.crew import Bench, alternately
from benchmarks.harness import Table
from benchmarks.rivals import OURS
from benchmarks.rivals.ours import Ours
from benchmarks.rivals.side import CannotError, Side
from benchmarks.scenarios.calls import Deaf
from benchmarks.scenarios.uncontended import Figures, column
from redisson_py import Listener, Redisson

NAME = "telemetry"

NONE = OURS
DEAF = f"{OURS}, a listener that does nothing"
NO_SDK = f"{OURS}, OpenTelemetry without an SDK"
METRICS = f"{OURS}, OpenTelemetry: metrics"
TRACES = f"{OURS}, OpenTelemetry: metrics and traces"

#: The end of the headings of multiples of what it takes without a listener.
RATIO = ", x none"
CPU = ", us of processor"


async def measure(bench: Bench) -> Table:
    """Measure all of them in turn, in the first worker of ours."""
    size = bench.size
    table = Table(NAME, "Acquire+release pairs a second with a listener, a name a task")
    one = bench.workers[bench.ours][0]
    rows = [NONE, DEAF]
    for row in (NO_SDK, METRICS, TRACES):
        try:
            await one.do("listened", row=row, tasks=1, seconds=size.seconds / 4)
        except CannotError as reason:
            table.absent[row] = str(reason)
        else:
            rows.append(row)
    for tasks in size.primitive_tasks:
        head = column(tasks)
        found: dict[str, Figures] = {}
        for _, row in alternately(rows, size.rounds):
            found[row] = await one.do("listened", row=row, tasks=tasks, seconds=size.seconds / 2)
            if len(found) == len(rows):
                # A round: all in turn, each the other way round.
                for each, figures in found.items():
                    ratio = figures["rate"] / found[NONE]["rate"]
                    table.add(each, {head: figures["rate"], head + RATIO: ratio})
                    table.add(each, {head + CPU: figures["cpu"]})
                found.clear()
    table.notes.append(
        f"All by {bench.ours}. Spans go to a batch processor whose exporter drops them; metrics are"
        " collected by nobody meanwhile."
    )
    return table


# In the workers.


async def listened(side: Side, *, row: str, tasks: int, seconds: float) -> Figures:
    """Return what `tasks` tasks do together, with a client that has that listener."""
    assert isinstance(side, Ours)
    with ExitStack() as stack:
        async with Redisson.from_url(side.url, listener=_listener(row, stack)) as client:
            await client.ping()
            start, cpu = perf_counter(), process_time()
            done = await asyncio.gather(
                *[_pairs(client, f"telemetry:{each}", start + seconds) for each in range(tasks)]
            )
            lasted, cpu = perf_counter() - start, process_time() - cpu
    pairs = sum(done)
    return {"rate": pairs / lasted, "cpu": cpu / pairs * 1e6, "done": pairs}


async def _pairs(client: Redisson, name: str, end: float) -> int:
    done = 0
    while not done or perf_counter() < end:
        async with client.get_lock(name):
            done += 1
    return done


def _listener(row: str, stack: ExitStack) -> Listener | None:
    """Return the listener of a row; what it needs is shut down with the stack.

    Raises:
        CannotError: OpenTelemetry is not installed.
    """
    if row == NONE:
        return None
    if row == DEAF:
        return Deaf()
    try:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader
        from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
        from opentelemetry.sdk.trace.export import (
            BatchSpanProcessor,
            SpanExporter,
            SpanExportResult,
        )

        from redisson_py.integrations.opentelemetry import OpenTelemetryListener
    except ImportError as error:
        raise CannotError(f"not installed ({error})") from error

    class Drops(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    if row == NO_SDK:
        return OpenTelemetryListener()
    meters = MeterProvider([InMemoryMetricReader()])
    stack.callback(meters.shutdown)
    if row == METRICS:
        return OpenTelemetryListener(meter_provider=meters, traces=False)
    tracers = TracerProvider()
    tracers.add_span_processor(BatchSpanProcessor(Drops()))
    stack.callback(tracers.shutdown)
    return OpenTelemetryListener(meter_provider=meters, tracer_provider=tracers)
