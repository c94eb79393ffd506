"""What operators see of an outage: one warning, one line when it is over, and the events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from redisson_py import (
    BackendError,
    ConnectionLostError,
    ConnectionLostEvent,
    ConnectionRestoredEvent,
    Redisson,
    RenewedLateEvent,
)
from redisson_py._redis.stream import stream
from redisson_py.testing import EmbeddedServer
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory, ServerFactory
from tests.support.recorder import Recorder
from tests.support.streams import answered
from tests.support.waiting import until

Records = Callable[..., list[str]]


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def records(caplog: pytest.LogCaptureFixture) -> Records:
    """Return what we logged, above DEBUG unless told otherwise, as `LEVEL text`."""
    caplog.set_level(logging.DEBUG, "redisson_py")

    def found(least: int = logging.INFO) -> list[str]:
        return [
            f"{record.levelname} {record.message}"
            for record in caplog.records
            if record.name == "redisson_py" and record.levelno >= least
        ]

    return found


def failed_attempts(records: Records) -> int:
    return sum("no connection to Redis" in row for row in records(logging.DEBUG))


async def test_an_outage_is_one_warning_and_one_record_when_it_has_ended(
    clients: ClientFactory,
    proxy: ProxyFactory,
    recorder: Recorder,
    records: Records,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream, "pause_before", lambda attempt, longest=0.0: 0.01)
    link = await proxy()
    client = clients(link.url, listener=recorder)
    where = f"{link.host}:{link.port}"
    await answered(client)
    for outage in range(1, 3):
        link.refuse()
        link.cut()
        waiting = asyncio.create_task(client.get_lock("k").acquire(timeout=60))
        before = failed_attempts(records)
        await until(lambda before=before: failed_attempts(records) >= before + 20)  # type: ignore[misc]
        assert len(records()) == 2 * outage - 1
        link.pass_through()
        await (await waiting).release()
        warning, info = records()[-2:]
        assert warning.startswith(f"WARNING connection to Redis at {where} lost: ")
        lost, restored = (
            recorder.of(ConnectionLostEvent)[-1],
            recorder.of(ConnectionRestoredEvent)[-1],
        )
        assert lost == ConnectionLostEvent(where, warning.partition("lost: ")[2])
        assert restored == ConnectionRestoredEvent(where, restored.away)
        assert 0.2 <= restored.away < 60
        assert (
            info == f"INFO connected to Redis at {where} after an outage of {restored.away:.3f} s"
        )
        assert len(records()) == 2 * outage
        assert client.statistics().reconnects == outage
    assert len(recorder.of(ConnectionLostEvent)) == len(recorder.of(ConnectionRestoredEvent)) == 2


async def test_a_client_that_never_could_connect(
    clients: ClientFactory, own_server: EmbeddedServer, recorder: Recorder, records: Records
) -> None:
    url = own_server.url
    await own_server.stop()
    client = clients(url, listener=recorder, command_timeout=0.2)
    assert records() == []
    while failed_attempts(records) < 5:
        with pytest.raises(ConnectionLostError):
            await answered(client)
    (row,) = records()
    where = f"{own_server.host}:{url.rpartition(':')[2].partition('/')[0]}"
    assert row.startswith(f"WARNING no connection to Redis at {where}: ")
    assert failed_attempts(records) >= 5
    (event,) = recorder.events
    assert event == ConnectionLostEvent(where, row.partition(f"{where}: ")[2])
    await client.aclose()
    assert len(records()) == len(recorder.events) == 1


async def test_a_client_that_is_refused(
    server_factory: ServerFactory, clients: ClientFactory, recorder: Recorder, records: Records
) -> None:
    server = await server_factory(password="right")
    client = clients(f"redis://:wrong@{server.host}:{server.port}", listener=recorder)
    for _ in range(10):
        with pytest.raises(BackendError):
            await answered(client)
    (row,) = records()
    assert row.startswith("ERROR Redis at")
    assert recorder.story == ["connection lost"]


async def test_a_close_is_no_outage(
    client: Redisson, clients: ClientFactory, recorder: Recorder, records: Records
) -> None:
    listening = clients(listener=recorder)
    async with listening, listening.get_lock("k"):
        recorder.events.clear()
    await clients(listener=recorder).aclose()
    await answered(client)
    await client.aclose()
    assert recorder.story == ["released lock k"]
    assert records(logging.DEBUG) == []


async def test_renewals_that_fail_in_an_outage_are_no_warnings(
    clients: ClientFactory, proxy: ProxyFactory, recorder: Recorder, records: Records
) -> None:
    link = await proxy()
    client = clients(link.url, listener=recorder, lease_time=9)
    leases = await asyncio.gather(*[client.get_lock(f"k{n}").acquire() for n in range(300)])
    recorder.events.clear()
    link.refuse()
    link.cut()

    def failed() -> int:
        return sum("are not renewed yet" in row for row in records(logging.DEBUG))

    await until(lambda: failed() >= 3)
    # Now less than a third is left, and enough for a renewal.
    await until(lambda: max(lease.remaining for lease in leases) < 2.9)
    link.pass_through()
    await until(lambda: len(recorder.of(RenewedLateEvent)) == 300)
    assert [row.split()[0] for row in records()] == ["WARNING", "INFO"]
    assert recorder.story == [
        *["connection lost", "connection restored"],
        *[f"renewed late lock {event.name!s}" for event in recorder.of(RenewedLateEvent)],
    ]
    assert {event.owner for event in recorder.of(RenewedLateEvent)} == {
        each.owner for each in leases
    }
    for event in recorder.of(RenewedLateEvent):
        assert event.late > 3
        assert 0 < event.remaining < 3
        assert event.late + event.remaining < 6
    statistics = client.statistics()
    assert (statistics.late_renewals, statistics.reconnects, statistics.losses) == (300, 1, 0)
    await asyncio.gather(*[lease.release() for lease in leases])
