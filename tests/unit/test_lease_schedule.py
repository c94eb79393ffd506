"""When holds are renewed and when leases end: decisions without a clock of their own."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from redisson_py._lease.hold import Hold
from redisson_py._lease.lease import Lease
from redisson_py._lease.schedule import LeaseSchedule

from tests.unit.fakes import FakeResource, make_hold, make_lease

LEASE = 30.0
PERIOD = LEASE / 3
BATCH = 100


def watched(schedule: LeaseSchedule, count: int, at: float = 0.0) -> list[Hold]:
    """Have the schedule watch holds that were granted at a moment."""
    resource = FakeResource()
    holds = [make_hold(resource, ends_at=at + LEASE, owner=f"c:{i}") for i in range(count)]
    for hold in holds:
        schedule.watch(hold, at)
    return holds


def limited(schedule: LeaseSchedule, ends_at: float) -> Lease:
    lease = make_lease(make_hold(ends_at=1e9, watched=False))
    lease._set_limit(ends_at)
    schedule.limit(lease, ends_at)
    return lease


def test_nothing_to_do_is_idle() -> None:
    schedule = LeaseSchedule(PERIOD)
    assert schedule.idle()
    assert schedule.next_event() is None
    assert schedule.take_due(1e9, BATCH) == []
    assert schedule.take_ended(1e9) == ([], [])


def test_a_hold_is_due_after_a_period_and_not_before() -> None:
    schedule = LeaseSchedule(PERIOD)
    (hold,) = watched(schedule, 1)
    assert not schedule.idle()
    assert schedule.next_event() == PERIOD
    assert schedule.take_due(PERIOD - 0.001, BATCH) == []
    assert schedule.take_due(PERIOD, BATCH) == [hold]


def test_a_hold_that_was_taken_is_due_again_a_period_later() -> None:
    schedule = LeaseSchedule(PERIOD)
    (hold,) = watched(schedule, 1)
    schedule.take_due(PERIOD, BATCH)
    schedule.renewed(hold, PERIOD + LEASE)
    assert schedule.take_due(PERIOD, BATCH) == []
    assert schedule.next_event() == 2 * PERIOD
    assert schedule.take_due(2 * PERIOD, BATCH) == [hold]


def test_a_renewal_moves_the_end_outward_and_never_back() -> None:
    schedule = LeaseSchedule(PERIOD)
    (hold,) = watched(schedule, 1)
    schedule.renewed(hold, 40.0)
    assert hold.ends_at == 40.0
    schedule.renewed(hold, 35.0)
    assert hold.ends_at == 40.0


def test_a_hold_that_is_not_watched_any_more_is_neither_due_nor_ended() -> None:
    schedule = LeaseSchedule(PERIOD)
    gone, kept = watched(schedule, 2)
    schedule.unwatch(gone)
    assert schedule.take_due(PERIOD, BATCH) == [kept]
    assert schedule.take_ended(LEASE) == ([kept], [])
    schedule.unwatch(kept)
    schedule.unwatch(kept)
    assert schedule.idle()


def test_a_late_answer_about_a_hold_that_left_changes_nothing() -> None:
    schedule = LeaseSchedule(PERIOD)
    (hold,) = watched(schedule, 1)
    schedule.unwatch(hold)
    schedule.renewed(hold, 99.0)
    schedule.failed([hold], 5.0)
    assert hold.ends_at == LEASE
    assert schedule.idle()
    assert schedule.next_event() is None


def test_a_hold_that_was_not_renewed_ends() -> None:
    schedule = LeaseSchedule(PERIOD)
    early, late = watched(schedule, 2)
    schedule.renewed(late, 40.0)
    assert schedule.take_ended(LEASE - 0.001) == ([], [])
    assert schedule.take_ended(LEASE) == ([early], [])


def test_a_failed_renewal_is_repeated_sooner_and_first() -> None:
    schedule = LeaseSchedule(PERIOD)
    failed, other = watched(schedule, 2)
    schedule.take_due(PERIOD, BATCH)
    schedule.failed([failed], 11.0)
    assert schedule.next_event() == 11.0
    assert schedule.take_due(10.9, BATCH) == []
    assert schedule.take_due(11.0, 1) == [failed]
    schedule.unwatch(failed)
    assert schedule.take_due(2 * PERIOD, BATCH) == [other]


def test_every_failed_renewal_is_repeated_until_the_end() -> None:
    schedule = LeaseSchedule(PERIOD)
    (hold,) = watched(schedule, 1)
    asked = 0
    moment = PERIOD
    while moment < LEASE:
        asked += len(schedule.take_due(moment, BATCH))
        schedule.failed([hold], moment + 1.0)
        moment += 1.0
    assert asked == LEASE - PERIOD
    assert schedule.take_ended(LEASE) == ([hold], [])


def test_the_next_event_is_the_end_where_that_comes_before_the_renewal() -> None:
    schedule = LeaseSchedule(PERIOD)
    hold = make_hold(ends_at=LEASE - 0.3)
    schedule.watch(hold, 0.0)
    for moment in (PERIOD, 2 * PERIOD):
        assert schedule.take_due(moment, BATCH) == [hold]
    assert schedule.next_event() == LEASE - 0.3


def test_holds_due_soon_are_renewed_with_those_due_now() -> None:
    schedule = LeaseSchedule(PERIOD)
    now, soon = watched(schedule, 1, at=0.0) + watched(schedule, 1, at=PERIOD / 10)
    assert schedule.take_due(PERIOD, BATCH) == [now, soon]


def test_a_batch_that_is_begun_is_filled_up() -> None:
    schedule = LeaseSchedule(PERIOD)
    holds = watched(schedule, 10) + watched(schedule, 10, at=PERIOD * 0.4)
    assert schedule.take_due(PERIOD, BATCH) == holds


def test_a_full_batch_does_not_begin_another_long_before_its_time() -> None:
    schedule = LeaseSchedule(PERIOD)
    first = watched(schedule, BATCH)
    watched(schedule, 10, at=PERIOD * 0.4)
    assert schedule.take_due(PERIOD, BATCH) == first


def test_no_hold_is_renewed_in_the_first_half_of_its_period() -> None:
    schedule = LeaseSchedule(PERIOD)
    first = watched(schedule, 1)
    watched(schedule, 1, at=PERIOD * 0.6)
    assert schedule.take_due(PERIOD, BATCH) == first


def test_ten_thousand_holds_cost_a_hundred_full_batches_a_period() -> None:
    schedule = LeaseSchedule(PERIOD)
    dice = random.Random(1)
    moments = sorted(dice.uniform(0, PERIOD) for _ in range(10_000))
    holds = [hold for at in moments for hold in watched(schedule, 1, at=at)]
    moment = PERIOD
    batches: list[list[Hold]] = []
    for _ in range(3):
        end = moment + PERIOD
        count = len(batches)
        while (following := schedule.next_event()) is not None and following < end:
            moment = max(moment, following)
            taken = schedule.take_due(moment, BATCH)
            batches += [taken[i : i + BATCH] for i in range(0, len(taken), BATCH)]
            for hold in taken:
                schedule.renewed(hold, moment + LEASE)
        moment = end
        # The first round gathers what was granted one by one; after that batches are full.
        assert 100 <= len(batches) - count <= (200 if count == 0 else 101)
    assert {len(batch) for batch in batches[-100:]} == {BATCH}
    assert schedule.take_ended(moment) == ([], [])
    assert {*schedule.watched} == {*holds}


def test_a_lease_of_its_own_ends_at_its_moment() -> None:
    schedule = LeaseSchedule(PERIOD)
    late, early = limited(schedule, 9.0), limited(schedule, 3.0)
    assert schedule.next_event() == 3.0
    assert schedule.take_ended(2.999) == ([], [])
    assert schedule.take_ended(3.0) == ([], [early])
    assert schedule.take_ended(100.0) == ([], [late])
    assert schedule.idle()


def test_a_lease_that_was_extended_ends_at_its_new_moment_only() -> None:
    schedule = LeaseSchedule(PERIOD)
    lease = limited(schedule, 3.0)
    lease._set_limit(9.0)
    schedule.limit(lease, 9.0)
    assert schedule.take_ended(5.0) == ([], [])
    assert schedule.take_ended(9.0) == ([], [lease])


def test_a_lease_that_was_shortened_ends_at_its_new_moment_only() -> None:
    schedule = LeaseSchedule(PERIOD)
    lease = limited(schedule, 9.0)
    lease._set_limit(3.0)
    schedule.limit(lease, 3.0)
    assert schedule.take_ended(3.0) == ([], [lease])
    lease._lose()
    assert schedule.take_ended(9.0) == ([], [])


@pytest.mark.parametrize("ending", [Lease._end, Lease._lose])
def test_a_lease_that_is_over_is_not_ended_again(ending: Callable[[Lease], object]) -> None:
    schedule = LeaseSchedule(PERIOD)
    ending(limited(schedule, 3.0))
    assert schedule.take_ended(3.0) == ([], [])
    assert schedule.idle()


def test_released_leases_do_not_pile_up() -> None:
    schedule = LeaseSchedule(PERIOD)
    kept = [limited(schedule, 1e6 + i) for i in range(10)]
    for number in range(10_000):
        limited(schedule, 1e6 + number)._end()
        assert len(schedule._ends) <= 200
    assert not schedule.idle()
    assert schedule.take_ended(2e6) == ([], kept)


def test_many_leases_in_force_are_not_swept_at_every_step() -> None:
    schedule = LeaseSchedule(PERIOD)
    sweeps = 0
    sweep = schedule._sweep

    def counted() -> None:
        nonlocal sweeps
        sweeps += 1
        sweep()

    schedule._sweep = counted  # type: ignore[method-assign]  # to count
    leases = [limited(schedule, 1e6 - number) for number in range(5_000)]
    assert sweeps < 20
    assert schedule.take_ended(1e6) == ([], leases[::-1])


@settings(deadline=None)
@given(data=st.data())
def test_ends_in_disorder_within_a_period_are_all_seen_in_time(data: st.DataObject) -> None:
    """Replies overtake each other; the order of the ends is that of the replies, roughly."""
    schedule = LeaseSchedule(PERIOD)
    holds = watched(schedule, data.draw(st.integers(1, 8)))
    moment = 0.0
    for _ in range(data.draw(st.integers(0, 12))):
        moment += data.draw(st.floats(0, PERIOD / 4))
        hold = data.draw(st.sampled_from(holds))
        asked_at = moment - data.draw(st.floats(0, PERIOD * 0.99))
        schedule.renewed(hold, asked_at + LEASE)
    for hold in sorted(holds, key=lambda each: each.ends_at):
        following = schedule.next_event()
        assert following is not None
        assert following <= max(hold.ends_at, moment)
        moment = max(moment, hold.ends_at)
        ended, _ = schedule.take_ended(moment)
        assert {*ended} == {other for other in schedule.watched if other.ends_at <= moment}
        assert hold in ended
        schedule.unwatch(hold)


@settings(deadline=None)
@given(data=st.data())
def test_every_end_is_seen_at_its_moment_whatever_the_ends(data: st.DataObject) -> None:
    """Ends far off and near, renewals that fail, answers that come late: as the watchdog asks."""
    schedule = LeaseSchedule(PERIOD)
    moment, under_way = 0.0, list[tuple[float, Hold, float | None]]()
    for _ in range(data.draw(st.integers(1, 40))):
        if data.draw(st.booleans()):
            left = data.draw(st.sampled_from([0.5, 4.0, 15.0, LEASE - 0.3, 100.0, 3600.0]))
            schedule.watch(make_hold(ends_at=moment + left), moment)
        following = schedule.next_event()
        if following is None:
            continue
        assert following <= min(hold.ends_at for hold in schedule.watched)
        moment = max(moment, min([following, *(arrival for arrival, _, _ in under_way)]))
        for answer in sorted(under_way, key=lambda each: each[0]):
            if answer[0] <= moment:
                under_way.remove(answer)
                _, hold, ends_at = answer
                if ends_at is None:
                    schedule.failed([hold], moment + PERIOD / 10)
                else:
                    schedule.renewed(hold, ends_at)
        ended, _ = schedule.take_ended(moment)
        assert {*ended} == {hold for hold in schedule.watched if hold.ends_at <= moment}
        for hold in ended:
            schedule.unwatch(hold)
        for hold in schedule.take_due(moment, BATCH):
            ends_at = moment + LEASE - 0.3 if data.draw(st.booleans()) else None
            under_way.append((moment + data.draw(st.floats(0, LEASE / 6)), hold, ends_at))


def test_a_hold_that_ends_much_later_hides_no_other() -> None:
    """A lease of an hour that was re-entered with the watchdog is watched, and ends far off."""
    schedule = LeaseSchedule(PERIOD)
    far = make_hold(ends_at=3600.0)
    schedule.watch(far, 0.0)
    (near,) = watched(schedule, 1)
    schedule.take_due(PERIOD, BATCH)
    schedule.take_due(2 * PERIOD, BATCH)
    following = schedule.next_event()
    assert following is not None
    assert following <= LEASE
    assert schedule.take_ended(LEASE) == ([near], [])


def test_a_hold_watched_again_with_little_left_ends_in_time() -> None:
    schedule = LeaseSchedule(PERIOD)
    watched(schedule, 3)
    short = make_hold(ends_at=2.0)
    schedule.watch(short, 0.0)
    following = schedule.next_event()
    assert following is not None
    assert following <= 2.0
    assert schedule.take_ended(2.0) == ([short], [])


def test_a_hold_that_is_watched_anew_holds_up_no_other() -> None:
    schedule = LeaseSchedule(PERIOD)
    again, other = watched(schedule, 2)
    schedule.watch(again, PERIOD / 2)
    assert schedule.next_event() == PERIOD
    assert other in schedule.take_due(PERIOD, BATCH)
