"""Ends that are not the watchdog's own: leases with a time, abandoned holds, a blocked loop."""

from __future__ import annotations

import cProfile
import gc
from collections.abc import Callable

import pytest

from redisson_py._engine.hold import Hold, Lease, lease_end
from tests.unit.fakes import LEASE, fake_task, make_hold, make_lease
from tests.unit.watchdog_setup import Setup

#: An end between two ticks: the watchdog looks at its clock every second anyway.
END = 5.37
LONG = 10 * LEASE


def limited(setup: Setup, hold: Hold, seconds: float) -> Lease:
    """Return a lease of a hold that ends by itself."""
    return make_lease(hold, limit=setup.clock.present + seconds)


async def test_a_hold_that_ends_by_itself_is_not_renewed(setup: Setup) -> None:
    hold = setup.hold(lease_time=END, renewed=False)
    lease = make_lease(hold, limit=hold.ends_at)
    setup.clock.sleep(hold.ends_at - setup.clock.present - 0.001)
    assert lease._state == "held"
    setup.clock.sleep(0.002)
    assert (lease._state, lease._reason, hold.state) == ("lost", "ended", "lost")
    assert setup.executor.renewals == []
    assert setup.context.losses == 1
    hold.check()


async def test_a_lease_that_ends_inside_a_renewed_hold_ends_alone(setup: Setup) -> None:
    hold = setup.hold()
    outer, inner = make_lease(hold), limited(setup, hold, END)
    setup.clock.sleep(END - 0.001)
    assert inner._state == "held"
    setup.clock.sleep(0.002)
    assert (outer._state, inner._state, hold.state) == ("held", "lost", "held")
    assert inner._reason == "ended"
    assert hold.ownership.lowered == [1], "Redis still counts it"  # type: ignore[attr-defined]
    assert setup.context.losses == 1
    hold.check()
    setup.clock.sleep(LEASE / 3)
    assert setup.last.owners == [b"c:1"]


async def test_the_last_of_several_leases_that_end_takes_the_hold_along(setup: Setup) -> None:
    hold = setup.hold()
    renewed, short = make_lease(hold), limited(setup, hold, END)
    await renewed.release()
    assert not hold.renewed
    setup.clock.sleep(END + 0.001)
    assert (short._state, short._reason, hold.state) == ("lost", "ended", "lost")
    assert setup.context.losses == 1
    hold.check()
    setup.watchdog.check()


async def test_renewal_begins_and_ends_with_the_leases_that_want_it(setup: Setup) -> None:
    hold = setup.hold(lease_time=LONG, renewed=False)
    make_lease(hold, limit=hold.ends_at)
    inner = make_lease(hold)
    assert hold.renewed
    setup.clock.sleep(LEASE / 3)
    await setup.last.answer(1)
    await inner.release()
    assert not hold.renewed
    setup.clock.sleep(LEASE)
    assert len(setup.executor.renewals) == 1
    hold.check()
    setup.watchdog.check()


async def test_an_end_that_moved_nearer_is_noticed_at_its_moment(setup: Setup) -> None:
    hold = setup.hold()
    lease = make_lease(hold)
    hold.lease_set(setup.clock.present, 3600)
    hold.lease_set(setup.clock.present, END)
    setup.clock.sleep(hold.ends_at - setup.clock.present - 0.001)
    assert setup.context.losses == 0
    setup.clock.sleep(0.002)
    assert lease._state == "lost"


async def test_a_hold_that_ends_far_off_does_not_hide_the_loss_of_another(setup: Setup) -> None:
    far = setup.hold(1, lease_time=3600)
    make_lease(far)
    lease = make_lease(setup.hold(2))
    setup.clock.sleep(LEASE)
    assert lease._state == "lost"
    assert far.valid


class TestAbandoned:
    @pytest.mark.parametrize("composed", [False, True])
    async def test_a_hold_that_nobody_can_release_is_lost_with_a_warning(
        self, setup: Setup, caplog: pytest.LogCaptureFixture, composed: bool
    ) -> None:
        ownership, task = setup.ownership("orders"), fake_task()
        hold = setup.hold(7, ownership=ownership, task=task)
        lease = make_lease(hold)
        if composed:
            # The composite is garbage already.
            lease._composite = lambda: None  # type: ignore[assignment]
        del lease
        task.ended = True
        gc.collect()
        setup.clock.sleep(LEASE / 3)
        assert setup.executor.renewals == []
        assert not setup.watchdog.holds
        assert ownership.ended == [hold]
        assert [record.getMessage() for record in caplog.records] == [
            "lock 'orders' is no longer renewed: its task ended without releasing it,"
            " and nothing else can release it (owner c:7)"
        ]
        hold.check()

    async def test_a_lease_that_somebody_keeps_and_gives_an_end_is_not_renewed(
        self, setup: Setup
    ) -> None:
        task = fake_task()
        hold = setup.hold(task=task)
        lease = make_lease(hold)
        task.ended = True
        setup.clock.sleep(LEASE / 3)
        await setup.executor.answer_all()
        lease._set_limit(setup.clock.present + LEASE)
        hold.reviewed()
        assert not hold.renewed
        hold.check()

    async def test_a_lease_with_an_end_is_not_renewed_after_the_release_of_the_other(
        self, setup: Setup
    ) -> None:
        task = fake_task()
        hold = setup.hold(task=task)
        renewed = make_lease(hold)
        limited = make_lease(hold, limit=setup.clock.present + 3 * LEASE)
        task.ended = True
        setup.clock.sleep(LEASE / 3)
        await setup.executor.answer_all()
        await renewed.release()
        assert hold.known_leases() == [limited]
        assert not hold.renewed
        hold.check()

    async def test_a_re_entry_under_way_keeps_a_hold(self, setup: Setup) -> None:
        task = fake_task()
        hold = setup.hold(task=task)
        make_lease(hold)
        hold.begin_reentry(LEASE)
        task.ended = True
        gc.collect()
        setup.clock.sleep(LEASE / 3)
        assert setup.last.owners == [b"c:1"]


class TestBlockedLoop:
    async def test_it_is_told_with_its_duration(
        self, setup: Setup, caplog: pytest.LogCaptureFixture
    ) -> None:
        make_lease(setup.hold())
        setup.clock.block(12.5)
        assert "the event loop was blocked, or the machine suspended, for 11.500 s" in caplog.text

    @pytest.mark.parametrize("granted_late", [0.0, LEASE * 0.6])
    async def test_past_the_end_the_loss_comes_before_any_renewal(
        self, setup: Setup, granted_late: float
    ) -> None:
        lease = make_lease(setup.hold(sent_at=setup.clock.present - granted_late))
        setup.clock.block(LEASE)
        assert lease._state == "lost"
        assert setup.executor.renewals == []

    @pytest.mark.parametrize("share", [0.5, 0.51, 0.52, 0.53, 0.54])
    async def test_a_hold_that_is_asked_after_ends_before_it_is_asked_after(
        self, setup: Setup, share: float
    ) -> None:
        hold = setup.shared(1, LEASE * share)
        lease = make_lease(hold, limit=hold.ends_at)
        setup.clock.block(LEASE * share)
        assert lease._state == "lost"
        assert setup.executor.renewals == []


class TestSharedLeases:
    """Holds that end by themselves, but whose end in Redis others may have brought nearer."""

    async def test_it_is_asked_after_as_often_as_others_are_renewed(self, setup: Setup) -> None:
        hold = setup.shared(1, LONG)
        lease = make_lease(hold, limit=hold.ends_at)
        ends_at = hold.ends_at
        for _ in range(3):
            setup.clock.sleep(LEASE / 3)
            assert (setup.last.owners, setup.last.values) == ([b"c:1"], {"lease_ms": 0})
            await setup.executor.answer_all()
        assert len(setup.executor.renewals) == 3
        assert (hold.ends_at, lease._state) == (ends_at, "held")
        assert setup.watchdog.renewals == 0

    async def test_it_ends_at_its_own_end_whatever_redis_says(self, setup: Setup) -> None:
        hold = setup.shared(1, LEASE)
        lease = make_lease(hold, limit=hold.ends_at)
        for _ in range(2):
            setup.clock.sleep(LEASE / 3)
            await setup.executor.answer_all()
        setup.clock.sleep(hold.ends_at - setup.clock.present - 0.01)
        assert not lease.lost
        setup.clock.sleep(0.02)
        assert (lease._state, lease._reason) == ("lost", "ended")
        assert setup.context.losses == 1
        asked = len(setup.executor.renewals)
        setup.clock.sleep(LONG)
        assert len(setup.executor.renewals) == asked

    async def test_it_is_asked_after_apart_from_those_that_are_renewed(self, setup: Setup) -> None:
        shared = setup.shared(1, LEASE)
        make_lease(shared, limit=shared.ends_at)
        make_lease(setup.hold(2))
        setup.clock.sleep(LEASE / 3)
        asked = {each.owners[0]: each.values["lease_ms"] for each in setup.executor.renewals}
        assert asked == {b"c:1": 0, b"c:2": 30_000}

    async def test_a_read_is_renewed_no_longer_than_the_write_hold_it_is_under(
        self, setup: Setup
    ) -> None:
        write = setup.hold(1, lease_time=LEASE, renewed=False)
        make_lease(write, limit=write.ends_at)
        read = make_hold(setup.ownership("k1"), owner="c:1", parent=write)
        make_lease(read)
        setup.clock.sleep(LEASE / 3)
        lease_ms = setup.last.values["lease_ms"]
        assert isinstance(lease_ms, int)
        assert lease_ms == pytest.approx(LEASE * 2000 / 3, abs=LEASE * 1000 / 48)


def calls(action: Callable[[], object]) -> int:
    """Return how many functions are called."""
    profile = cProfile.Profile()
    profile.runcall(action)
    return sum(entry.callcount for entry in profile.getstats())


async def test_ten_thousand_ended_leases_cost_nothing_afterwards(setup: Setup) -> None:
    make_lease(setup.hold(1))
    # A period with one hold, and the same with ten thousand beside it that nobody released.
    alone = calls(lambda: setup.clock.sleep(LEASE / 3))
    await setup.executor.answer_all()
    kept = []
    for number in range(2, 10_002):
        hold = setup.hold(number, lease_time=1.0 + number / 1e5, renewed=False)
        kept.append(make_lease(hold, limit=hold.ends_at))
    setup.clock.sleep(2.0)
    assert all(lease._state == "lost" for lease in kept)
    await setup.executor.answer_all()
    crowded = calls(lambda: setup.clock.sleep(LEASE / 3))
    assert crowded <= 2 * alone, (crowded, alone)


async def test_the_watchdog_never_sleeps_long_while_something_is_held(setup: Setup) -> None:
    """Timers stand still while the machine is suspended; leases do not."""
    make_lease(setup.hold())
    (moment,) = setup.clock.pending
    assert moment - setup.clock.present <= 1.0


async def test_a_timer_is_never_for_less_than_uvloop_can_tell_from_none(setup: Setup) -> None:
    """It would go off at once, and again and again until the moment has come."""
    hold = setup.hold()
    setup.clock.sleep(1)
    limited(setup, hold, 0.0004)
    (moment,) = setup.clock.pending
    assert moment - setup.clock.present == pytest.approx(0.001)


async def test_any_number_of_holds_share_one_timer(setup: Setup) -> None:
    for number in range(50):
        limited(setup, setup.hold(number), 50 - number)
        assert len(setup.clock.pending) == 1


async def test_a_lease_never_outlives_what_the_server_grants(setup: Setup) -> None:
    assert lease_end(0.0, LEASE) == pytest.approx(LEASE * 0.99 - 0.002)
    assert setup.hold().ends_at < setup.clock.present + LEASE
