"""A hold's transitions, and the invariants that `Hold.check()` looks for."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redisson_py._engine.hold import DRIFT_FLOOR, Hold, Reason, lease_end, lease_for
from redisson_py.errors import ConnectionLostError, LeaseLostError
from tests.unit.fakes import (
    LEASE,
    FakeClock,
    FakeOwnership,
    FakeWatchdog,
    fake_task,
    make_hold,
    make_lease,
)
from tests.unit.watchdog_setup import Setup, new_setup


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    clock = FakeClock()
    clock.control_leases(monkeypatch)
    return clock


@pytest.fixture
def ownership() -> FakeOwnership:
    return FakeOwnership()


@pytest.fixture
def hold(clock: FakeClock, ownership: FakeOwnership) -> Hold:
    """A renewed hold without a lease yet, as it is before its task has had its turn."""
    return make_hold(ownership)


def watchdog_of(hold: Hold) -> FakeWatchdog:
    return cast("FakeWatchdog", hold.ownership.context.watchdog)


def answered(result: object = None, *, uncertain: bool = False) -> Any:
    """Return a call that was answered, or failed."""
    future = asyncio.get_running_loop().create_future()
    if isinstance(result, Exception):
        future.set_exception(result)
        future.exception()
    else:
        future.set_result(result)
    return SimpleNamespace(future=future, uncertain=uncertain)


class TestLeases:
    def test_the_end_comes_before_that_of_the_server(self) -> None:
        assert lease_end(100.0, 10.0) == pytest.approx(109.9 - DRIFT_FLOOR)
        assert lease_end(5.0, lease_for(17.0, 5.0)) == pytest.approx(17.0)
        assert lease_for(3.0, 5.0) == 0.001

    async def test_the_count_is_that_of_leases_and_re_entries(self, hold: Hold) -> None:
        first = make_lease(hold)
        target, _ = hold.begin_reentry(LEASE)
        assert (target, hold.count) == (2, 2)
        await first.release()
        assert (hold.count, hold.state) == (1, "held"), "Redis counts the re-entry, or will"
        hold.end_reentry(uncertain=False)
        assert hold.count == 0
        hold.check()

    async def test_it_is_renewed_while_a_lease_without_an_end_holds(
        self, hold: Hold, clock: FakeClock
    ) -> None:
        renewed, limited = make_lease(hold), make_lease(hold, limit=clock.present + 5)
        assert hold.renewed
        assert hold.lease_needed(LEASE, clock.present) == LEASE
        assert hold.earliest_end == clock.present + 5
        await renewed.release()
        assert not hold.renewed
        assert lease_end(clock.present, hold.lease_needed(LEASE, clock.present)) == pytest.approx(
            clock.present + 5
        )
        limited._set_limit(None)
        hold.reviewed()
        assert hold.renewed
        hold.check()

    def test_a_re_entry_under_way_needs_the_whole_lease(self, hold: Hold, clock: FakeClock) -> None:
        make_lease(hold, limit=clock.present + 5)
        hold.begin_reentry(LEASE)
        assert hold.lease_needed(LEASE, clock.present) == LEASE

    def test_what_an_extension_wants_is_needed_already(self, hold: Hold, clock: FakeClock) -> None:
        lease = make_lease(hold, limit=clock.present + 5)
        hold.reviewed()
        lease._set_limit(clock.present + 5, clock.present + 50)
        assert hold.lease_needed(LEASE, clock.present) > 50

    def test_passed_it_has_another_task_and_no_lease(
        self, hold: Hold, ownership: FakeOwnership
    ) -> None:
        old = make_lease(hold)
        old._settle()
        task = fake_task()
        hold.id_read()
        hold.pass_to(cast("Any", weakref.ref(task)))
        assert ownership.forgotten == [hold]
        assert (hold.task(), hold.leases, hold.id_known) == (task, (), False)
        make_lease(hold)
        hold.check()

    def test_tokens_are_used_up_one_by_one(self, hold: Hold) -> None:
        assert hold.take_token() is None
        hold.bring_tokens(7, 2)
        assert [hold.take_token(), hold.take_token()] == [7, 8]
        assert hold.next_token == hold.last_token + 1


class TestRedis:
    """What Redis keeps of it."""

    def test_a_renewal_never_shortens(self, hold: Hold, clock: FakeClock) -> None:
        hold.renewal_confirmed(lease_end(clock.present, 60), clock.present + 60)
        assert (hold.ends_at, hold.lease_until) == (
            lease_end(clock.present, 60),
            clock.present + 60,
        )
        hold.renewal_confirmed(lease_end(clock.present, 10), clock.present + 10)
        assert hold.ends_at == lease_end(clock.present, 60)

    def test_a_lease_that_may_have_been_set_can_only_shorten(
        self, hold: Hold, clock: FakeClock
    ) -> None:
        before = hold.ends_at
        hold.lease_maybe_set(clock.present, 60)
        assert hold.ends_at == before
        hold.lease_maybe_set(clock.present, 1)
        assert hold.ends_at == lease_end(clock.present, 1)
        hold.lease_set(clock.present, 60)
        assert hold.ends_at == lease_end(clock.present, 60)
        assert hold.lease_until == clock.present + 60

    async def test_what_was_asked_for_may_last(self, hold: Hold, clock: FakeClock) -> None:
        hold.begin_reentry(60)
        hold.lease_set(clock.present, 5)
        assert hold.may_last_until > clock.present + 60, "the re-entry was not answered yet"
        hold.end_reentry(uncertain=False)
        hold.lease_set(clock.present, 5)
        assert hold.may_last_until == clock.present + 5

    async def test_redis_keeps_a_version_while_an_older_change_may_arrive(self, hold: Hold) -> None:
        first = hold.begin_change()
        assert not first.remembered, "nothing older is on its way"
        second = hold.begin_change()
        assert second.remembered
        assert second.number > first.number
        assert (hold.is_last_change(first), hold.is_last_change(second)) == (False, True)
        hold.end_change(answered())
        hold.end_change(answered())
        assert hold.begin_change().remembered is False
        hold.end_change(answered(uncertain=True))
        assert hold.uncertain
        assert hold.begin_change().remembered is True

    async def test_a_change_without_an_answer_makes_it_uncertain(self, hold: Hold) -> None:
        hold.begin_change()
        hold.end_change(answered(ConnectionLostError("gone", maybe_held=True)))
        assert hold.uncertain
        hold.check()

    def test_a_read_that_is_uncertain_makes_its_write_hold_so(self, hold: Hold) -> None:
        read = make_hold(FakeOwnership(), parent=hold)
        hold.count_read(1)
        read.became_uncertain()
        assert hold.uncertain
        read.end("released")
        assert hold.reads == 0

    def test_a_read_under_a_write_hold_that_ends_is_capped(
        self, hold: Hold, clock: FakeClock
    ) -> None:
        read = make_hold(FakeOwnership(), parent=hold)
        assert not read.capped
        make_lease(hold, limit=clock.present + 5)
        hold.reviewed()
        assert read.capped
        hold.count_read(1)
        hold.end("released")
        assert not read.capped, "its lease may be longer from now on"


class TestTheEnd:
    @pytest.mark.parametrize("reason", ["expired", "ended", "taken", "forced"])
    def test_lost_it_takes_its_leases_along_once(
        self, hold: Hold, ownership: FakeOwnership, reason: Reason, clock: FakeClock
    ) -> None:
        leases = [make_lease(hold), make_lease(hold)]
        clock.sleep(1.5)
        assert hold.lose(reason) == leases
        assert hold.lose("taken") == []
        assert (hold.state, ownership.ended) == ("lost", [hold])
        assert [lease._reason for lease in leases] == [reason] * 2
        with pytest.raises(LeaseLostError) as caught:
            leases[0].check()
        assert (caught.value.reason, caught.value.held_for) == (reason, 1.5)
        hold.check()

    def test_of_no_units_the_watchdog_knows_nothing(self, clock: FakeClock) -> None:
        nothing = make_hold(units=0)
        assert nothing not in watchdog_of(nothing).holds
        make_lease(nothing)
        nothing.check()


def never_watched(hold: Hold) -> None:
    del watchdog_of(hold).holds[hold]


def watched_although_over(hold: Hold) -> None:
    hold.lose("taken")
    watchdog_of(hold).holds[hold] = None


def a_lease_holds_although_it_is_over(hold: Hold) -> None:
    hold.lose("taken")
    hold.leases[0]._state = "held"


def due_although_it_is_over(hold: Hold) -> None:
    hold.lose("taken")
    hold.bucket = {}


def an_end_although_it_is_over(hold: Hold) -> None:
    hold.lose("taken")
    hold.ends_row = 7.0


def a_lease_of_another(hold: Hold) -> None:
    hold.leases += (make_lease(make_hold()),)


def a_lease_that_was_reported(hold: Hold) -> None:
    hold.leases[0]._told = True


def renewed_for_nobody(hold: Hold) -> None:
    hold.leases[0]._set_limit(1e9)


def not_renewed(hold: Hold) -> None:
    hold.renewed = False


def not_in_the_schedule(hold: Hold) -> None:
    hold.bucket = None


def a_re_entry_too_few(hold: Hold) -> None:
    hold.end_reentry(uncertain=False)


def a_read_too_few(hold: Hold) -> None:
    hold.count_read(-1)


@pytest.mark.parametrize(
    "spoil",
    [
        never_watched,
        watched_although_over,
        a_lease_holds_although_it_is_over,
        due_although_it_is_over,
        an_end_although_it_is_over,
        a_lease_of_another,
        a_lease_that_was_reported,
        renewed_for_nobody,
        not_renewed,
        not_in_the_schedule,
        a_re_entry_too_few,
        a_read_too_few,
    ],
)
def test_a_broken_invariant_is_found(hold: Hold, spoil: Callable[[Hold], object]) -> None:
    make_lease(hold)
    hold.check()
    spoil(hold)
    with pytest.raises(AssertionError):
        hold.check()


STEPS = (
    "reenter",
    "reenter with a time",
    "release",
    "report",
    "set an end",
    "set no end",
    "time",
    "time",
    "answer",
    "refuse",
    "lose",
    "suspend",
    "resume",
    "end the task",
    "lower",
)


async def walk(setup: Setup, data: st.DataObject) -> None:
    """Take a hold through random steps, as ownerships do; check it after each."""
    task = fake_task()
    hold = setup.hold(task=task)
    leases = [make_lease(hold)]
    was_over = False
    for _ in range(data.draw(st.integers(1, 30))):
        step = data.draw(st.sampled_from(STEPS))
        held = [lease for lease in leases if lease._state == "held"]
        lease = data.draw(st.sampled_from(held)) if held else None
        seconds = data.draw(st.sampled_from([0.3, 5.0, LEASE, 3 * LEASE]))
        if step.startswith("reenter") and hold.state == "held" and hold.count:
            hold.begin_reentry(LEASE)
            hold.end_reentry(uncertain=data.draw(st.booleans()))
            limit = setup.clock.present + seconds if step != "reenter" else None
            leases.append(make_lease(hold, limit=limit))
        elif step == "release" and lease is not None:
            await lease.release()
        elif step == "report" and leases:
            for over in [each for each in leases if each._state == "lost" and not each._told]:
                with pytest.raises(LeaseLostError):
                    await over.release()
        elif step == "set an end" and lease is not None:
            lease._set_limit(setup.clock.present + seconds)
            hold.reviewed()
        elif step == "set no end" and lease is not None:
            lease._set_limit(None)
            hold.reviewed()
        elif step == "time":
            setup.clock.sleep(seconds)
        elif step == "answer":
            await setup.executor.answer_all()
        elif step == "refuse":
            for renewal in setup.executor.unanswered:
                await renewal.answer(*[0] * len(renewal.owners))
        elif step == "lose":
            setup.watchdog.lose(hold, "forced")
        elif step == "suspend" and hold.state == "held":
            hold.suspend()
        elif step == "resume":
            hold.resume()
        elif step == "end the task":
            task.ended = True
        elif step == "lower" and hold.state == "held":
            hold.lease_maybe_set(setup.clock.present, seconds)
        hold.check()
        setup.watchdog.check()
        assert not (was_over and hold.state == "held"), "over is over"
        was_over = hold.state != "held"


@settings(deadline=None)
@given(data=st.data())
def test_every_invariant_holds_after_every_step(data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        asyncio.run(walk(new_setup(patch), data))
