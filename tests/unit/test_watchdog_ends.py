"""Ends that are not the watchdog's own: leases with a time, abandoned holds, a blocked loop."""

from __future__ import annotations

import cProfile
from collections.abc import Callable

import pytest

from redisson_py._engine.hold import Hold, Lease
from tests.unit.fakes import LEASE, fake_task, make_hold, make_lease
from tests.unit.watchdog_setup import Setup

#: An end between two ticks: the watchdog looks at its clock every second anyway.
END = 5.37
LONG = 10 * LEASE


def limited(setup: Setup, hold: Hold, seconds: float) -> Lease:
    """Return a lease of a hold that ends by itself."""
    return make_lease(hold, limit=setup.clock.present + seconds)


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
