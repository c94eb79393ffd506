"""The watchdog renews in time, says lost only when it knows, and never touches what left it."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest
from redisson_py._lease.hold import lease_end
from redisson_py._lease.watchdog import BATCH, Watchdog

from redisson_py._scripts.source import Script
from redisson_py.errors import BackendError, ConnectionLostError
from tests.unit.fakes import RENEW, FakeResource, make_lease
from tests.unit.kennel import LEASE, Kennel, new_kennel


@pytest.fixture
def kennel(monkeypatch: pytest.MonkeyPatch) -> Kennel:
    return new_kennel(monkeypatch)


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
    other._renewal = Script("door.keep", 1, ("doors...",), ("lease_ms", "owners..."), "safe: x", "")
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


async def test_a_failed_renewal_of_a_short_lease_is_not_left_until_the_next_round(
    kennel: Kennel,
) -> None:
    kennel.dog = Watchdog(cast("Any", kennel.executor), 3.0)
    hold = kennel.hold()
    make_lease(hold)
    kennel.clock.sleep(1.0)
    await kennel.last.fail(ConnectionLostError("no answer", maybe_held=True))
    kennel.clock.sleep(0.1)
    assert len(kennel.executor.renewals) == 2


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
    assert lease._state == "lost"


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
    assert lease._state == "lost"
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
    assert lease._state == "lost"
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


async def test_after_closing_an_answer_changes_nothing_any_more(kennel: Kennel) -> None:
    kennel.hold()
    kennel.clock.sleep(LEASE / 3)
    kennel.dog.close()
    await kennel.last.fail(ConnectionLostError("gone", maybe_held=False))
    assert kennel.clock.pending == []
    assert kennel.dog.losses == 0
