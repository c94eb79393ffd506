"""Spans of waits and holds: whose children they are, how long they last, what they say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode, get_current_span
from redis.asyncio import Redis

from redisson_py import (
    AcquireTimeoutError,
    ClientClosedError,
    Leader,
    LeaseLostError,
    Listener,
    NotHeldError,
    Redisson,
)
from redisson_py.integrations import opentelemetry
from redisson_py.locks.election import candidate_of
from tests.fixtures.client import ClientFactory
from tests.fixtures.fleet import Fleet, until_executed
from tests.fixtures.redis_server import ProxyFactory
from tests.integrations.telemetry import Telemetry, parent, seconds
from tests.support.leases import renew_now
from tests.support.streams import answered
from tests.support.waiting import until, until_listening

MAKERS: dict[str, Callable[[Redisson], Any]] = {
    "lock": lambda client: client.get_lock("k"),
    "fenced lock": lambda client: client.get_fenced_lock("k"),
    "fair lock": lambda client: client.get_fair_lock("k"),
    "election": lambda client: candidate_of(client.get_election("k")),
    "once": lambda client: client.get_once("k"),
    "read lock": lambda client: client.get_read_write_lock("k").read_lock(),
    "write lock": lambda client: client.get_read_write_lock("k").write_lock(),
    "semaphore": lambda client: client.get_semaphore("k", 1),
    "permit expirable semaphore": lambda client: client.get_permit_expirable_semaphore("k", 1),
    "multi lock": lambda client: client.get_multi_lock(client.get_lock("a"), client.get_lock("b")),
}
every_kind = pytest.mark.parametrize("kind", MAKERS)
every_exclusive_kind = pytest.mark.parametrize(
    "kind", [kind for kind in MAKERS if kind != "read lock"]
)

pytestmark = pytest.mark.usefixtures("no_semaphore_left", "old_busy_counts")


@pytest.fixture
def client(clients: ClientFactory, telemetry: Telemetry) -> Redisson:
    return clients(listener=telemetry.listener())


def outcome(span: ReadableSpan) -> object:
    assert span.attributes is not None
    return span.attributes[f"redisson_py.{span.name.split()[0]}.outcome"]


@every_kind
async def test_a_hold_is_a_child_of_the_span_of_its_task(
    client: Redisson, telemetry: Telemetry, kind: str
) -> None:
    with telemetry.current("request") as request:
        async with MAKERS[kind](client) as lease:
            assert telemetry.spans(f"hold {kind}") == []
    (span,) = telemetry.spans(f"hold {kind}")
    assert parent(span) == request
    assert span.kind is SpanKind.INTERNAL
    assert span.status.status_code is StatusCode.UNSET
    expected = {
        "db.system.name": "redis",
        "redisson_py.kind": kind,
        "redisson_py.owner": lease.owner,
        "redisson_py.hold.outcome": "released",
    }
    if kind in ("fenced lock", "election", "once"):
        expected["redisson_py.token"] = lease.token
    assert dict(span.attributes or {}) == expected
    # Members of a composite lock have spans of their own, of the same parent.
    assert {parent(each) for each in telemetry.ours()} == {request}
    assert len(telemetry.ours()) == (3 if kind == "multi lock" else 1)


@every_exclusive_kind
async def test_each_of_many_tasks_has_its_own_spans(
    client: Redisson, telemetry: Telemetry, kind: str
) -> None:
    """Also where holds go from task to task in the process, in one turn of the event loop."""
    source = MAKERS[kind](client)
    parents: list[int] = []

    async def work(number: int) -> None:
        with telemetry.current(f"task {number}") as mine:
            parents.append(mine)
            async with source:
                await asyncio.sleep(0)

    async with source:
        tasks = [asyncio.create_task(work(number)) for number in range(5)]
        await until(lambda: telemetry.total("wait.active") == 5)
    await asyncio.gather(*tasks)
    for act in ("wait", "hold"):
        found = [parent(span) for span in telemetry.spans(f"{act} {kind}")]
        # And the hold that they wait for, which has no parent.
        assert sorted(filter(None, found)) == sorted(parents), act
        assert found.count(None) == (act == "hold")
    for task in parents:
        (wait,) = [span for span in telemetry.spans("wait") if parent(span) == task]
        hold, *_ = [span for span in telemetry.spans(f"hold {kind}") if parent(span) == task]
        assert outcome(wait) == "granted"
        assert wait.end_time <= hold.end_time  # type: ignore[operator]


@every_exclusive_kind
async def test_a_wait_for_another_client(
    client: Redisson, clients: ClientFactory, telemetry: Telemetry, kind: str
) -> None:
    lease = await MAKERS[kind](clients()).acquire()

    async def work() -> None:
        with telemetry.current("waits"):
            async with MAKERS[kind](client):
                pass

    waiting = asyncio.create_task(work())
    await until_listening(client)
    await asyncio.sleep(0.05)
    await lease.release()
    await waiting
    (task,) = telemetry.spans("waits")
    assert task.context is not None
    (wait,) = telemetry.spans(f"wait {kind}")
    assert parent(wait) == task.context.span_id
    assert seconds(wait) >= 0.05
    assert wait.status.status_code is StatusCode.UNSET
    assert {parent(span) for span in telemetry.ours()} == {task.context.span_id}


async def test_a_term_and_the_wait_for_it_but_no_look_at_the_leader(
    client: Redisson, clients: ClientFactory, telemetry: Telemetry
) -> None:
    """The value is not told: it may be secret, and there are as many as leaders."""
    election = client.get_election("k")
    async with clients().get_election("k").campaign("first", timeout=30) as first:
        with telemetry.current("waits") as waits:
            waiting = asyncio.create_task(election.acquire("host-1"))
            await until(lambda: telemetry.total("wait.active", kind="election") == 1)
            async for leader in election.observe():
                assert leader is not None
                break
            await first.release()
            leadership = await waiting
            await leadership.proclaim("host-2")
            assert await election.leader() == Leader(b"host-2", leadership.token)
            await leadership.release()
    spans = telemetry.ours()
    assert [(span.name, outcome(span)) for span in spans] == [
        ("wait election", "granted"),
        ("hold election", "released"),
    ]
    assert {parent(span) for span in spans} == {waits}
    assert (spans[1].attributes or {})["redisson_py.token"] == leadership.token
    assert not [span for span in spans if "host" in repr(span.to_json())]
    assert telemetry.total("hold.duration", kind="election", hold__outcome="released") == 1


async def test_what_was_done_meanwhile_is_waited_for_and_not_held(
    client: Redisson, clients: ClientFactory, telemetry: Telemetry, redis: Redis
) -> None:
    """The result is not told: it may be secret."""
    async with clients().get_once("k") as running:
        with telemetry.current("waits") as waits:
            waiting = asyncio.create_task(client.get_once("k").run(lambda: "mine"))
            await until(lambda: telemetry.total("wait.active", kind="once") == 1)
            await running.complete("secret")
            assert await waiting == "secret"
        # Who asks later does not wait.
        assert await client.get_once("k").run(lambda: "mine") == "secret"
    (wait,) = telemetry.ours()
    assert (wait.name, parent(wait)) == ("wait once", waits)
    assert telemetry.total("wait.active", kind="once") == 0
    assert telemetry.total("hold.active", kind="once") == 0
    assert "secret" not in repr(wait.to_json())
    assert outcome(wait) == "granted"


async def test_the_span_of_each_entry_ends_with_its_own_release(
    client: Redisson, telemetry: Telemetry
) -> None:
    lock = client.get_lock("k")
    parents = []
    leases = []
    for number in range(3):
        with telemetry.current(f"entry {number}") as entry:
            parents.append(entry)
            leases.append(await lock.acquire())
    first, second, third = leases
    for lease in (first, third, second):
        await lease.release()
    assert [parent(span) for span in telemetry.ours()] == [parents[0], parents[2], parents[1]]


@every_kind
async def test_a_loss_is_an_error_of_the_hold(
    clients: ClientFactory, telemetry: Telemetry, kind: str, redis: Redis
) -> None:
    client = clients(listener=telemetry.listener(), on_lost="raise")
    with telemetry.current("request") as request:
        lease = await MAKERS[kind](client).acquire()
    for key in [*await redis.keys("*k*"), b"a", b"b"]:
        await redis.delete(key)
    renew_now(client)
    await lease.wait_lost()
    (span,) = telemetry.spans(f"hold {kind}")
    assert parent(span) == request
    assert outcome(span) == "taken"
    assert span.attributes is not None
    assert span.attributes["error.type"] == "taken"
    assert span.status.status_code is StatusCode.ERROR
    with pytest.raises(LeaseLostError):
        await lease.release()
    assert len(telemetry.spans(f"hold {kind}")) == 1


async def test_a_lease_whose_own_time_is_up_is_no_error(
    client: Redisson, telemetry: Telemetry
) -> None:
    lease = await client.get_lock("k").acquire(lease_time=2)
    await lease.wait_lost()
    (span,) = telemetry.ours()
    assert outcome(span) == "ended"
    assert span.status.status_code is StatusCode.UNSET
    assert "error.type" not in (span.attributes or {})


@pytest.mark.parametrize("here", [True, False])
async def test_waits_that_end_otherwise(
    client: Redisson, clients: ClientFactory, telemetry: Telemetry, here: bool
) -> None:
    """For a task of the same client, or for another client: time is up, or cancelled."""
    lease = await (client if here else clients()).get_lock("k").acquire()
    lock = client.get_lock("k")

    async def wait(timeout: float | None) -> None:
        with telemetry.current("waits"):
            assert await lock.try_acquire() is None
            await lock.acquire(timeout=timeout)

    with pytest.raises(AcquireTimeoutError):
        await asyncio.create_task(wait(2))
    cancelled = asyncio.create_task(wait(None))
    await until(lambda: telemetry.total("wait.active") == 1)
    cancelled.cancel()
    await asyncio.wait([cancelled])
    spans = telemetry.spans("wait lock")
    assert [outcome(span) for span in spans] == ["timeout", "cancelled"], "asking once is no wait"
    tasks = [span.context.span_id for span in telemetry.spans("waits") if span.context]
    assert [parent(span) for span in spans] == tasks
    assert [span.status.status_code for span in spans] == [StatusCode.ERROR, StatusCode.UNSET]
    assert [(span.attributes or {}).get("error.type") for span in spans] == ["timeout", None]
    await lease.release()


async def test_a_client_that_closes_ends_every_span(
    clients: ClientFactory, telemetry: Telemetry
) -> None:
    listener = telemetry.listener()
    client = clients(listener=listener)
    await client.get_lock("k").acquire()
    waiting = asyncio.create_task(client.get_lock("k").acquire())
    await until(lambda: telemetry.total("wait.active") == 1)
    await client.aclose()
    with pytest.raises(ClientClosedError):
        await waiting
    assert sorted((span.name, outcome(span)) for span in telemetry.ours()) == [
        ("hold lock", "forced"),
        ("wait lock", "failed"),
    ]
    assert listener._spans is not None
    assert not listener._spans._open


async def test_open_spans_are_bounded(
    clients: ClientFactory, telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opentelemetry, "MAX_OPEN_SPANS", 3)
    listener = telemetry.listener(names=True)
    client = clients(listener=listener)
    leases = [await client.get_lock(f"k{number}").acquire() for number in range(5)]
    assert [(span.name, outcome(span)) for span in telemetry.ours()] == [
        ("hold lock k0", "unknown"),
        ("hold lock k1", "unknown"),
    ]
    for lease in leases:
        await lease.release()
    assert [span.name[-2:] for span in telemetry.ours()] == ["k0", "k1", "k2", "k3", "k4"]
    assert listener._spans is not None
    assert not listener._spans._open
    assert telemetry.total("hold.duration", hold__outcome="released") == 5


async def test_spans_that_are_not_sampled_leave_nothing_behind(
    clients: ClientFactory, telemetry: Telemetry
) -> None:
    never = TracerProvider(ALWAYS_OFF, shutdown_on_exit=False)
    listener = telemetry.listener(tracer_provider=never)
    async with clients(listener=listener).get_lock("k"):
        assert listener._spans is not None
        assert not listener._spans._open
    assert telemetry.ours() == []
    assert telemetry.total("hold.duration") == 1
    never.shutdown()


async def test_a_red_lock_and_its_members_also_one_that_answers_late(
    fleet: Fleet, telemetry: Telemetry
) -> None:
    lock = fleet.red_lock(3, lease_time=60, listener=telemetry.listener())
    # Else those who did not answer may not be asked.
    async with lock:
        await until_executed(lock)
    await until(lambda: len(telemetry.ours()) == 4)
    telemetry.exporter.clear()
    await fleet.servers[2].pause()

    async def work() -> None:
        with telemetry.current("request"):
            async with lock:
                await fleet.servers[2].resume()
                await until_executed(lock)
                assert await fleet.held() == 3

    await asyncio.create_task(work())
    await until(lambda: len(telemetry.ours()) == 4)
    (request,) = telemetry.spans("request")
    assert request.context is not None
    assert {parent(span) for span in telemetry.ours()} == {request.context.span_id}
    assert sorted(span.name for span in telemetry.ours()) == [*["hold lock"] * 3, "hold red lock"]


@pytest.mark.parametrize("first_use", ["elsewhere", "here"])
async def test_member_spans_are_children_of_the_acquiring_span(
    clients: ClientFactory, telemetry: Telemetry, first_use: str
) -> None:
    client = clients(listener=telemetry.listener())
    if first_use == "elsewhere":
        with telemetry.current("connects"):
            await client.ping()
    with telemetry.current("request") as request:
        async with client.get_multi_lock(client.get_lock("{k}a"), client.get_lock("{k}b")):
            pass
    assert [parent(span) for span in telemetry.ours()] == [request] * 3


async def test_what_is_done_for_everybody_has_nobodys_trace(
    clients: ClientFactory, proxy: ProxyFactory, telemetry: Telemetry
) -> None:
    seen: list[bool] = []

    class Looks(Listener):
        def connection_lost(self, event: object, /) -> None:
            seen.append(get_current_span().get_span_context().is_valid)

        connection_restored = connection_lost

    link = await proxy()
    client = clients(link.url, listener=Looks())
    with telemetry.current("first use"):
        assert get_current_span().get_span_context().is_valid
        await answered(client)
    link.cut()
    await client.ping(timeout=20)
    assert seen == [False, False]


@pytest.mark.parametrize("kind", ["lock", "fenced lock", "fair lock"])
async def test_the_giver_and_the_adopter_of_a_hold_have_a_span_each(
    client: Redisson, clients: ClientFactory, telemetry: Telemetry, kind: str
) -> None:
    far = clients(listener=telemetry.listener())
    with telemetry.current("gives") as gives:
        async with MAKERS[kind](client) as lease:
            token = await lease.hand_over()
            # It is not held here any more, although the block goes on.
            (given,) = telemetry.spans("hold")
            assert telemetry.total("hold.active") == 0
    with telemetry.current("adopts") as adopts:
        adopted = await far.adopt(token)
    assert telemetry.total("hold.active") == 1
    with pytest.raises(NotHeldError):
        await client.adopt(token)
    await adopted.release()
    _, taken = telemetry.spans("hold")
    assert [parent(given), parent(taken)] == [gives, adopts]
    for span, holder in ((given, lease), (taken, adopted)):
        said = dict(span.attributes or {})
        assert (said["redisson_py.owner"], said.get("redisson_py.token")) == (
            holder.owner,
            lease.token,
        )
        assert (outcome(span), span.name) == ("released", f"hold {kind}")
        assert span.status.status_code is StatusCode.UNSET
    assert given.end_time <= taken.start_time  # type: ignore[operator]
    # Nobody waited, and an adoption that is refused is no hold.
    assert len(telemetry.ours()) == 2
    assert telemetry.total("hold.active") == 0
    assert telemetry.total("hold.losses") == 0
