"""The watchdog renews in time, says lost only when it knows, and never touches what left it."""

from __future__ import annotations

import gc
import logging

import pytest

from redisson_py import RenewedLateEvent
from redisson_py._engine.hold import lease_end
from redisson_py._engine.watchdog import _SPREAD_SHARE as SPREAD
from redisson_py._engine.watchdog import BATCH_HOLDS
from redisson_py._listener import Teller
from redisson_py._redis.scripts.source import parse
from redisson_py._redis.stream.call import ReplyError
from redisson_py.errors import BackendError, ConnectionLostError
from tests.support.recorder import Recorder
from tests.unit.fakes import LEASE, RENEW, FakeContext, make_lease
from tests.unit.watchdog_setup import Renewal, Setup

#: Another script that renews.
DOOR = """\
--! script   door.keep
--! version  1
--! keys     doors...:hash
--! args     lease_ms:int owners...:str
--! returns  array
--! retry    safe: a door that is kept stays so
"""

NO_ANSWER = ConnectionLostError("no answer", maybe_held=True)


async def test_a_hold_is_renewed_after_a_third_of_its_lease(setup: Setup) -> None:
    make_lease(setup.hold())
    # Early by a bucket of the schedule at most.
    setup.clock.sleep(LEASE / 3 - LEASE / 48 - 0.01)
    assert setup.executor.renewals == []
    setup.clock.sleep(LEASE / 48 + 0.02)
    assert setup.last.script is RENEW
    assert (setup.last.keys, setup.last.owners) == ([b"k1"], [b"c:1"])
    assert setup.last.values == {"lease_ms": 30_000}


async def test_an_answer_moves_the_end_from_when_it_was_asked_for(setup: Setup) -> None:
    hold = setup.hold()
    make_lease(hold)
    while not setup.executor.renewals:
        setup.clock.sleep(0.5)
    asked_at = setup.clock.present
    ends_at = hold.ends_at
    setup.clock.sleep(3.0)
    await setup.last.answer(1)
    assert ends_at < lease_end(asked_at - 0.5, LEASE) <= hold.ends_at <= lease_end(asked_at, LEASE)
    assert hold.lease_until == pytest.approx((hold.ends_at + 0.002) / 0.99, rel=0.01)
    assert setup.watchdog.renewals == 1


async def test_a_store_may_keep_a_hold_for_less_than_its_lease(setup: Setup) -> None:
    hold = setup.hold()
    make_lease(hold)
    while not setup.executor.renewals:
        setup.clock.sleep(0.5)
    ends_at, counts_from = hold.ends_at, setup.clock.present - 4
    setup.last.counts_from = counts_from
    await setup.last.answer(1)
    assert ends_at < hold.ends_at == lease_end(counts_from, LEASE)


@pytest.mark.parametrize(
    ("lease_time", "number", "rounds"),
    [
        (LEASE, 1900, [BATCH_HOLDS] * 19),
        # More a second: batches together rather than turns that follow without a pause,
        (1.0, 1900, [2 * BATCH_HOLDS] * 9 + [BATCH_HOLDS]),
        # up to so many that the event loop has nothing else to do meanwhile.
        (0.5, 10_500, [10 * BATCH_HOLDS] * 10 + [5 * BATCH_HOLDS]),
    ],
)
async def test_a_crowd_is_renewed_in_rounds_across_a_part_of_the_period(
    setup: Setup, lease_time: float, number: int, rounds: list[int]
) -> None:
    setup.context.watchdog = setup.new_watchdog(lease_time)
    start = setup.clock.present
    holds = [setup.hold(each, lease_time=lease_time) for each in range(number)]
    for hold in holds:
        make_lease(hold)
    asked: list[int] = []
    moments: list[float] = []
    while sum(asked) < number:
        (moment,) = setup.clock.pending
        before = len(setup.executor.renewals)
        setup.clock.sleep(moment - setup.clock.present)
        if renewals := setup.executor.renewals[before:]:
            asked.append(sum(len(each.owners) for each in renewals))
            moments.append(setup.clock.present)
    assert asked == rounds
    period = lease_time / 3
    assert SPREAD * period * 0.8 < moments[-1] - moments[0] <= SPREAD * period
    assert moments[0] <= start + period, "the first of them in time"
    owners = [owner for renewal in setup.executor.renewals for owner in renewal.owners]
    assert owners == [hold.field for hold in holds]
    setup.watchdog.check()


async def test_a_batch_holds_only_what_one_script_may_touch(setup: Setup) -> None:
    other = setup.ownership("k9")
    other.commands.renew_script = parse(DOOR)
    setup.executor.groups = {b"k2": 7}
    for hold in (setup.hold(1), setup.hold(2), setup.hold(3), setup.hold(9, ownership=other)):
        make_lease(hold)
    setup.clock.sleep(LEASE / 3)
    batches = {(each.script.name, *each.keys) for each in setup.executor.renewals}
    assert batches == {("lock.renew", b"k1", b"k3"), ("lock.renew", b"k2"), ("door.keep", b"k9")}


async def test_an_answer_that_does_not_come_splits_nothing(setup: Setup) -> None:
    for number in range(8):
        make_lease(setup.hold(number))
    setup.clock.sleep(LEASE / 3)
    await setup.last.fail(NO_ANSWER)
    assert len(setup.executor.renewals) == 1
    setup.clock.sleep(LEASE / 30 + 0.01)
    assert [len(renewal.owners) for renewal in setup.executor.renewals] == [8, 8]


async def test_not_the_owner_is_lost_at_once_and_only_that_hold(
    setup: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    lost, kept = setup.hold(1), setup.hold(2)
    leases = [make_lease(lost), make_lease(kept)]
    setup.clock.sleep(LEASE / 3)
    await setup.last.answer(0, 1)
    assert [lease.lost for lease in leases] == [True, False]
    assert leases[0]._reason == "taken"
    assert (lost.state, kept.state) == ("lost", "held")
    assert [*setup.watchdog.holds] == [kept]
    assert setup.context.losses == 1
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage() == (
        "lost lock 'k1': taken: on the server another owner holds it, or nobody does"
        " (owner c:1, held for 10.000 s)"
    )
    for hold in (lost, kept):
        hold.check()


@pytest.mark.parametrize("lease_time", [LEASE, 3.0])
async def test_a_failed_renewal_is_unknown_and_asked_again_sooner(
    setup: Setup, lease_time: float
) -> None:
    setup.context = FakeContext(setup.new_watchdog(lease_time))
    hold = setup.hold(lease_time=lease_time)
    lease = make_lease(hold)
    setup.clock.sleep(lease_time / 3)
    await setup.last.fail(NO_ANSWER)
    assert not lease.lost
    setup.clock.sleep(lease_time / 30 + 0.001)
    assert len(setup.executor.renewals) == 2
    await setup.last.answer(1)
    assert hold.ends_at > setup.clock.present + lease_time * 0.95


@pytest.mark.parametrize(
    "error",
    [ConnectionLostError("no answer", maybe_held=False), BackendError("NOPERM"), ReplyError("OOM")],
)
async def test_no_error_makes_a_lease_lost_before_its_end(
    setup: Setup, error: BackendError
) -> None:
    hold = setup.hold()
    lease = make_lease(hold)
    ends_at = hold.ends_at
    while setup.clock.present < ends_at - 0.5:
        setup.clock.sleep(0.25)
        for renewal in setup.executor.unanswered:
            await renewal.fail(error)
        assert not lease.lost
    assert len(setup.executor.renewals) > 5
    setup.clock.sleep(ends_at - setup.clock.present - 0.001)
    assert lease._state == "held"
    setup.clock.sleep(0.002)
    assert (lease._state, lease._reason) == ("lost", "expired")


async def test_a_renewal_is_given_up_in_time_to_ask_again(setup: Setup) -> None:
    make_lease(hold := setup.hold())
    setup.clock.sleep(LEASE / 3)
    assert setup.clock.present + setup.last.seconds + LEASE / 30 < hold.ends_at


async def test_after_closing_an_answer_changes_nothing_any_more(
    setup: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    make_lease(setup.hold())
    setup.clock.sleep(LEASE / 3)
    setup.watchdog.close()
    await setup.last.fail(ConnectionLostError("gone", maybe_held=False))
    assert setup.clock.pending == []
    assert setup.context.losses == 0
    setup.executor.renewals.clear()
    gc.collect()
    assert caplog.records == [], "an error that nobody looked at is reported when it is collected"


@pytest.mark.parametrize(("late", "counted"), [(LEASE / 3 - 0.1, 0), (LEASE / 3 + 0.1, 1)])
async def test_a_renewal_with_less_than_a_third_left_is_late(
    setup: Setup, late: float, counted: int
) -> None:
    recorder = Recorder()
    setup.context.teller = Teller(recorder)
    hold = setup.hold(1)
    lease = make_lease(hold)
    setup.clock.sleep(LEASE / 3)
    setup.clock.sleep(late)
    remaining = lease.remaining
    await setup.last.answer(1)
    assert setup.context.counts.late_renewals == len(recorder.events) == counted
    for event in recorder.events:
        assert event == RenewedLateEvent("k1", "lock", "c:1", event.late, remaining)
        assert event.late == pytest.approx(late)
    # In time again.
    setup.clock.sleep(LEASE / 3)
    await setup.executor.answer_all()
    assert len(recorder.events) == counted


async def test_a_crowd_of_refused_keys_is_reported_in_one_record_and_halved_once(
    setup: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    number = 3 * BATCH_HOLDS
    leases = [make_lease(setup.hold(each)) for each in range(number)]
    setup.executor.refused = {b"k%d" % each for each in range(number)}
    while setup.clock.present < 1000 + LEASE:
        setup.clock.sleep(0.1)
        await setup.executor.answer_all()
    assert all(lease.lost for lease in leases)
    halving = 3 * (2 * BATCH_HOLDS - 1)
    asked_in_vain = len(setup.executor.renewals) - halving
    # One command a batch, at intervals that grow to a sixth of the lease.
    assert 3 * 3 <= asked_in_vain <= 3 * 12
    records = [text for text in caplog.messages if "refused to renew" in text]
    assert sum(int(record.split()[5]) for record in records) == number, "each once"
    assert len(records) <= 3, "not more than batches"


async def test_what_the_server_refuses_whatever_the_key_is_one_refusal(
    setup: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(3 * BATCH_HOLDS):
        make_lease(setup.hold(number))
    error = ReplyError("NOPERM User x has no permissions to run the 'evalsha' command")
    asked = 0
    while setup.clock.present < 1000 + LEASE * 0.8:
        setup.clock.sleep(0.05)
        for renewal in list(setup.executor.unanswered):
            assert len(renewal.owners) == BATCH_HOLDS, "nothing is halved"
            asked += 1
            await renewal.fail(error)
    assert 3 * 3 <= asked <= 3 * 12
    assert len(caplog.records) == 1
    # It is news again after a renewal.
    await (await answer_next(setup)).answer(*[1] * BATCH_HOLDS)
    await (await answer_next(setup)).fail(error)
    assert len(caplog.records) == 2


async def answer_next(setup: Setup) -> Renewal:
    """Return the next renewal without an answer."""
    while not setup.executor.unanswered:
        setup.clock.sleep(0.05)
    return setup.executor.unanswered[0]


async def test_a_closed_client_asks_nothing_and_says_so_once(
    setup: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    make_lease(setup.hold())
    setup.executor.closed = True
    setup.clock.sleep(LEASE / 3)
    assert [record.getMessage() for record in caplog.records] == [
        "renewal failed: the client is closed"
    ]
    setup.watchdog.close()
    assert setup.clock.pending == []
