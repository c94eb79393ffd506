"""A `max_hold`: how far renewals reach, and why it is over."""

from __future__ import annotations

from tests.unit.fakes import LEASE, make_lease
from tests.unit.watchdog_setup import Setup


async def test_no_renewal_reaches_beyond_it(setup: Setup) -> None:
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


async def test_it_ended_though_the_event_loop_was_blocked_then(setup: Setup) -> None:
    lease = make_lease(setup.hold())
    lease._keep_for(LEASE / 2)
    setup.clock.block(2 * LEASE)
    assert lease._loss().reason == "ended"


async def test_it_ended_though_the_server_keeps_a_bit_less(setup: Setup) -> None:
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


async def test_it_expired_if_renewals_failed_long_before(setup: Setup) -> None:
    lease = make_lease(setup.hold())
    lease._keep_for(10 * LEASE)
    setup.clock.block(20 * LEASE)
    assert lease._loss().reason == "expired"
