"""When holds are renewed and when leases end: decisions without a clock of their own."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redisson_py._engine.schedule import LeaseSchedule

LEASE = 30.0
PERIOD = LEASE / 3
#: The schedule may be early by a bucket, never late.
BUCKET = PERIOD / 16
BATCH = 100
MOST = 400


#: For how long the event loop is blocked: mostly not.
JUMPS = st.just(0.0) | st.sampled_from([1.0, PERIOD, LEASE]) | st.floats(0, 2 * PERIOD)


class FakeHold:
    """What the schedule knows of a hold, and how often it was asked for its end."""

    def __init__(self, ends_at: float = LEASE) -> None:
        self.bucket: dict[FakeHold, None] | None = None
        self.ends_row: float | None = None
        self.ends_at = ends_at
        self.asked = 0

    @property
    def earliest_end(self) -> float:
        self.asked += 1
        return self.ends_at


class Schedule:
    """A schedule, and the holds that it was given."""

    def __init__(self) -> None:
        self.real = LeaseSchedule(PERIOD)
        self.kept: dict[FakeHold, None] = {}

    def keep(self, at: float = 0.0, ends_at: float | None = None) -> FakeHold:
        """As `Watchdog.add` does for a hold that is renewed."""
        hold = FakeHold(at + LEASE if ends_at is None else ends_at)
        self.kept[hold] = None
        self.put(hold, at + PERIOD)
        if hold.ends_at < at + 2 * PERIOD:
            self.mind_end(hold)
        return hold

    def limited(self, ends_at: float) -> FakeHold:
        """As `Watchdog.add` does for a hold that ends by itself."""
        hold = FakeHold(ends_at)
        self.kept[hold] = None
        self.mind_end(hold)
        return hold

    def put(self, hold: FakeHold, due: float) -> None:
        self.real.put(cast("Any", hold), due)

    def mind_end(self, hold: FakeHold) -> None:
        self.real.mind_end(cast("Any", hold), hold.ends_at)

    def drop(self, hold: FakeHold) -> None:
        self.real.drop(cast("Any", hold))

    def forget(self, hold: FakeHold) -> None:
        self.kept.pop(hold, None)
        self.real.forget(cast("Any", hold))

    def due(self, now: float, most: int = MOST) -> list[FakeHold]:
        return cast("list[FakeHold]", self.real.take_due(now, BATCH, most))

    def ended(self, now: float) -> list[FakeHold]:
        return cast("list[FakeHold]", self.real.take_ended(now))

    def check(self) -> None:
        self.real.check(cast("Any", self.kept))


@pytest.fixture
def schedule() -> Schedule:
    return Schedule()


def test_a_renewed_hold_comes_up_once_a_period_for_ever(schedule: Schedule) -> None:
    holds = [schedule.keep(at=number * 0.37) for number in range(50)]
    taken = dict.fromkeys(holds, PERIOD / 2)
    counts = dict.fromkeys(holds, 0)
    moment, periods = 0.0, 40
    while moment < periods * PERIOD:
        following = schedule.real.next_event()
        assert following is not None
        moment = max(moment, following)
        assert schedule.ended(moment) == []
        for hold in schedule.due(moment):
            assert moment - taken[hold] > PERIOD / 2 - BUCKET, "renewed far too often"
            taken[hold], counts[hold] = moment, counts[hold] + 1
            hold.ends_at = moment + LEASE
        schedule.check()
    assert {*counts.values()} <= {*range(periods - 2, round(periods * 16 / 15) + 3)}
    # Asked where its row is to be put, once when it is taken and once when the row comes up.
    assert max(hold.asked for hold in holds) <= 3 * periods


def test_rows_of_what_was_released_do_not_pile_up(schedule: Schedule) -> None:
    kept = [schedule.limited(1e6 + number) for number in range(10)]
    for number in range(10_000):
        schedule.forget(schedule.limited(1e6 + number))
        assert len(schedule.real._ends) <= 100
    schedule.check()
    assert schedule.ended(2e6) == kept


@pytest.mark.parametrize(("end", "looked_at"), [(20.0, 20.0), (20.5, 21.0), (27.0, 28.0)])
def test_an_end_during_an_unconfirmed_renewal_is_seen_after_a_blocked_loop(
    schedule: Schedule, end: float, looked_at: float
) -> None:
    hold = schedule.keep(0.0, end)
    assert schedule.ended(PERIOD) == []
    assert schedule.due(PERIOD, 5) == [hold]
    assert schedule.ended(looked_at) == [hold]


@settings(deadline=None)
@given(data=st.data())
def test_it_does_what_a_list_of_moments_would(data: st.DataObject) -> None:
    """Against a naive list: renewals that fail, late answers, ends near and far, a blocked loop."""
    schedule = Schedule()
    due: dict[FakeHold, float] = {}
    moment = 0.0
    for _ in range(data.draw(st.integers(1, 40))):
        what = data.draw(st.sampled_from(["keep", "limit", "move", "forget", "fail", "go", "go"]))
        hold = data.draw(st.sampled_from([*schedule.kept])) if schedule.kept else None
        if what == "keep":
            left = data.draw(st.floats(0.5, 4 * LEASE))
            hold = schedule.keep(moment, moment + left)
            due[hold] = moment + PERIOD
        elif what == "limit":
            schedule.limited(moment + data.draw(st.floats(0.5, 4 * LEASE)))
        elif what == "move" and hold is not None:
            hold.ends_at = moment + data.draw(st.floats(0.5, 4 * LEASE))
            schedule.mind_end(hold)
        elif what == "forget" and hold is not None:
            schedule.forget(hold)
            due.pop(hold, None)
        elif what == "fail" and hold in due:
            due[hold] = moment + PERIOD / 10
            schedule.put(hold, due[hold])
        elif what == "go":
            following = schedule.real.next_event()
            first = min([*due.values(), *(each.ends_at for each in schedule.kept)], default=None)
            if following is None or first is None:
                assert first is None
                continue
            moment = max(moment, following) + data.draw(JUMPS)
            over = [each for each in schedule.kept if each.ends_at <= moment]
            ended = schedule.ended(moment)
            assert {*ended} == {*over}
            assert len(ended) == len(over)
            for each in ended:
                schedule.forget(each)
                due.pop(each, None)
            most = data.draw(st.integers(1, 5))
            taken = schedule.due(moment, most)
            assert len({*taken}) == len(taken) <= most
            assert all(due[each] <= moment + PERIOD / 2 + BUCKET for each in taken)
            left_over = [each for each, at in due.items() if at <= moment and each not in taken]
            assert not left_over or len(taken) == most
            due |= dict.fromkeys(taken, moment + PERIOD)
            confirmed = data.draw(st.integers(0, len(taken)))
            for each in taken[:confirmed]:
                each.ends_at = max(each.ends_at, moment + LEASE - 0.3)
        schedule.check()
