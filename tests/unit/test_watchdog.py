"""The watchdog renews in time, says lost only when it knows, and never touches what left it."""

from __future__ import annotations

import asyncio
import gc
import logging
from dataclasses import dataclass
from typing import Any, cast

import pytest

from redisson_py._lease.hold import Hold, lease_end
from redisson_py._lease.watchdog import BATCH, Watchdog
from redisson_py._scripts.source import Arg, Script
from redisson_py.errors import BackendError, ClientClosedError, ConnectionLostError
from tests.unit.fakes import RENEW, FakeClock, FakeResource, fake_task, make_hold, make_lease

LEASE = 30.0


@dataclass
class Renewal:
    """One batch that was asked for; the test says what Redis answers."""

    script: Script
    keys: list[bytes]
    owners: list[str]
    seconds: float
    values: dict[str, Arg]
    future: asyncio.Future[list[int]]

    async def answer(self, *renewed: int) -> None:
        self.future.set_result([*renewed])
        await asyncio.sleep(0)

    async def fail(self, error: BackendError) -> None:
        self.future.set_exception(error)
        await asyncio.sleep(0)


class FakeExecutor:
    """Takes renewals down; `router.group` says which keys go together."""

    def __init__(self) -> None:
        self.renewals: list[Renewal] = []
        self.router = self
        self.closed = False
        self.groups: dict[bytes, int] = {}

    def group(self, key: bytes) -> int:
        return self.groups.get(key, 0)

    def start_batch(
        self, script: Script, keys: list[bytes], rest: list[str], seconds: float, **values: Arg
    ) -> Renewal:
        if self.closed:
            raise ClientClosedError("the client is closed")
        future = asyncio.get_running_loop().create_future()
        self.renewals.append(Renewal(script, keys, rest, seconds, values, future))
        return self.renewals[-1]


@dataclass
class Kennel:
    """A watchdog with everything it needs."""

    clock: FakeClock
    executor: FakeExecutor
    dog: Watchdog

    def hold(self, number: int = 1, **options: Any) -> Hold:
        """Have the watchdog keep a hold that was granted just now."""
        resource = options.pop("resource", None) or FakeResource(f"k{number}")
        ends_at = lease_end(self.clock.present, LEASE)
        hold = make_hold(resource, ends_at=ends_at, owner=f"c:{number}", **options)
        self.dog.add(hold)
        return hold

    @property
    def last(self) -> Renewal:
        return self.executor.renewals[-1]


@pytest.fixture
def kennel(monkeypatch: pytest.MonkeyPatch) -> Kennel:
    clock, executor = FakeClock(), FakeExecutor()
    clock.control_leases(monkeypatch)
    return Kennel(clock, executor, Watchdog(cast("Any", executor), LEASE))


async def test_a_hold_is_renewed_after_a_third_of_its_lease(kennel: Kennel) -> None:
    hold = kennel.hold()
    make_lease(hold)
    kennel.clock.sleep(LEASE / 3 - 0.01)
    assert kennel.executor.renewals == []
    kennel.clock.sleep(0.02)
    assert kennel.last.script is RENEW
    assert (kennel.last.keys, kennel.last.owners) == ([b"k1"], ["c:1"])
    assert kennel.last.values == {"lease_ms": 30_000}


async def test_an_answer_moves_the_end_from_when_it_was_asked_for(kennel: Kennel) -> None:
    hold = kennel.hold()
    make_lease(hold)
    kennel.clock.sleep(LEASE / 3)
    asked_at = kennel.clock.present
    kennel.clock.sleep(3.0)
    await kennel.last.answer(1)
    assert hold.ends_at == lease_end(asked_at, LEASE)
    assert kennel.dog.renewals == 1


async def test_a_hold_is_renewed_for_as_long_as_it_is_kept(kennel: Kennel) -> None:
    hold = kennel.hold()
    lease = make_lease(hold)
    for _ in range(100):
        kennel.clock.sleep(LEASE / 3)
        await kennel.last.answer(1)
    assert len(kennel.executor.renewals) == 100
    assert hold.held
    assert not lease.lost


async def test_holds_are_renewed_in_batches(kennel: Kennel) -> None:
    holds = [kennel.hold(number) for number in range(250)]
    for hold in holds:
        make_lease(hold)
    kennel.clock.sleep(LEASE / 3)
    assert [len(renewal.keys) for renewal in kennel.executor.renewals] == [BATCH, BATCH, 50]
    assert [owner for renewal in kennel.executor.renewals for owner in renewal.owners] == [
        hold.owner for hold in holds
    ]


async def test_a_batch_holds_only_what_one_script_may_touch(kennel: Kennel) -> None:
    other = FakeResource("k9")
    other.renewal = Script("door.keep", 1, ("doors...",), ("lease_ms", "owners..."), "safe: x", "")
    kennel.executor.groups = {b"k2": 7}
    for hold in (kennel.hold(1), kennel.hold(2), kennel.hold(3), kennel.hold(9, resource=other)):
        make_lease(hold)
    kennel.clock.sleep(LEASE / 3)
    batches = {(each.script.name, *each.keys) for each in kennel.executor.renewals}
    assert batches == {("lock.renew", b"k1", b"k3"), ("lock.renew", b"k2"), ("door.keep", b"k9")}


async def test_not_the_owner_is_lost_at_once_and_only_that_hold(
    kennel: Kennel, caplog: pytest.LogCaptureFixture
) -> None:
    lost, kept = kennel.hold(1), kennel.hold(2)
    leases = [make_lease(lost), make_lease(kept)]
    kennel.clock.sleep(LEASE / 3)
    await kennel.last.answer(0, 1)
    assert [lease.lost for lease in leases] == [True, False]
    assert (lost.state, kept.state) == ("lost", "held")
    assert [*kennel.dog.holds] == [kept]
    assert kennel.dog.losses == 1
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage() == (
        "lost lock 'k1': Redis says somebody else holds it, or nobody"
        " (owner c:1, held for 10.000 s)"
    )


async def test_a_loss_is_told_to_whoever_waits_for_the_lock_here(kennel: Kennel) -> None:
    resource = FakeResource()
    hold = kennel.hold(resource=resource)
    make_lease(hold)
    kennel.clock.sleep(LEASE / 3)
    await kennel.last.answer(0)
    assert resource.ended == [hold]
    kennel.clock.sleep(10 * LEASE)
    assert resource.ended == [hold]
    assert len(kennel.executor.renewals) == 1


async def test_a_failed_renewal_is_unknown_and_asked_again_sooner(kennel: Kennel) -> None:
    hold = kennel.hold()
    lease = make_lease(hold)
    kennel.clock.sleep(LEASE / 3)
    await kennel.last.fail(ConnectionLostError("no answer", maybe_held=True))
    assert not lease.lost
    kennel.clock.sleep(LEASE / 30)
    assert len(kennel.executor.renewals) == 2
    await kennel.last.answer(1)
    assert hold.ends_at == lease_end(kennel.clock.present, LEASE)


@pytest.mark.parametrize(
    "error",
    [
        ConnectionLostError("no answer", maybe_held=False),
        BackendError("NOPERM"),
        BackendError("OOM"),
    ],
)
async def test_no_error_makes_a_lease_lost_before_its_end(
    kennel: Kennel, error: BackendError
) -> None:
    hold = kennel.hold()
    lease = make_lease(hold)
    ends_at = hold.ends_at
    while kennel.clock.present < ends_at - 0.5:
        kennel.clock.sleep(0.25)
        for renewal in kennel.executor.renewals:
            if not renewal.future.done():
                await renewal.fail(error)
        assert not lease.lost
    assert len(kennel.executor.renewals) > 10
    kennel.clock.sleep(ends_at - kennel.clock.present)
    assert lease.state == "lost"


async def test_a_renewal_is_given_up_in_time_to_ask_again(kennel: Kennel) -> None:
    make_lease(hold := kennel.hold())
    kennel.clock.sleep(LEASE / 3)
    assert kennel.clock.present + kennel.last.seconds + LEASE / 30 < hold.ends_at


async def test_a_hold_without_answers_is_lost_by_the_local_clock(
    kennel: Kennel, caplog: pytest.LogCaptureFixture
) -> None:
    hold = kennel.hold()
    lease = make_lease(hold)
    left = hold.ends_at - kennel.clock.present
    kennel.clock.sleep(left - 0.001)
    assert kennel.dog.losses == 0
    kennel.clock.sleep(0.002)
    assert lease.state == "lost"
    assert kennel.dog.losses == 1
    assert kennel.dog.holds == {}
    assert "it could not be renewed before its lease ended" in caplog.text
    kennel.clock.sleep(LEASE)
    assert kennel.clock.pending == []


async def test_a_lease_never_outlives_what_the_server_grants(kennel: Kennel) -> None:
    assert lease_end(0.0, LEASE) == pytest.approx(LEASE * 0.99 - 0.002)
    assert kennel.hold().ends_at < kennel.clock.present + LEASE


async def test_one_hold_that_ends_far_off_does_not_hide_the_loss_of_another(
    kennel: Kennel,
) -> None:
    far = kennel.hold(1)
    far.ends_at = kennel.clock.present + 3600
    make_lease(far)
    lease = make_lease(kennel.hold(2))
    kennel.clock.sleep(LEASE)
    assert lease.state == "lost"
    assert far.held


async def test_a_late_answer_does_not_raise_the_dead(kennel: Kennel) -> None:
    hold = kennel.hold()
    lease = make_lease(hold)
    kennel.clock.sleep(LEASE)
    assert lease.lost
    for renewal in kennel.executor.renewals:
        await renewal.answer(1)
    assert lease.lost
    assert hold.state == "lost"
    assert kennel.dog.holds == {}


async def test_nothing_is_renewed_after_it_was_removed(kennel: Kennel) -> None:
    gone, kept = kennel.hold(1), kennel.hold(2)
    make_lease(gone)
    make_lease(kept)
    kennel.clock.sleep(LEASE / 3)
    kennel.dog.remove(gone)
    await kennel.last.answer(0, 1)
    assert gone.state == "held", "it is being released; that Redis has it no more is no loss"
    for _ in range(5):
        kennel.clock.sleep(LEASE / 3)
        assert kennel.last.keys == [b"k2"]
        await kennel.last.answer(1)
    kennel.dog.remove(kept)
    asked = len(kennel.executor.renewals)
    kennel.clock.sleep(10 * LEASE)
    assert len(kennel.executor.renewals) == asked
    assert kennel.clock.pending == []


async def test_a_failure_that_comes_after_the_removal_asks_nothing(kennel: Kennel) -> None:
    hold = kennel.hold()
    make_lease(hold)
    kennel.clock.sleep(LEASE / 3)
    kennel.dog.remove(hold)
    await kennel.last.fail(ConnectionLostError("no answer", maybe_held=True))
    kennel.clock.sleep(LEASE)
    assert len(kennel.executor.renewals) == 1
    assert hold.state == "held"


async def test_a_lease_of_its_own_is_not_renewed_and_ends(kennel: Kennel) -> None:
    hold = kennel.hold(watched=False)
    lease = make_lease(hold)
    kennel.dog.limit(lease, kennel.clock.present + 5.0)
    kennel.clock.sleep(4.999)
    assert lease.state == "held"
    kennel.clock.sleep(0.002)
    assert (lease.state, hold.state) == ("lost", "lost")
    assert kennel.executor.renewals == []
    assert kennel.dog.losses == 1


async def test_a_limit_inside_a_renewed_hold_ends_that_lease_alone(kennel: Kennel) -> None:
    hold = kennel.hold()
    outer, inner = make_lease(hold), make_lease(hold)
    kennel.dog.limit(inner, kennel.clock.present + 5.0)
    kennel.clock.sleep(5.0)
    assert (outer.state, inner.state, hold.state) == ("held", "lost", "held")
    assert kennel.dog.losses == 1
    kennel.clock.sleep(LEASE / 3)
    assert kennel.last.owners == ["c:1"]


async def test_renewal_can_begin_and_end_while_it_is_held(kennel: Kennel) -> None:
    hold = kennel.hold(watched=False)
    make_lease(hold)
    kennel.dog.set_watched(hold, True)
    kennel.clock.sleep(LEASE / 3)
    await kennel.last.answer(1)
    kennel.dog.set_watched(hold, False)
    kennel.clock.sleep(LEASE / 2)
    assert len(kennel.executor.renewals) == 1


async def test_a_hold_that_nobody_can_release_is_abandoned_with_a_warning(
    kennel: Kennel, caplog: pytest.LogCaptureFixture
) -> None:
    resource, task = FakeResource("orders"), fake_task()
    hold = kennel.hold(7, resource=resource, task=task)
    make_lease(hold)
    task.ended = True
    gc.collect()
    kennel.clock.sleep(LEASE / 3)
    assert kennel.executor.renewals == []
    assert kennel.dog.holds == {}
    assert resource.ended == [hold]
    assert [record.getMessage() for record in caplog.records] == [
        "lock 'orders' is not renewed any more: its task ended and nobody can release it"
        " (owner c:7)"
    ]


async def test_a_lease_that_somebody_keeps_is_renewed_though_its_task_ended(
    kennel: Kennel,
) -> None:
    task = fake_task()
    hold = kennel.hold(task=task)
    lease = make_lease(hold)
    task.ended = True
    kennel.clock.sleep(LEASE / 3)
    await kennel.last.answer(1)
    assert not lease.lost
    assert hold.all_leases() == [lease]


async def test_a_blocked_loop_is_told_with_its_duration(
    kennel: Kennel, caplog: pytest.LogCaptureFixture
) -> None:
    make_lease(kennel.hold())
    kennel.clock.block(12.5)
    assert "the event loop was blocked, or the machine asleep, for 11.500 s" in caplog.text


async def test_a_loop_blocked_past_the_end_finds_the_lease_lost_first(kennel: Kennel) -> None:
    lease = make_lease(kennel.hold())
    kennel.clock.block(LEASE)
    assert lease.state == "lost"
    assert kennel.executor.renewals == []


async def test_a_closed_client_asks_nothing_and_says_so_once(
    kennel: Kennel, caplog: pytest.LogCaptureFixture
) -> None:
    make_lease(kennel.hold())
    kennel.executor.closed = True
    kennel.clock.sleep(LEASE / 3)
    assert "renewal failed: the client is closed" in caplog.text
    kennel.dog.close()
    assert kennel.clock.pending == []


async def test_the_watchdog_never_sleeps_long_while_something_is_held(kennel: Kennel) -> None:
    """Timers stand still while the machine is suspended; leases do not."""
    make_lease(kennel.hold())
    (moment,) = kennel.clock.pending
    assert moment - kennel.clock.present <= 1.0


async def test_any_number_of_holds_share_one_timer(kennel: Kennel) -> None:
    for number in range(50):
        make_lease(hold := kennel.hold(number))
        kennel.dog.limit(hold.leases[0], kennel.clock.present + 50 - number)
        assert len(kennel.clock.pending) == 1
