"""When leases end: those with a time or a `max_hold`, and all in a blocked event loop."""

from __future__ import annotations

import asyncio
import cProfile
import gc
import random
import weakref
from collections.abc import Callable

import pytest

from redisson_py._engine.hold import Hold, Lease
from redisson_py.errors import ConnectionLostError
from tests.unit.fakes import LEASE, fake_task, make_hold, make_lease
from tests.unit.watchdog_setup import Setup, new_setup

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


async def test_a_lease_with_an_end_is_not_renewed_after_the_release_of_the_other(
    setup: Setup,
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


async def test_it_is_reported_with_its_duration(
    setup: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    make_lease(setup.hold())
    setup.clock.block(12.5)
    assert "the event loop was blocked, or the machine suspended, for 11.500 s" in caplog.text


@pytest.mark.parametrize("granted_late", [0.0, LEASE * 0.6])
async def test_past_the_end_the_loss_comes_before_any_renewal(
    setup: Setup, granted_late: float
) -> None:
    lease = make_lease(setup.hold(sent_at=setup.clock.present - granted_late))
    setup.clock.block(LEASE)
    assert lease._state == "lost"
    assert setup.executor.renewals == []


@pytest.mark.parametrize("share", [0.5, 0.51, 0.52, 0.53, 0.54])
async def test_a_hold_that_is_asked_after_ends_before_it_is_asked_after(
    setup: Setup, share: float
) -> None:
    hold = setup.shared(1, LEASE * share)
    lease = make_lease(hold, limit=hold.ends_at)
    setup.clock.block(LEASE * share)
    assert lease._state == "lost"
    assert setup.executor.renewals == []


async def test_it_is_asked_after_as_often_as_others_are_renewed(setup: Setup) -> None:
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


async def test_a_read_is_renewed_no_longer_than_the_write_hold_it_is_under(setup: Setup) -> None:
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


async def test_what_was_released_is_not_kept_until_its_end(setup: Setup) -> None:
    living = weakref.WeakSet[Hold]()
    for number in range(1000):
        living.add(hold := setup.hold(number, lease_time=3600.0, renewed=False))
        hold.end("released")
    del hold
    gc.collect()
    assert len(living) <= 100


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


@pytest.mark.parametrize(("max_hold", "reason"), [(LEASE / 2, "ended"), (10 * LEASE, "expired")])
async def test_why_it_has_ended_after_a_blocked_event_loop(
    setup: Setup, max_hold: float, reason: str
) -> None:
    lease = make_lease(setup.hold())
    lease._keep_for(max_hold)
    setup.clock.block(20 * LEASE)
    assert lease._loss().reason == reason


async def test_no_renewal_reaches_beyond_a_max_hold(setup: Setup) -> None:
    hold, present = setup.hold(), setup.clock.present
    lease = make_lease(hold)
    lease._keep_for(1.5 * LEASE)
    end = lease._limit
    assert end is not None
    assert present + 1.4 * LEASE < end < present + 1.5 * LEASE
    asked = []
    while hold.state == "held":
        setup.clock.sleep(LEASE / 100)
        for renewal in setup.executor.unanswered:
            ms = renewal.values["lease_ms"]
            assert isinstance(ms, int)
            asked.append(ms)
            assert setup.clock.present + ms / 1000 <= present + 1.5 * LEASE + LEASE / 100
            await renewal.answer(1)
        hold.check()
        setup.watchdog.check()
    assert asked[0] == LEASE * 1000
    assert asked == sorted(asked, reverse=True)
    assert asked[-1] < LEASE * 1000 / 2
    assert end <= setup.clock.present <= end + LEASE / 50
    assert lease._loss().reason == "ended"
    assert setup.context.losses == 1


async def test_a_max_hold_ended_though_the_server_keeps_a_bit_less(setup: Setup) -> None:
    hold = setup.hold()
    lease = make_lease(hold)
    lease._keep_for(LEASE / 2)
    # A store answers late, and with what is left then.
    hold.lease_set(setup.clock.present - 0.03, LEASE / 2)
    while hold.state == "held":
        setup.clock.sleep(LEASE / 1000)
        hold.check()
        setup.watchdog.check()
    assert lease._limit is not None
    assert setup.clock.present < lease._limit
    assert lease._loss().reason == "ended"


async def random_ends(setup: Setup, dice: random.Random) -> None:
    """Let holds with all kinds of ends come and go, and the server answer or not."""
    leases: list[Lease] = []
    for number in range(60):
        match dice.choice(["renew", "limit", "move", "release", "go", "go", "answer", "fail"]):
            case "renew":
                leases.append(make_lease(setup.hold(number)))
            case "limit":
                seconds = dice.choice([0.7, END, LEASE, 3600.0])
                hold = setup.hold(number, lease_time=seconds, renewed=False)
                leases.append(make_lease(hold, limit=hold.ends_at))
            case "move" if leases:
                hold = dice.choice(leases)._hold
                if hold.state == "held":
                    hold.lease_set(setup.clock.present, dice.choice([0.9, END, 3600.0]))
            case "release" if leases:
                lease = dice.choice(leases)
                if lease._state == "held":
                    await lease.release()
                    leases.remove(lease)
            case "go":
                pass_time = dice.choice([setup.clock.sleep, setup.clock.block])
                pass_time(dice.choice([0.01, 1.0, LEASE / 3, LEASE * 0.9]))
            case "answer":
                await setup.executor.answer_all()
            case "fail":
                for renewal in setup.executor.unanswered:
                    await renewal.fail(ConnectionLostError("no answer", maybe_held=True))
        setup.watchdog.check()
        for lease in leases:
            lease._hold.check()
            if lease._state == "held":
                # A timer is for a millisecond or more.
                assert setup.clock.present <= lease._ends_at + 0.001
            else:
                assert setup.clock.present >= lease._ends_at
        assert setup.context.losses == sum(lease._state == "lost" for lease in leases)


@pytest.mark.parametrize("part", range(3))
def test_each_lease_is_lost_at_its_end_whatever_happens_to_others(part: int) -> None:
    for seed in range(part, 300, 3):
        with pytest.MonkeyPatch.context() as patch:
            asyncio.run(random_ends(new_setup(patch), random.Random(seed)))
