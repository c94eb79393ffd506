"""What listeners hear of locks in other stores, and spans, which say which store it is."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from redisson_py import AcquiredEvent, Listener, Listeners, ReleasedEvent, WaitStartedEvent
from tests.stores.backends import Backend, Client
from tests.stores.conftest import NewClient
from tests.support.waiting import until

SYSTEMS = {
    "RedisBackend": "redis",
    "PostgresBackend": "postgresql",
    "MySQLBackend": "mysql",
    "EtcdBackend": "etcd",
    "ZooKeeperBackend": "zookeeper",
}


class Waiting(Listener):
    """Notes that a wait has begun."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()

    def wait_started(self, event: WaitStartedEvent, /) -> None:
        self.begun.set()


async def test_spans_name_the_store(backend: Backend) -> None:
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from redisson_py.integrations.opentelemetry import OpenTelemetryListener

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    waiting = Waiting()
    listener = Listeners(waiting, OpenTelemetryListener(tracer_provider=provider, metrics=False))
    async with backend.client() as other, backend.client(listener=listener) as client:
        held = await other.get_lock("k").acquire()
        waiter = asyncio.create_task(client.get_lock("k").acquire())
        await waiting.begun.wait()
        await held.release()
        await (await waiter).release()
    spans = exporter.get_finished_spans()
    assert sorted(span.name for span in spans) == ["hold lock", "wait lock"]
    for span in spans:
        assert span.attributes is not None
        assert span.attributes["db.system.name"] == SYSTEMS[type(backend).__name__]


@pytest.mark.parametrize("backend", ["postgres"], indirect=True)
@pytest.mark.parametrize("kind", ["read lock", "write lock", "semaphore"])
async def test_listeners_hear_of_each_kind(new_client: NewClient, kind: str) -> None:
    heard: list[tuple[str, str]] = []

    class Heard(Listener):
        def acquired(self, event: AcquiredEvent, /) -> None:
            heard.append(("acquired", event.kind))

        def released(self, event: ReleasedEvent, /) -> None:
            heard.append(("released", event.kind))

    client: Any = new_client(listener=Heard())
    lock = client.get_read_write_lock("k")
    things = {
        "read lock": lock.read_lock(),
        "write lock": lock.write_lock(),
        "semaphore": client.get_semaphore("k", 1),
    }
    async with things[kind]:
        assert client.statistics().held_leases == 1
    assert heard == [("acquired", kind), ("released", kind)]


async def test_listeners_and_statistics(new_client: NewClient, other: Client) -> None:
    heard: list[str] = []

    names = [name for name in vars(Listener) if not name.startswith("_")]
    notes = {name: lambda event, name=name: heard.append(name) for name in names}
    client = new_client(listener=SimpleNamespace(**notes))
    lease = await other.get_lock("k").acquire()
    waiter = asyncio.create_task(client.get_lock("k").acquire())
    await until(lambda: heard)
    await lease.release()
    await (await waiter).release()
    assert heard == ["wait_started", "wait_ended", "acquired", "released"]
    statistics = client.statistics()
    assert (statistics.acquires, statistics.waits, statistics.held_leases) == (1, 1, 0)
    assert statistics.commands_sent >= 2
    await client.ping()
