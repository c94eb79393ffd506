"""What the watchdog tells of renewals: which are late, and which records are warnings."""

from __future__ import annotations

import logging

import pytest

from redisson_py import RenewedLateEvent
from redisson_py._listener import Teller
from redisson_py._stream.call import ReplyError
from redisson_py.errors import ConnectionLostError
from tests.support.recorder import Recorder
from tests.unit.fakes import LEASE, make_lease
from tests.unit.watchdog_setup import Setup

NO_ANSWER = ConnectionLostError("no answer", maybe_held=True)


@pytest.mark.parametrize(("late", "counted"), [(LEASE / 3 - 0.1, 0), (LEASE / 3 + 0.1, 1)])
async def test_a_renewal_with_less_than_a_third_left_is_late(
    setup: Setup, late: float, counted: int
) -> None:
    told = Recorder()
    setup.context.teller = Teller(told)
    hold = setup.hold(1)
    lease = make_lease(hold)
    setup.clock.sleep(LEASE / 3)
    setup.clock.sleep(late)
    remaining = lease.remaining
    await setup.last.answer(1)
    assert setup.context.counts.late_renewals == len(told.events) == counted
    for event in told.events:
        assert event == RenewedLateEvent("k1", "lock", "c:1", event.late, remaining)
        assert event.late == pytest.approx(late)
    # In time again.
    setup.clock.sleep(LEASE / 3)
    await setup.executor.answer_all()
    assert len(told.events) == counted


@pytest.mark.parametrize(
    ("error", "level", "text"),
    [
        (NO_ANSWER, logging.DEBUG, "1 leases are not renewed yet; trying again: "),
        (ReplyError("NOPERM"), logging.WARNING, "the server refused to renew 1 leases, among them"),
    ],
)
async def test_only_a_refused_renewal_is_a_warning(
    setup: Setup, error: Exception, level: int, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "redisson_py")
    make_lease(setup.hold(1))
    setup.clock.sleep(LEASE / 3)
    await setup.last.fail(error)
    (record,) = caplog.records
    assert record.levelno == level
    assert record.getMessage().startswith(text)
