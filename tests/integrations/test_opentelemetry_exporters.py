"""What the real exporters make of it: Prometheus' page, and OTLP over HTTP."""

from __future__ import annotations

import asyncio
import gzip
import re
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.request import urlopen

import pytest
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.parser import text_string_to_metric_families
from redis.asyncio import Redis

from redisson_py import AcquireTimeoutError, Redisson, RenewedLateEvent
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.integrations.telemetry import Telemetry
from tests.support import repository
from tests.support.leases import renew_now
from tests.support.streams import answered

pytestmark = pytest.mark.usefixtures("old_busy_counts")


async def everything_happens(client: Redisson, redis: Redis) -> None:
    """A wait, a timeout, a release and a loss, each once."""
    lock = client.get_lock("orders:1")
    lease = await lock.acquire()
    with pytest.raises(AcquireTimeoutError):
        await asyncio.create_task(lock.acquire(timeout=2))
    await lease.release()
    lost = await lock.acquire()
    await redis.delete("orders:1")
    renew_now(client)
    await lost.wait_lost()


async def test_prometheus_scrapes_what_happened(
    clients: ClientFactory, proxy: ProxyFactory, redis: Redis
) -> None:
    registry = CollectorRegistry()
    telemetry = Telemetry(PrometheusMetricReader(registry=registry))
    web, thread = start_http_server(0, "127.0.0.1", registry)
    link = await proxy("orders:1")
    listener = telemetry.listener(names=lambda name: name.split(":")[0])
    client = clients(link.url, listener=listener)
    await answered(client)
    link.cut()
    await client.ping(timeout=20)
    await everything_happens(client, redis)

    def scrape() -> str:
        with urlopen(f"http://127.0.0.1:{web.server_port}/metrics", timeout=10) as answer:
            text: str = answer.read().decode()
            return text

    page = await asyncio.to_thread(scrape)
    await asyncio.to_thread(web.shutdown)
    web.server_close()
    await asyncio.to_thread(thread.join)
    telemetry.close()
    found = {
        (sample.name, sample.labels.get("redisson_py_hold_outcome")): sample
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if not sample.name.endswith("_bucket")
    }

    def value(name: str, outcome: str | None = None) -> float:
        sample = found[f"redisson_py_{name}", outcome]
        if not name.startswith("connection"):
            assert sample.labels["redisson_py_kind"] == "lock"
            assert sample.labels["redisson_py_name"] == "orders"
        return sample.value

    # The names that docs/telemetry.md has its alerts on.
    assert value("hold_losses_total", "taken") == 1
    assert value("hold_losses_total", "expired") == 0
    assert value("wait_timeouts_total") == 1
    assert value("hold_active") == value("wait_active") == 0
    assert value("hold_duration_seconds_count", "released") == 1
    assert value("hold_duration_seconds_sum", "released") >= 0.1
    assert value("wait_duration_seconds_count") == 1
    assert value("connection_losses_total") == value("connection_reconnects_total") == 1
    assert value("connection_outage_duration_seconds_count") == 1
    sample = found["redisson_py_connection_losses_total", None]
    assert (sample.labels["server_address"], sample.labels["server_port"]) == (
        link.host,
        str(link.port),
    )
    taken = found["redisson_py_hold_duration_seconds_count", "taken"]
    assert taken.labels["error_type"] == "taken"


PAGE = (repository.ROOT / "docs" / "telemetry.md").read_text("utf-8")


async def test_the_page_lists_every_instrument_and_its_alerts_use_real_metrics(
    clients: ClientFactory, proxy: ProxyFactory, redis: Redis
) -> None:
    registry = CollectorRegistry()
    telemetry = Telemetry(PrometheusMetricReader(registry=registry))
    link = await proxy("orders:1")
    listener = telemetry.listener(names=True)
    client = clients(link.url, listener=listener)
    await answered(client)
    link.cut()
    await client.ping(timeout=20)
    await everything_happens(client, redis)
    listener.renewed_late(RenewedLateEvent("orders:1", "lock", "c:1", 11.0, 9.0))
    samples = [sample for family in registry.collect() for sample in family.samples]
    data = telemetry.reader.get_metrics_data()
    assert data is not None
    (resource,) = data.resource_metrics
    instruments = {metric.name for one in resource.scope_metrics for metric in one.metrics}
    telemetry.close()
    assert instruments == {
        *re.findall(r"^\| `(redisson_py\.\S+)` \| (?:hist|up|count)", PAGE, re.MULTILINE)
    }
    (alerts,) = re.findall(r"```promql\n(.*?)```", PAGE, re.DOTALL)
    known = {sample.name for sample in samples} | {key for each in samples for key in each.labels}
    named = {*re.findall(r"\bredisson_py_\w+", alerts)}
    assert len(named) >= 8
    assert named <= known
    # What stands in tables: attributes and instruments only.
    spans = [span.attributes or {} for span in telemetry.ours()]
    attributes = {key for each in spans for key in each} | {"redisson_py.token"}
    words = {*re.findall(r"\bredisson_py\.[a-z_.]+[a-z]", PAGE)}
    assert words - instruments - attributes - {"redisson_py.integrations.opentelemetry"} == set()


class Collector:
    """Takes OTLP by HTTP, as a collector does, and decodes it.

    Attributes:
        spans: Every span, as protobuf has it.
        metrics: Every metric, likewise, by name; the newest counts.
    """

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.metrics: dict[str, Any] = {}
        self.scopes: set[tuple[str, str]] = set()

    def take(self, path: str, body: bytes) -> bytes:
        """Take one request; return the answer, which is empty."""
        if path == "/v1/traces":
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    self.scopes.add((scope.scope.name, scope.scope.version))
                    self.spans += scope.spans
        else:
            assert path == "/v1/metrics"
            for each in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for one in each.scope_metrics:
                    self.metrics |= {metric.name: metric for metric in one.metrics}
        return b""


@contextmanager
def collector() -> Iterator[tuple[Collector, str]]:
    """Run a collector in a thread; yields it and its URL."""
    collected = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            match self.headers.get("Content-Encoding"):
                case "gzip":
                    body = gzip.decompress(body)
                case "deflate":
                    body = zlib.decompress(body)
            answer = collected.take(self.path, body)
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield collected, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def plain(attributes: Any) -> dict[str, Any]:
    """Return attributes of protobuf as a dict."""
    return {
        each.key: getattr(each.value, each.value.WhichOneof("value") or "string_value")
        for each in attributes
    }


async def test_a_collector_gets_what_happened_by_otlp(clients: ClientFactory, redis: Redis) -> None:
    with collector() as (collected, url):
        metrics = OTLPMetricExporter(f"{url}/v1/metrics")
        telemetry = Telemetry(PeriodicExportingMetricReader(metrics, 3_600_000))
        traces = OTLPSpanExporter(f"{url}/v1/traces")
        telemetry.tracers.add_span_processor(BatchSpanProcessor(traces))
        client = clients(listener=telemetry.listener(names=["orders:1"]))
        with telemetry.current("request"):
            await everything_happens(client, redis)
        await asyncio.to_thread(telemetry.close)
    assert ("redisson_py", "0.1.0") in collected.scopes
    by_name: dict[str, list[Any]] = {}
    for span in collected.spans:
        by_name.setdefault(span.name, []).append(span)
    (request,) = by_name["request"]
    (wait,) = by_name["wait lock orders:1"]
    released, lost = sorted(by_name["hold lock orders:1"], key=lambda s: s.start_time_unix_nano)
    for span in (wait, released, lost):
        assert span.parent_span_id == request.span_id
        assert span.start_time_unix_nano < span.end_time_unix_nano
        assert plain(span.attributes)["db.system.name"] == "redis"
    assert [span.status.code for span in (wait, released, lost)] == [2, 0, 2]
    assert plain(wait.attributes)["error.type"] == "timeout"
    assert plain(lost.attributes)["redisson_py.hold.outcome"] == "taken"
    duration = collected.metrics["redisson_py.hold.duration"]
    assert duration.unit == "s"
    assert {
        plain(point.attributes)["redisson_py.hold.outcome"]: point.count
        for point in duration.histogram.data_points
    } == {"released": 1, "taken": 1}
    assert not collected.metrics["redisson_py.hold.active"].sum.is_monotonic
    assert collected.metrics["redisson_py.hold.losses"].sum.is_monotonic
