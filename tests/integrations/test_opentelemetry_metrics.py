"""Metrics of waits, holds, renewals and outages; whose names they say; docs/telemetry.md."""

from __future__ import annotations

import asyncio
import logging
import re
import subprocess
import sys
import weakref
from typing import Any

import pytest
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from prometheus_client import CollectorRegistry
from redis.asyncio import Redis

from redisson_py import AcquireTimeoutError, ConnectionLostError, Redisson, RenewedLateEvent
from redisson_py.integrations import opentelemetry
from redisson_py.integrations.opentelemetry import OpenTelemetryListener
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.integrations.telemetry import Labels, Telemetry
from tests.support import repository
from tests.support.leases import renew_now
from tests.support.streams import answered
from tests.support.waiting import until, until_async, until_listening

#: What is there from the first moment on, so that the first loss is an increase.
REASONS = {"expired", "ended", "taken", "forced", "abandoned"}


@pytest.fixture
def client(clients: ClientFactory, telemetry: Telemetry) -> Redisson:
    return clients(listener=telemetry.listener())


def labels(kind: str, name: str | None = None, **more: str) -> Labels:
    """Return attributes as a key: `hold__outcome="taken"`, and `error__type` as it is."""
    found = {"redisson_py.kind": kind}
    for key, value in more.items():
        word = key.replace("__", ".")
        found[word if word.startswith("error") else f"redisson_py.{word}"] = value
    if name is not None:
        found["redisson_py.name"] = name
    return frozenset(found.items())


async def test_waits_and_holds(
    client: Redisson, clients: ClientFactory, telemetry: Telemetry
) -> None:
    lease = await client.get_lock("k").acquire()
    waiting = asyncio.create_task(client.get_lock("k").acquire())
    await until(lambda: telemetry.total("wait.active") == 1)
    assert telemetry.points("hold.active") == {labels("lock"): 1}
    assert telemetry.points("wait.active") == {labels("lock"): 1}
    assert telemetry.points("hold.duration") == {}
    await lease.release()
    await (await waiting).release()
    assert telemetry.points("hold.active") == {labels("lock"): 0}
    assert telemetry.points("wait.active") == {labels("lock"): 0}
    released = labels("lock", hold__outcome="released")
    assert telemetry.points("hold.duration") == {released: 2}
    granted = labels("lock", wait__outcome="granted")
    assert telemetry.points("wait.duration") == {granted: 1}
    (point,) = telemetry.raw("wait.duration")
    assert point.sum == client.statistics().waited
    assert point.explicit_bounds == opentelemetry.BOUNDS


async def test_losses_by_reason_begin_at_zero(
    clients: ClientFactory, telemetry: Telemetry, redis: Redis
) -> None:
    client = clients(listener=telemetry.listener(), on_lost="raise")
    lease = await client.get_lock("k").acquire()
    losses = telemetry.points("hold.losses")
    assert {dict(key)["redisson_py.hold.outcome"] for key in losses} == REASONS
    assert {*losses.values()} == {0}
    await redis.delete("k")
    renew_now(client)
    await lease.wait_lost()
    await client.get_lock("other").acquire()
    await client.get_lock("other").force_release()
    assert {
        dict(key)["redisson_py.hold.outcome"]: count
        for key, count in telemetry.points("hold.losses").items()
        if count
    } == {"taken": 1, "forced": 1}
    error = {"hold__outcome": "taken", "error__type": "taken"}
    assert telemetry.points("hold.duration")[labels("lock", **error)] == 1
    assert telemetry.total("hold.active") == 0


@pytest.mark.usefixtures("old_busy_counts")
async def test_timeouts(client: Redisson, clients: ClientFactory, telemetry: Telemetry) -> None:
    async def wait() -> None:
        with pytest.raises(AcquireTimeoutError):
            await client.get_lock("k").acquire(timeout=2)

    async with clients().get_lock("k"):
        await asyncio.gather(wait(), wait())
        assert await client.get_lock("k").try_acquire() is None
    assert telemetry.points("wait.timeouts") == {labels("lock"): 2}
    error = {"wait__outcome": "timeout", "error__type": "timeout"}
    assert telemetry.points("wait.duration") == {labels("lock", **error): 2}
    assert telemetry.total("wait.active") == 0


async def test_waits_for_a_rate_limiter(
    client: Redisson, telemetry: Telemetry, redis: Redis
) -> None:
    """Nobody holds one: what is refused at once, or admitted at once, is no wait."""
    limiter = client.get_rate_limiter("k", 2, 600)
    assert await limiter.try_acquire(2)
    assert not await limiter.try_acquire()
    assert telemetry.ours() == []
    with pytest.raises(AcquireTimeoutError):
        await limiter.acquire(timeout=0.05)
    granted, cancelled = (asyncio.create_task(limiter.acquire(n)) for n in (1, 2))
    await until(lambda: telemetry.points("wait.active") == {labels("rate limiter"): 2})
    await until_listening(client)
    cancelled.cancel()
    await until(cancelled.done)
    await limiter.set_rate(2, 600)
    assert await granted
    assert telemetry.points("wait.active") == {labels("rate limiter"): 0}
    assert telemetry.points("wait.timeouts") == {labels("rate limiter"): 1}
    timed_out = {"wait__outcome": "timeout", "error__type": "timeout"}
    assert telemetry.points("wait.duration") == {
        labels("rate limiter", **timed_out): 1,
        labels("rate limiter", wait__outcome="cancelled"): 1,
        labels("rate limiter", wait__outcome="granted"): 1,
    }
    assert [span.name for span in telemetry.ours()] == ["wait rate limiter"] * 3
    assert telemetry.points("hold.duration") == {}
    await redis.flushdb()


async def test_outages(clients: ClientFactory, proxy: ProxyFactory, telemetry: Telemetry) -> None:
    link = await proxy()
    client = clients(link.url, listener=telemetry.listener())
    await answered(client)
    where = frozenset({("server.address", link.host), ("server.port", link.port)})
    assert telemetry.points("connection.losses") == {}
    for outage in range(1, 3):
        link.refuse()
        link.cut()
        with pytest.raises(ConnectionLostError):
            await client.ping(timeout=0.5)
        assert telemetry.points("connection.losses") == {where: outage}
        assert telemetry.points("connection.reconnects") == {where: outage - 1}
        link.pass_through()
        await client.ping(timeout=20)
    assert telemetry.points("connection.reconnects") == {where: 2}
    assert telemetry.points("connection.outage.duration") == {where: 2}


async def test_renewals_that_come_late(
    clients: ClientFactory, proxy: ProxyFactory, telemetry: Telemetry
) -> None:
    link = await proxy()
    client = clients(link.url, listener=telemetry.listener(), lease_time=9)
    lease = await client.get_lock("k").acquire()
    assert telemetry.points("renewal.delays") == {labels("lock"): 0}
    link.refuse()
    link.cut()
    # Now less than a third is left, and enough for a renewal.
    await until(lambda: lease.remaining < 2.9)
    link.pass_through()
    await until(lambda: telemetry.points("renewal.lag"))
    assert telemetry.points("renewal.lag") == {labels("lock"): 1}
    assert telemetry.points("renewal.delays") == {labels("lock"): 1}
    (point,) = telemetry.raw("renewal.lag")
    assert 3 < point.sum < 6
    await lease.release()


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("127.0.0.1:6379", {"server.address": "127.0.0.1", "server.port": 6379}),
        ("[::1]:6379", {"server.address": "::1", "server.port": 6379}),
        ("/run/redis.sock", {"server.address": "/run/redis.sock"}),
        ("a:1,b:2", {"server.address": "a:1,b:2"}),
        ("'m' of Sentinel at a:1", {"server.address": "'m' of Sentinel at a:1"}),
    ],
)
def test_addresses(where: str, expected: dict[str, str | int]) -> None:
    assert opentelemetry._server(where) == expected


# Names.


async def use(client: Redisson, *names: str | bytes) -> None:
    for name in names:
        async with client.get_lock(name):
            pass


async def test_no_name_leaves_the_process_unless_allowed(
    client: Redisson, telemetry: Telemetry
) -> None:
    await use(client, *[f"secret:{number}" for number in range(100)])
    for metric in ("hold.active", "wait.timeouts", "hold.duration"):
        assert len(telemetry.points(metric)) == 1, metric
    assert len(telemetry.points("hold.losses")) == len(REASONS)
    assert len(telemetry.ours()) == 100
    seen = [telemetry.reader.get_metrics_data(), *[span.to_json() for span in telemetry.ours()]]
    assert "secret" not in repr(seen)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (False, {None}),
        (True, {"orders:1", "orders:2", "jobs", "\\xff"}),
        (["jobs", "unused"], {"jobs", None}),
        (frozenset({b"\xff"}), {"\\xff", None}),
        (lambda name: name.split(":")[0], {"orders", "jobs", "\\xff"}),
        (lambda name: None if name == "jobs" else "\ud800", {None, "\\xed\\xa0\\x80"}),
    ],
)
async def test_names_as_the_policy_allows(
    clients: ClientFactory, telemetry: Telemetry, policy: Any, expected: set[str | None]
) -> None:
    client = clients(listener=telemetry.listener(names=policy))
    await use(client, "orders:1", "orders:2", "jobs", b"\xff")
    found = {dict(key).get("redisson_py.name") for key in telemetry.points("hold.duration")}
    assert found == expected
    assert {
        (span.attributes or {}).get("redisson_py.name") for span in telemetry.ours()
    } == expected
    words = {f"hold lock {name}" if name else "hold lock" for name in expected}
    assert {span.name for span in telemetry.ours()} == words


async def test_names_that_metrics_have_stay_out_of_spans_that_must_not(
    clients: ClientFactory, telemetry: Telemetry
) -> None:
    listener = telemetry.listener(names=True, span_names=["b"])
    await use(clients(listener=listener), "a", "b")
    assert [span.name for span in telemetry.ours()] == ["hold lock", "hold lock b"]
    assert "a" not in [(span.attributes or {}).get("redisson_py.name") for span in telemetry.ours()]


async def test_what_is_kept_for_names_is_bounded(
    clients: ClientFactory, telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str | None] = []

    class Counted(opentelemetry._Series):
        def __init__(self, kind: str, label: str | None) -> None:
            super().__init__(kind, label)
            made.append(label)
            alive.add(self)

    alive: weakref.WeakSet[Counted] = weakref.WeakSet()
    monkeypatch.setattr(opentelemetry, "_Series", Counted)
    monkeypatch.setattr(opentelemetry, "_NAMES_KEPT", 3)
    client = clients(listener=telemetry.listener(names=True, traces=False))
    await use(client, *[f"k{number}" for number in range(20)], "k0")
    assert made == [*[f"k{number}" for number in range(20)], "k0"]
    assert len(alive) == 3
    assert telemetry.total("hold.duration", name="k0") == 2
    assert telemetry.total("hold.active") == 0


@pytest.mark.parametrize("policy", ["orders", b"orders", 1, None, object(), until_async])
@pytest.mark.parametrize("argument", ["names", "span_names"])
def test_a_bad_policy_is_refused(argument: str, policy: Any) -> None:
    if (argument, policy) == ("span_names", None):
        # As `names`.
        return
    with pytest.raises(TypeError, match=f"^{argument} must be True, False"):
        OpenTelemetryListener(**{argument: policy})


@pytest.mark.parametrize("returned", [ZeroDivisionError("mine"), 7])
async def test_callers_do_not_feel_a_broken_policy(
    clients: ClientFactory, telemetry: Telemetry, returned: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def policy(name: str) -> Any:
        if isinstance(returned, Exception):
            raise returned
        return returned

    await use(clients(listener=telemetry.listener(names=policy)), "a", "b")
    errors = [each.message for each in caplog.records if each.levelno == logging.ERROR]
    assert errors == [f"the listener's {name} raised an error" for name in ("acquired", "released")]


# One listener, several; none.


@pytest.mark.parametrize(("traces", "metrics"), [(True, False), (False, True), (False, False)])
async def test_either_can_be_left_out(
    clients: ClientFactory, telemetry: Telemetry, traces: bool, metrics: bool
) -> None:
    client = clients(listener=telemetry.listener(traces=traces, metrics=metrics))
    async with client.get_lock("k"):
        waiting = asyncio.create_task(client.get_lock("k").acquire())
        await until(lambda: client.statistics().waiters == 1)
        waiting.cancel()
        await asyncio.wait([waiting])
    assert [span.name for span in telemetry.ours()] == ["wait lock", "hold lock"] * traces
    assert bool(telemetry.points("hold.duration")) == metrics


def run(code: str) -> str:
    """Run Python; return what it writes to stderr."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=False
    )
    return done.stderr


def test_a_missing_package_is_an_import_error_that_names_the_extra() -> None:
    for missing in ("opentelemetry", "opentelemetry.metrics"):
        hidden = f"import sys; sys.modules[{missing!r}] = None\n"
        rows = run(hidden + "import redisson_py.integrations.opentelemetry").splitlines()
        assert rows[-1] == (
            "ModuleNotFoundError: redisson_py.integrations.opentelemetry needs OpenTelemetry:"
            " pip install 'redisson-py[otel]'"
        )


def test_it_needs_the_api_only_and_the_package_needs_neither() -> None:
    hidden = "import sys; sys.modules['opentelemetry.sdk'] = None\n"
    made = (
        "from redisson_py.integrations import opentelemetry\nopentelemetry.OpenTelemetryListener()"
    )
    assert run(hidden + made) == ""
    assert run("import sys; sys.modules['opentelemetry'] = None; import redisson_py") == ""


# docs/telemetry.md.


PAGE = (repository.ROOT / "docs" / "telemetry.md").read_text("utf-8")


@pytest.mark.usefixtures("old_busy_counts")
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
    # A wait, a timeout, a release and a loss.
    lock = client.get_lock("orders:1")
    async with lock:
        with pytest.raises(AcquireTimeoutError):
            await asyncio.create_task(lock.acquire(timeout=2))
    lost = await lock.acquire()
    await redis.delete("orders:1")
    renew_now(client)
    await lost.wait_lost()
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
