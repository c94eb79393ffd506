"""Ends that are not the watchdog's own: limits, moved ends, abandoned holds, a blocked loop."""

from __future__ import annotations

import gc

import pytest

from redisson_py._lease.hold import lease_end
from tests.unit.fakes import FakeResource, fake_task, make_lease
from tests.unit.kennel import LEASE, Kennel, new_kennel

#: An end between two ticks: the watchdog looks at its clock every second anyway.
END = 5.37


@pytest.fixture
def kennel(monkeypatch: pytest.MonkeyPatch) -> Kennel:
    return new_kennel(monkeypatch)


async def test_a_lease_of_its_own_is_not_renewed_and_ends(kennel: Kennel) -> None:
    hold = kennel.hold(watched=False)
    lease = make_lease(hold)
    kennel.dog.limit(lease, kennel.clock.present + END)
    kennel.clock.sleep(END - 0.001)
    assert lease._state == "held"
    kennel.clock.sleep(0.002)
    assert (lease._state, hold.state) == ("lost", "lost")
    assert kennel.executor.renewals == []
    assert kennel.dog.losses == 1


async def test_a_limit_inside_a_renewed_hold_ends_that_lease_alone(kennel: Kennel) -> None:
    hold = kennel.hold()
    outer, inner = make_lease(hold), make_lease(hold)
    kennel.dog.limit(inner, kennel.clock.present + END)
    kennel.clock.sleep(END - 0.001)
    assert inner._state == "held"
    kennel.clock.sleep(0.002)
    assert (outer._state, inner._state, hold.state) == ("held", "lost", "held")
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


async def test_an_end_that_moved_nearer_is_noticed_at_its_moment(kennel: Kennel) -> None:
    hold = kennel.hold()
    lease = make_lease(hold)
    kennel.dog.set_end(hold, kennel.clock.present + 3600)
    kennel.dog.set_end(hold, kennel.clock.present + END)
    kennel.clock.sleep(END - 0.001)
    assert kennel.dog.losses == 0
    kennel.clock.sleep(0.002)
    assert lease._state == "lost"


async def test_an_end_that_moves_to_and_fro_keeps_no_other_from_renewal(kennel: Kennel) -> None:
    """A task that re-enters its lock with a long lease, and releases that, again and again."""
    busy, other = kennel.hold(1), kennel.hold(2)
    make_lease(busy)
    lease = make_lease(other)
    for _ in range(20):
        kennel.dog.set_end(busy, kennel.clock.present + 3600)
        kennel.dog.set_end(busy, lease_end(kennel.clock.present, LEASE))
        kennel.clock.sleep(LEASE / 10)
        for renewal in kennel.executor.renewals:
            if not renewal.future.done():
                await renewal.answer(*[1] * len(renewal.keys))
    assert lease._state == "held"
    assert kennel.executor.renewals


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
    assert lease._state == "lost"
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
